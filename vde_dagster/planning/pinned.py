"""Reading a table as one Iceberg snapshot had it, under the columns of a later schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import quote


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table as one Iceberg snapshot had it.

    Args:
        snapshot_id: The snapshot; None for a table that had none, and so no rows.
        columns: Spark SQL type by column, as the table had them when it was published; empty
            where only which state it is matters.
        there: The same of the snapshot's own schema, with which engines read it.
    """

    snapshot_id: int | None
    columns: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)

    def needs(self, column: str) -> tuple[bool, str | None]:
        """Say how a column is read.

        Returns:
            Whether the snapshot has it (else it is NULL), and the type that it has to be cast to.
        """
        has = self.snapshot_id is not None and (column in self.there or not self.columns)
        type_ = self.columns.get(column)
        return has, None if has and self.there.get(column) == type_ else type_


def pinned_select(table: str, pinned: PinnedTable, columns: Iterable[tuple[str, str]]) -> str:
    """Return the Spark SQL that reads columns of a table as of a snapshot.

    Args:
        table: The table's full name, quoted for Spark SQL.
        pinned: The snapshot.
        columns: (output column, physical column), in order.

    >>> state = PinnedTable(7, {"a": "BIGINT", "b": "INT"}, {"a": "INT"})
    >>> pinned_select("`t`", state, [("x", "a"), ("b", "b")])
    'SELECT CAST(`a` AS BIGINT) AS `x`, CAST(NULL AS INT) AS `b` FROM `t` VERSION AS OF 7'
    """
    listed = ", ".join(_column(pinned, *column) for column in columns)
    if pinned.snapshot_id is None:
        return f"SELECT {listed} WHERE false"
    return f"SELECT {listed} FROM {table} VERSION AS OF {pinned.snapshot_id}"


def _column(pinned: PinnedTable, output: str, physical: str) -> str:
    there, type_ = pinned.needs(physical)
    value = quote(physical) if there else "NULL"
    if type_ is not None:
        value = f"CAST({value} AS {type_})"
    return value if value == quote(output) else f"{value} AS {quote(output)}"


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
    columns = dict(wanted)
    pinned = PinnedTable(snapshot_id, columns, there)
    return pinned_select(table, pinned, ((name, name) for name in columns))
