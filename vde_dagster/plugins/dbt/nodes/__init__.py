"""Conversion of a dbt node to a model, by part of the node.

`kinds`, `incremental` and `snapshots` convert its materialization, `audits` and `unit_tests` its
tests, `statements` its hooks and grants, `outside` its names in Dagster.
"""
