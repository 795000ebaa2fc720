"""Conversion of a dbt node's materialization and configuration to a model kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.kinds import Kind
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.nodes.incremental import Filling, incremental_filling
from vde_dagster.plugins.dbt.nodes.snapshots import snapshot_kind

_SIMPLE_KINDS = {
    "view": "VIEW",
    "table": "FULL",
    "ephemeral": "EMBEDDED",
    **dict.fromkeys(("materialized_view", "dynamic_table"), "FULL"),
}
_REFRESHES = ("auto", "changes", "whole")
_REFRESH_MODES = {"AUTO": "auto", "INCREMENTAL": "changes", "FULL": "whole"}
"""Values of `Full.refresh`, by `refresh_mode` of Snowflake's dynamic tables."""
_NULLS = ("", "null", "NULL", "Null")
"""CSV values that dbt reads as NULL; dbt-duckdb leaves the reading to DuckDB."""


def read_filling(
    node: Node, later: str | None, path: Path, adapter: str, dialect: str, location: SourceLocation
) -> Filling:
    """Convert a node's materialization to a kind.

    Args:
        later: An incremental model's compiled code where `is_incremental()` is true, if known.
        path: The node's file, relative to the root.

    Raises:
        ProjectError: The materialization is not supported, or the configuration is invalid.
    """
    plain = _SIMPLE_KINDS.get(node.materialized)
    if plain is not None:
        return Filling(Kind.named(plain))
    if node.materialized == "seed":
        delimiter = str(node.config.get("delimiter") or ",")
        by_duckdb = adapter == "duckdb" and node.config.get("fast", True)
        nulls = ("",) if by_duckdb else _NULLS
        read = {"delimiter": delimiter, "missing": "given", "null_values": nulls}
        return Filling(Kind.named("SEED", path=f"$root/{path}", csv_settings=read))
    try:
        if node.materialized == "incremental":
            return incremental_filling(node, later, adapter, dialect, location)
        if node.materialized == "snapshot":
            return Filling(snapshot_kind(node, dialect))
    except ValueError as error:
        raise configuration_error(node, error, location) from None
    known = ", ".join((*_SIMPLE_KINDS, "incremental", "snapshot", "seed"))
    raise ProjectError(
        f"'{node.name}' is materialized as '{node.materialized}', which is not supported",
        hint=f"materializations: {known}",
        location=location,
    )


def with_refresh(kind: Kind, node: Node, meta: Mapping[str, Any]) -> Kind:
    """Return a kind with the node's configured `refresh`, see `Full.refresh`.

    Args:
        meta: The node's whole `meta`; its key `vde` is read.

    Raises:
        ValueError: The value is unknown, or the kind is not FULL.
    """
    own = meta.get("vde")
    given = own.get("refresh") if isinstance(own, Mapping) else None
    where = "refresh" if given is None else "meta.vde.refresh"
    if given is None:
        given = node.config.get("refresh")
    if given is None and node.materialized == "dynamic_table":
        given = _REFRESH_MODES.get(str(node.config.get("refresh_mode") or "").upper())
    if given is None:
        return kind
    if given not in _REFRESHES:
        raise ValueError(f"{where} must be one of {', '.join(_REFRESHES)}, not '{given}'")
    if kind.name != "FULL":
        raise ValueError(f"{where} is for nodes of kind FULL, and this one is {kind.name}")
    return Kind.named("FULL", refresh=given)


def configuration_error(node: Node, error: ValueError, location: SourceLocation) -> ProjectError:
    return ProjectError(
        f"the configuration of '{node.name}' cannot be read: {error}",
        hint="correct it in dbt, and run `dbt compile`",
        location=location,
    )
