"""Conversion of a dbt node to a model, by part of the node.

`kinds`, `incremental` and `snapshots` convert the materialization, `audits` and `unit_tests` the
tests, `statements` hooks and grants, `outside` names in Dagster.
"""
