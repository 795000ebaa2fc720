"""Making and applying plans, and everything that is asked of a published environment.

`Workspace` is the door for the command line, Dagster and programs; `Warehouse` is what
everything takes: settings, state store, catalog and engine. What happens during an apply is
told as `events`.
"""
