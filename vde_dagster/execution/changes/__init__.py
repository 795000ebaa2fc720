"""Changes of rows of a published view between two versions of its environment.

`planning.changes` pairs columns and builds the query. Here both versions are read at their pins
(`compare_versions`), either once or version by version (`between`). `reading` is the workspace's
facet, with the cursors of consumers. `views` defines production's views of changes; `followers`
updates them after each publication.
"""
