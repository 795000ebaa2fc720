"""Creation and application of plans, and all operations on a published environment.

Functions take `Handles`: a project's settings, files, state store, catalog and engine. `Workspace`
adds the operations for the command line, Dagster and programs, by facet: `plans`, `environments`,
`changes`, `queries`, `models`, `maintenance`. An apply reports its progress as `events`.
"""
