"""Reading a table as one Iceberg snapshot had it, under the columns of a later schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vde_dagster.base.names import quote


def pinned_query(
    table: str,
    snapshot_id: int | None,
    wanted: Iterable[tuple[str, str]],
    there: Mapping[str, str],
) -> str:
    """Return the query that reads a table's columns as of a snapshot.

    Engines read a snapshot with the schema that it was written with. A column that the table got
    later is NULL in all of its rows, and one whose type was widened later has that type.

    Args:
        table: The table's full name, quoted for Spark SQL.
        snapshot_id: The Iceberg snapshot; None for a table that had none, and so no rows.
        wanted: (column, Spark SQL type), as the table had them when it was published.
        there: Spark SQL type by column, of the snapshot's own schema.

    >>> pinned_query("`c`.`n`.`t`", 7, [("a", "BIGINT"), ("b", "INT")], {"a": "INT"})
    'SELECT CAST(`a` AS BIGINT) AS `a`, CAST(NULL AS INT) AS `b` FROM `c`.`n`.`t` VERSION AS OF 7'
    """
    if snapshot_id is None:
        return f"SELECT {', '.join(_typed('NULL', *column) for column in wanted)} WHERE false"
    columns = ", ".join(
        quote(name)
        if there.get(name) == type_
        else _typed(quote(name) if name in there else "NULL", name, type_)
        for name, type_ in wanted
    )
    return f"SELECT {columns} FROM {table} VERSION AS OF {snapshot_id}"


def _typed(value: str, name: str, type_: str) -> str:
    return f"CAST({value} AS {type_}) AS {quote(name)}"
