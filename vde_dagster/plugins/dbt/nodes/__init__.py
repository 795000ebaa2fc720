"""What a node of dbt's becomes here, part by part.

`kinds` says which kind its materialization is, with `incremental` and `snapshots` for those that
need more; `audits` and `unit_tests` are its tests; `statements` is its hooks and
grants, `options` its other configuration, and `outside` its names in Dagster.
"""
