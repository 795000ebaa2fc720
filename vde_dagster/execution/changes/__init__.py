"""Changes of rows of a published view between two versions of its environment.

`planning.changes` pairs columns and builds the query. `compare_versions` reads both versions at
their pins; `between` compares them at once or version by version. `reading` is the workspace's
facet, with the cursors of consumers. `views` defines production's views of changes; `view_updates`
updates these views after each publication.
"""
