"""Changes of rows of a published view between two versions of its environment.

`planning.changes` pairs columns and writes the one query; here both versions are read at their
pins (`compare_versions`), at once or version by version (`between`). `followers` keeps the
cursors of consumers, and `views` defines the views of changes that production may show.
"""
