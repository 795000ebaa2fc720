"""Changes of rows of a published view between two versions of its environment.

`planning.changes` pairs columns and writes the one query; here both versions are read at their
pins (`compare_versions`), at once or version by version (`between`). `reading` is the door's facet,
with the cursors of consumers. `views` defines the views of changes that production may show, and
`followers` lets them follow its publications.
"""
