"""dbt projects as a source of models, read from dbt's manifest; dbt is never imported.

`compiling` runs dbt, which writes the manifest. dbt does not compile hooks, so `hooks` has dbt
render them. `manifest` divides the manifest into units: a node with its tests. Only units that
changed are read again. `models` converts a unit to a model: `nodes` converts its configuration and
its tests, `relations` replaces names of tables in its compiled code.
"""
