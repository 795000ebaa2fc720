"""Making and applying plans, and everything that is asked of a published environment.

`Workspace` is the door for the command line, Dagster and programs: a `Warehouse` (project, state
store, catalog and engine, which everything here takes) with facets: `plans`, `environments`,
`changes`, `queries`, `models`, `maintenance`. What happens during an apply is told as `events`.
"""
