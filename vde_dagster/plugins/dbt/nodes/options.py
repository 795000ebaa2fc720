"""Partition columns of dbt nodes, and their options that are not supported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vde_dagster.api.sql import in_spark
from vde_dagster.plugins.dbt.manifest import Node

_SUPPORTED = frozenset(
    {"enabled", "alias", "schema", "database", "tags", "meta", "group", "materialized", "docs"}
    | {"contract", "access", "column_types", "delimiter", "unique_key", "packages", "event_time"}
    | {"incremental_strategy", "batch_size", "lookback", "begin", "full_refresh", "partition_by"}
    | {"refresh", "refresh_mode"}
    | {"pre-hook", "post-hook", "merge_update_columns", "merge_exclude_columns", "predicates"}
    | {"incremental_predicates", "on_schema_change", "on_configuration_change", "strategy"}
    | {"concurrent_batches", "updated_at", "check_cols", "invalidate_hard_deletes"}
    | {"hard_deletes", "target_schema", "target_database", "snapshot_meta_column_names", "fast"}
    | {"dbt_valid_to_current"}
    | {"config_keys_used", "config_keys_defaults", "meta_keys_used", "meta_keys_defaults"}
)
"""Supported configuration of all nodes, or of nodes of one kind."""
_SOURCE_OPTIONS = frozenset({"freshness", "loaded_at_field"})
"""Supported configuration of sources, which has another meaning for models."""
_WITHOUT_EFFECT = frozenset({"quoting", "quote_columns", "persist_docs", "static_analysis"})
"""Configuration without effect: names are always quoted, and descriptions kept."""


def partitions(node: Node, dialect: str) -> tuple[str, ...]:
    """Convert `partition_by` to Iceberg's transforms.

    Raises:
        ValueError: The form of `partition_by` is unknown.
    """
    given = node.config.get("partitioned_by" if dialect == "athena" else "partition_by")
    if not given:
        return ()
    if isinstance(given, Mapping):  # BigQuery's.
        column, unit = str(given.get("field") or ""), str(given.get("granularity") or "day")
        if given.get("data_type", "date") == "int64" or not column:
            raise ValueError("partition_by needs a `field`, and its `data_type` cannot be int64")
        is_day = given.get("data_type", "date") == "date" and unit == "day"
        return (column if is_day else f"{unit}s({column})",)
    return tuple(
        in_spark(str(one), dialect, is_partition=True)
        for one in (given if isinstance(given, list) else [given])
    )


def ignored_options(node: Node, *, grants: bool) -> Iterator[str]:
    """Yield the names of a node's unsupported options; with `grants`, grants are supported."""
    if node.deprecation_date:
        yield "deprecation_date"
    for key, value in node.config.items():
        known = (
            key in _SUPPORTED
            or key in _WITHOUT_EFFECT
            or (node.resource_type == "source" and key in _SOURCE_OPTIONS)
            or (grants and key == "grants")
        )
        if not known and _is_set(value):
            yield key
    for one in [*node.constraints, *(one for c in node.columns.values() for one in c.constraints)]:
        if one.get("type") in ("foreign_key", "custom"):
            yield f"constraints of type {one['type']}"


def _is_set(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_set, value.values()))
    return value not in (None, [], "", False)
