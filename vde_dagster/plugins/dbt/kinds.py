"""The kind of a dbt node: what its materialization and configuration are here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.project.kinds import (
    Embedded,
    Full,
    IncrementalByUniqueKey,
    IncrementalUnmanaged,
    Kind,
    ScdType2ByColumn,
    ScdType2ByTime,
    Seed,
    View,
)
from vde_dagster.project.kinds.scd_type_2 import ALL, column_part, columns_of
from vde_dagster.project.kinds.unique_key import Clause
from vde_dagster.sql.expressions import in_spark, read_expression
from vde_dagster.sql.scanner import tokens_of

_PLAIN: Mapping[str, type[Kind]] = {"view": View, "table": Full, "ephemeral": Embedded}
_NULLS = ("", "null", "NULL", "Null")
"""Values of CSV files that dbt reads as NULL."""

_WHOLE = "incremental models of which one branch is known, computed whole"
_MERGED = "incremental models of which one branch is known, whose whole query is merged"


def kind_of(
    node: Node, path: Path, dialect: str, location: SourceLocation
) -> tuple[Kind, tuple[str, ...]]:
    """Return a node's kind, and what of its configuration has no meaning here, in words.

    Args:
        path: Its file, relative to the root.

    Raises:
        ProjectError: It is of a kind that cannot be had here, or its configuration is wrong.
    """
    if node.language != "sql":
        raise ProjectError(
            f"'{node.name}' is a model in {node.language.title()}, which is not read from dbt yet",
            hint="write it as a Python model of the project's own",
            location=location,
        )
    plain = _PLAIN.get(node.materialized)
    if plain is not None:
        return plain(), ()
    if node.materialized == "seed":
        delimiter = str(node.config.get("delimiter") or ",")
        kind = Seed(path=f"$root/{path}", delimiter=delimiter, missing="given", null_values=_NULLS)
        return kind, ()
    try:
        if node.materialized == "incremental":
            return _incremental(node, dialect, location)
        if node.materialized == "snapshot":
            return _snapshot(node, dialect)
    except ValueError as error:
        raise ProjectError(
            f"the configuration of '{node.name}' cannot be read: {error}",
            hint="correct it in dbt, and run `dbt compile`",
            location=location,
        ) from None
    known = ", ".join((*_PLAIN, "incremental", "snapshot", "seed"))
    raise ProjectError(
        f"'{node.name}' is materialized as '{node.materialized}', which there is not here",
        hint=f"materializations: {known}",
        location=location,
    )


def _incremental(
    node: Node, dialect: str, location: SourceLocation
) -> tuple[Kind, tuple[str, ...]]:
    config = node.config
    if node.relation_name and node.relation_name in (node.compiled_code or ""):
        raise ProjectError(
            f"'{node.name}' was compiled for a table that exists, so that its query reads itself",
            hint="run `dbt compile --full-refresh`",
            location=location,
        )
    branches = "is_incremental()" in node.raw_code
    strategy = str(config.get("incremental_strategy") or "merge")
    key = _texts(config.get("unique_key"))
    unread = [
        name
        for name in ("incremental_predicates", "predicates", "merge_exclude_columns")
        if config.get(name)
    ]
    if key and strategy in ("merge", "delete+insert"):
        updated = _texts(config.get("merge_update_columns"))
        sets: tuple[Clause, ...] = ()
        if updated:
            sets = (("", tuple((name, f"source.{column_part(name)}") for name in updated)),)
        columns, expressions = _key(key, dialect)
        given = {"unique_key": (columns, expressions), "when_matched": sets}
        return IncrementalByUniqueKey.of(given), (*([_MERGED] if branches else []), *unread)
    if strategy in ("merge", "append") and not branches:
        return IncrementalUnmanaged(), ("incremental models without a key, which append", *unread)
    told = _WHOLE if branches else f"incremental models of strategy {strategy}, computed whole"
    return Full(), (told, *unread)


def _snapshot(node: Node, dialect: str) -> tuple[Kind, tuple[str, ...]]:
    config = node.config
    names: dict[str, Any] = config.get("snapshot_meta_column_names") or {}
    deletes = str(config.get("hard_deletes") or "ignore")
    invalidates = deletes != "ignore" or bool(config.get("invalidate_hard_deletes"))
    key, key_expressions = _key(_texts(config.get("unique_key")), dialect)
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
        columns, expressions = _key([str(updated_at)], dialect)
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
            columns=ALL if compared in ("all", ["all"], None) else tuple(_texts(compared)),
            execution_time_as_valid_from=True,
            updated_at_name=str(updated_at) if updated_at else None,
            valid_from_name=valid_from,
            valid_to_name=valid_to,
            invalidate_hard_deletes=invalidates,
        ),
        tuple(unread),
    )


def _texts(value: Any) -> list[str]:
    if not value:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _key(parts: list[str], dialect: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a key's columns, and its expressions in Spark SQL.

    Raises:
        ValueError: One is no expression.
    """
    columns, expressions = [], []
    for part in parts:
        tokens = tokens_of(part)
        if len(tokens) == 1 and tokens[0].kind in ("word", "quoted", "string"):
            columns.append(tokens[0].text.strip('`"'))
        else:
            text = in_spark(part, dialect)
            if not read_expression(text).mentions or not columns_of(text):
                raise ValueError(f"'{part}' names no column")
            expressions.append(text)
    return tuple(columns), tuple(expressions)
