"""Changes of rows of a published view between two versions of its environment.

`planning.changes` pairs columns and builds the query; here both versions are read at their pins
(`compare_versions`), at once or version by version (`between`). `reading` is the workspace's facet,
with the cursors of consumers. `views` defines the views of changes in production, and `followers`
updates them after its publications.
"""
