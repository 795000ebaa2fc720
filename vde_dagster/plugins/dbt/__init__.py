"""dbt projects as a source of models, read from dbt's manifest; dbt runs in its own process.

`compiling` runs dbt, which writes the manifest. `manifest` reads it, and `units` divides it: a unit
is a node with its tests. `models` converts each changed unit to a model.
"""
