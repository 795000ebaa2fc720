"""Conversion of a dbt node to a model, by part of the node.

`kinds` converts its materialization, with `incremental` and `snapshots`; `audits` and `unit_tests`
its tests; `statements` its hooks and grants; `options` its other configuration; `outside` its names
in Dagster; and `seed_types` infers types of seeds.
"""
