"""Making and applying plans, and everything that is asked of a published environment.

`Workspace` is the door for the command line, Dagster and programs, and what everything here takes:
a project with its state store, catalog and engine, and facets: `plans`, `environments`, `changes`,
`queries`, `models`, `maintenance`. What happens during an apply is told as `events`.
"""
