"""Reads of a table as of one Iceberg snapshot, and of the commits since another snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from vde_dagster.base.names import quote
from vde_dagster.planning.tables.nested_fields import ShownFields


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table at one Iceberg snapshot.

    Args:
        snapshot_id: None for a table without rows.
        columns: Spark SQL types to read the columns as; empty to read all without casts.
        there: Spark SQL types of the columns in the Iceberg snapshot, as engines read them.
    """

    snapshot_id: int | None
    columns: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)

    def column_and_cast(self, column: str) -> tuple[bool, str | None]:
        """Return whether the table then had a column, and the type to cast it to, if any."""
        has = self.snapshot_id is not None and (column in self.there or not self.columns)
        type_ = self.columns.get(column)
        return has, None if has and self.there.get(column) == type_ else type_


def pinned_select(
    table: str,
    pinned: PinnedTable,
    columns: Iterable[tuple[str, str]],
    fields: Mapping[str, ShownFields] = MappingProxyType({}),
) -> str:
    """Return the Spark SQL that reads columns of a table as of an Iceberg snapshot.

    Args:
        table: The table's full name, quoted for Spark SQL.
        columns: (output column, physical column), in order.
        fields: How to read nested columns, by output column.

    >>> state = PinnedTable(7, {"a": "BIGINT", "b": "INT"}, {"a": "INT"})
    >>> pinned_select("`t`", state, [("x", "a"), ("b", "b")])
    'SELECT CAST(`a` AS BIGINT) AS `x`, CAST(NULL AS INT) AS `b` FROM `t` VERSION AS OF 7'
    """
    # Engines read a snapshot with the schema that it was written with. A column that the table got
    # later is NULL in all rows. A column that was widened later is cast to the wider type.
    listed = ", ".join(_column(pinned, *column, fields.get(column[0])) for column in columns)
    if pinned.snapshot_id is None:
        return f"SELECT {listed} WHERE false"
    return f"SELECT {listed} FROM {table} VERSION AS OF {pinned.snapshot_id}"


def _column(
    pinned: PinnedTable, output: str, physical: str, fields: ShownFields | None = None
) -> str:
    there, type_ = pinned.column_and_cast(physical)
    value, has = quote(physical) if there else "NULL", pinned.there.get(physical)
    if fields is not None:
        named = fields.value(value, has) if there else value
        value = named if type_ is None else f"CAST({named} AS {fields.shown})"
    elif type_ is not None and has is not None and "<" in type_:
        from vde_dagster.sql.casts import cast_by_name

        value = cast_by_name(value, has, type_, strict=False)
    elif type_ is not None:
        value = f"CAST({value} AS {type_})"
    return value if value == quote(output) else f"{value} AS {quote(output)}"


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A commit in a table's history that has not expired, with its known effect on rows.

    Args:
        parent_id: The previous commit, or None for the first.
        quiet: Whether no row was added or removed, for example because files were only rewritten.
        ours: Whether the commit is a fill.
        appends: Whether the commit only added rows.
        has_deletes: Whether delete files or deletion vectors may apply to the table at this commit.
        rows_moved: Number of rows that it wrote and removed, including copied rows, if known.
        rows: Number of rows of the table at this commit, if known.
        has_lineage: Whether every row of the table has a row id at this commit.
    """

    snapshot_id: int
    parent_id: int | None
    quiet: bool
    ours: bool = False
    appends: bool = False
    sequence: int = 0
    has_deletes: bool = True
    rows_moved: int | None = None
    rows: int | None = None
    has_lineage: bool = False


class Input(Enum):
    """How much of a parent a fill reads."""

    WHOLE = "whole"
    """All rows."""
    BY_INTERVAL = "by interval"
    """The rows that the query selects for the interval that is filled."""
    BY_COMMITS = "by commits"
    """The rows added since the previous fill, or all rows if the parent lost or changed rows."""
    BY_CHANGES = "by changes"
    """All rows of keys changed since the previous fill, or all rows if the keys are unknown."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """Consecutive commits of one table, or all of its rows at one commit.

    Args:
        since: The Iceberg snapshot after which the range begins; None for all rows at `until`.
        until: The range's last Iceberg snapshot; None for a table without a snapshot.
    """

    since: int | None
    until: int | None

    @property
    def clause(self) -> str:
        """The clause after the table's name in Spark SQL.

        >>> CommitRange(None, 7).clause, CommitRange(7, 7).clause
        (' VERSION AS OF 7', ' VERSION AS OF 7 WHERE false')
        >>> CommitRange(7, 9).clause
        " WITH (`start-snapshot-id` = '7', `end-snapshot-id` = '9')"
        """
        # Iceberg reads the rows added between two snapshots with read options:
        # https://iceberg.apache.org/docs/latest/spark-queries/#incremental-read
        if self.until is None:
            return ""
        if self.since is None:
            return f" VERSION AS OF {self.until}"
        if self.since == self.until:
            return f" VERSION AS OF {self.until} WHERE false"
        return f" WITH (`start-snapshot-id` = '{self.since}', `end-snapshot-id` = '{self.until}')"


def range_since(line: Sequence[KeptCommit], since: int | None) -> CommitRange:
    """Return the commits of a table that a reader has not read yet.

    Args:
        line: The table's commits that have not expired, newest first.
        since: The last Iceberg snapshot that the reader has read.
    """
    # The range starts after the last read if every later commit only added rows. Otherwise (rows
    # were changed or removed, or the last read commit has expired) the range covers all rows, which
    # replace everything read before.
    until = line[0].snapshot_id if line else None
    for commit in line:
        if commit.snapshot_id == since:
            return CommitRange(since, until)
        if not (commit.quiet or commit.appends):
            break
    return CommitRange(None, until)
