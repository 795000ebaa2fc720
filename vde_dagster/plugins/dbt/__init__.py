"""dbt projects as a source of models, read from the manifest that dbt compiled; dbt is never
imported.

`compiling` lets dbt write it, and render `hooks`, which no manifest has compiled. `manifest` is
divided into units, a node with its tests each, so that a changed node is read alone. `models`
converts a unit to a model: `nodes` converts its configuration and its tests, and `relations` the
names of tables in its compiled code.
"""
