"""Snapshots: a table with every version of a row, and a view of it with dbt's own columns.

The table has the columns of the query, the start and the end of each version, and, if deletions are
recorded as rows, `dbt_is_deleted`. A view computes everything else that dbt adds: `dbt_scd_id`,
`dbt_updated_at` and `dbt_valid_to_current`. Source:
https://docs.getdbt.com/reference/resource-configs/snapshot_meta_column_names
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Model
from vde_dagster.api.sql import in_spark
from vde_dagster.api.values import ModelName, quote
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.nodes.incremental import list_texts, quote_key_column, read_key

_VERSIONS = "__versions"
"""Suffix of the table's name; the view has the snapshot's name."""
_DELETES = ("ignore", "invalidate", "new_record")


def snapshot_kind(node: Node, dialect: str) -> Kind:
    """Convert a snapshot's configuration to the kind of its table.

    Raises:
        ValueError: The configuration is wrong.
    """
    config = node.config
    shared: dict[str, Any] = {
        "unique_key": _read_unique_key(config, dialect),
        "valid_from_name": _added_column_name(config, "dbt_valid_from"),
        "valid_to_name": _added_column_name(config, "dbt_valid_to"),
        "invalidate_hard_deletes": _read_hard_deletes(config) != "ignore",
        "as_dbt": True,
    }
    if _read_hard_deletes(config) == "new_record":
        shared["deleted_name"] = _added_column_name(config, "dbt_is_deleted")
    updated_at = _read_updated_at(config, dialect)
    if config.get("strategy") == "timestamp":
        if updated_at is None:
            raise ValueError("a snapshot of strategy timestamp needs an updated_at")
        shared |= {"updated_at_name": updated_at, "updated_at_as_valid_from": True}
        return Kind.named("SCD_TYPE_2_BY_TIME", **shared)
    if config.get("strategy") != "check":
        raise ValueError(f"strategy '{config.get('strategy')}' is neither timestamp nor check")
    compared = config.get("check_cols")
    return Kind.named(
        "SCD_TYPE_2_BY_COLUMN",
        columns=("*",) if compared in ("all", ["all"], None) else tuple(list_texts(compared)),
        execution_time_as_valid_from=True,
        updated_at_name=updated_at,
        **shared,
    )


def _read_updated_at(config: Mapping[str, Any], dialect: str) -> str | None:
    given = config.get("updated_at")
    if not given:
        return None
    columns, expressions = read_key([str(given)], dialect)
    if expressions:
        raise ValueError(f"updated_at must be the name of a column, not '{given}'")
    return columns[0]


def split_snapshot(model: Model, node: Node, dialect: str) -> tuple[Model, Model]:
    """Divide a snapshot into a table of versions, and a view with the snapshot's name.

    Args:
        model: Model with a kind from `snapshot_kind`, and the snapshot's name, query and audits.

    Raises:
        ValueError: The snapshot's configuration is wrong.
    """
    name = ModelName(model.name.namespace, model.name.name + _VERSIONS)
    key = model.asset.key if model.asset is not None else ()
    asset = replace(model.asset, key=(*key[:-1], key[-1] + _VERSIONS)) if key else model.asset  # type: ignore[type-var]
    table = replace(
        model,
        name=name,
        description=f"All versions of the rows that the view {model.name} shows",
        column_descriptions={},
        audits=(),
        asset=asset,
        on_virtual_update=(),
    )
    view = replace(
        model,
        kind=Kind.named("VIEW"),
        query=_view_query(model.kind, node.config, name, dialect),
        dialect="spark",
        depends_on=(name,),
        pre_statements=(),
        post_statements=(),
        partitioned_by=(),
    )
    return table, view


def _read_unique_key(config: Mapping[str, Any], dialect: str) -> tuple[str, ...]:
    columns, expressions = read_key(list_texts(config.get("unique_key")), dialect)
    if not (columns or expressions):
        raise ValueError("a snapshot needs a unique_key")
    return (*map(quote_key_column, columns), *expressions)


def _view_query(kind: Kind, config: Mapping[str, Any], table: ModelName, dialect: str) -> str:
    unique_key = _read_unique_key(config, dialect)
    begin, end, *flags = (quote(column.name) for column in kind.added_columns)
    id_, updated = (
        quote(_added_column_name(config, one)) for one in ("dbt_scd_id", "dbt_updated_at")
    )
    current = config.get("dbt_valid_to_current")
    ends = in_spark(str(current), dialect) if current else ""
    key = " || '|' || ".join(f"COALESCE(CAST({one} AS STRING), '')" for one in unique_key)
    since = f"CAST(UNIX_MICROS({begin}) AS STRING)"
    if config.get("updated_at"):
        since = f"COALESCE({since}, '')"
    whose = f"{key} || '|' || {since}"
    rows = f"{quote(table.namespace)}.{quote(table.name)}"

    def until(instant: str) -> str:
        return f"COALESCE({instant}, CAST({ends} AS TIMESTAMP))" if ends else instant

    if not flags:
        return (
            f"SELECT * EXCEPT ({begin}, {end}), MD5({whose}) AS {id_}, {begin} AS {updated}, "
            f"{begin}, {until(end)} AS {end} FROM {rows}"
        )
    # Versions of an earlier release do not have the column: a key that is gone has none from when
    # its last one ended until the next one begins.
    (deleted,) = flags
    by = ", ".join(unique_key)
    whose = f"{whose} || IF({deleted} = 'True', '|', '')"
    gone = f"{whose} || '|' || CAST(UNIX_MICROS({end}) AS STRING)"
    return (
        f"WITH dbt_versions AS (SELECT *, LEAD({begin}) OVER (PARTITION BY {by} ORDER BY {begin}) "
        f"AS dbt_next FROM {rows}) "
        f"SELECT * EXCEPT ({begin}, {end}, {deleted}, dbt_next), MD5({whose}) AS {id_}, "
        f"{begin} AS {updated}, {begin}, {until(end)} AS {end}, "
        f"COALESCE({deleted}, 'False') AS {deleted} FROM dbt_versions "
        f"UNION ALL SELECT * EXCEPT ({begin}, {end}, {deleted}, dbt_next), MD5({gone}) AS {id_}, "
        f"{end} AS {updated}, {end} AS {begin}, {until('dbt_next')} AS {end}, 'True' AS {deleted} "
        f"FROM dbt_versions WHERE {deleted} IS NULL AND {end} IS NOT NULL "
        f"AND (dbt_next IS NULL OR dbt_next > {end})"
    )


def _read_hard_deletes(config: Mapping[str, Any]) -> str:
    value = str(config.get("hard_deletes") or "ignore")
    if value not in _DELETES:
        raise ValueError(f"hard_deletes must be one of {', '.join(_DELETES)}, not '{value}'")
    return "invalidate" if config.get("invalidate_hard_deletes") and value == "ignore" else value


def _added_column_name(config: Mapping[str, Any], name: str) -> str:
    names: Mapping[str, Any] = config.get("snapshot_meta_column_names") or {}
    return str(names.get(name) or name)
