"""dbt projects as a source of models, read from dbt's manifest; dbt is never imported.

`compiling` runs dbt, which writes the manifest and renders `hooks`: a manifest has no compiled
hooks. `manifest` divides it into units of a node with its tests, so that a changed node is read
alone. `models` converts a unit to a model: `nodes` converts its configuration and its tests, and
`relations` the names of tables in its compiled code.
"""
