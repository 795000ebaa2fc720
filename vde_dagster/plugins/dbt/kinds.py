"""The kind of a dbt node: what its materialization and configuration are here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.plugins.dbt.incremental import Filling, filling_of, key_of, texts
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.project.kinds import (
    Embedded,
    Full,
    Kind,
    ScdType2ByColumn,
    ScdType2ByTime,
    Seed,
    View,
)
from vde_dagster.project.kinds.scd_type_2 import ALL, column_part

_PLAIN: Mapping[str, type[Kind]] = {"view": View, "table": Full, "ephemeral": Embedded}
_NULLS = ("", "null", "NULL", "Null")
"""Values of CSV files that dbt reads as NULL."""


def filling(
    node: Node,
    later: str | None,
    path: Path,
    adapter: str,
    dialect: str,
    location: SourceLocation,
) -> Filling:
    """Return a node's kind, what its query is made of, and what of it has no meaning here.

    Args:
        later: An incremental model's compiled code where `is_incremental()` is true, if known.
        path: Its file, relative to the root.

    Raises:
        ProjectError: It is of a kind that cannot be had here, or its configuration is wrong.
    """
    plain = _PLAIN.get(node.materialized)
    if plain is not None:
        return Filling(plain())
    if node.materialized == "seed":
        delimiter = str(node.config.get("delimiter") or ",")
        kind = Seed(path=f"$root/{path}", delimiter=delimiter, missing="given", null_values=_NULLS)
        return Filling(kind)
    try:
        if node.materialized == "incremental":
            return filling_of(node, later, adapter, dialect, location)
        if node.materialized == "snapshot":
            kind_, unread = _snapshot(node, dialect)
            return Filling(kind_, unread=unread)
    except ValueError as error:
        raise misconfigured(node, error, location) from None
    known = ", ".join((*_PLAIN, "incremental", "snapshot", "seed"))
    raise ProjectError(
        f"'{node.name}' is materialized as '{node.materialized}', which there is not here",
        hint=f"materializations: {known}",
        location=location,
    )


def misconfigured(node: Node, error: ValueError, location: SourceLocation) -> ProjectError:
    """Return the error that says that a node's configuration is wrong."""
    return ProjectError(
        f"the configuration of '{node.name}' cannot be read: {error}",
        hint="correct it in dbt, and run `dbt compile`",
        location=location,
    )


def _snapshot(node: Node, dialect: str) -> tuple[Kind, tuple[str, ...]]:
    config = node.config
    names: dict[str, Any] = config.get("snapshot_meta_column_names") or {}
    deletes = str(config.get("hard_deletes") or "ignore")
    invalidates = deletes != "ignore" or bool(config.get("invalidate_hard_deletes"))
    key, key_expressions = key_of(texts(config.get("unique_key")), dialect)
    if not (key or key_expressions):
        raise ValueError("a snapshot has a unique_key")
    unread = ["columns dbt_scd_id and dbt_updated_at of snapshots"]
    unread += ["hard_deletes: new_record"] if deletes == "new_record" else []
    unread += ["dbt_valid_to_current"] if config.get("dbt_valid_to_current") else []
    unique_key = (*map(column_part, key), *key_expressions)
    valid_from = names.get("dbt_valid_from") or "dbt_valid_from"
    valid_to = names.get("dbt_valid_to") or "dbt_valid_to"
    updated_at = config.get("updated_at")
    if config.get("strategy") == "timestamp":
        if not updated_at:
            raise ValueError("a snapshot of strategy timestamp has an updated_at")
        columns, expressions = key_of([str(updated_at)], dialect)
        if expressions:
            raise ValueError(f"updated_at is a column here, and not '{updated_at}'")
        return (
            ScdType2ByTime(
                unique_key,
                updated_at_name=columns[0],
                updated_at_as_valid_from=True,
                valid_from_name=valid_from,
                valid_to_name=valid_to,
                invalidate_hard_deletes=invalidates,
            ),
            tuple(unread),
        )
    if config.get("strategy") != "check":
        raise ValueError(f"strategy '{config.get('strategy')}' is neither timestamp nor check")
    compared = config.get("check_cols")
    return (
        ScdType2ByColumn(
            unique_key,
            columns=ALL if compared in ("all", ["all"], None) else tuple(texts(compared)),
            execution_time_as_valid_from=True,
            updated_at_name=str(updated_at) if updated_at else None,
            valid_from_name=valid_from,
            valid_to_name=valid_to,
            invalidate_hard_deletes=invalidates,
        ),
        tuple(unread),
    )
