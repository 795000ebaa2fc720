"""Writing of FIRST_SEEN tables with a MERGE. The same MERGE again changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.api.errors import ExecutionError
from vde_dagster.api.plans import Snapshot
from vde_dagster.api.values import quote
from vde_dagster.api.writers import Layout, Strategy, Write
from vde_dagster.plugins.vault.kinds import FirstSeen

_NULL_IN = "vde_null_in "


@dataclass(frozen=True, slots=True)
class Earliest:
    """Writes the SQL that keeps the earliest row of each key.

    Args:
        types: Spark SQL type by column, in the table's order.
        key: Columns that identify a row.
        order: Columns that determine the earliest row.
        fields: The fields to compare, by column; see `Write.compared_fields`.
    """

    types: Mapping[str, str]
    key: Sequence[str]
    order: Sequence[str]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, source: str) -> str:
        """Write the query of the earliest row per key. The source is a relation for FROM."""
        names, by = ", ".join(map(quote, self.types)), ", ".join(map(quote, self.key))
        return (
            f"SELECT {names} FROM (SELECT {names}, ROW_NUMBER() OVER (PARTITION BY {by} "
            f"ORDER BY {self._rank()}) AS vde_row_number FROM {source} vde_new) vde_numbered "
            "WHERE vde_row_number = 1"
        )

    def merge(self, target: str, rows: str) -> str:
        """Write the MERGE that inserts new keys, and overwrites a row if an earlier one arrives."""
        on = " AND ".join(f"target.{quote(c)} = source.{quote(c)}" for c in self.key)
        # Without a WHEN MATCHED branch, Iceberg adds the rows without checking for conflicts.
        others = [name for name in self.types if name not in self.key] or self.key
        sets = ", ".join(f"{quote(c)} = source.{quote(c)}" for c in others)
        names = ", ".join(map(quote, self.types))
        values = ", ".join(f"source.{quote(c)}" for c in self.types)
        return (
            f"MERGE INTO {target} AS target\nUSING ({rows}) AS source\nON {on}\n"
            f"WHEN MATCHED AND {self._rank('source.')} < {self._rank('target.')} "
            f"THEN UPDATE SET {sets}\n"
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )

    def _rank(self, side: str = "") -> str:
        first = dict.fromkeys((*self.order, *(n for n in self.types if n not in self.key)))
        values = (
            Write.sortable(f"{side}{quote(name)}", self.types[name], self.fields.get(name))
            for name in first
        )
        return f"STRUCT({', '.join(values)})"


def without_nulls(source: str, columns: Iterable[str]) -> str:
    """Write a relation for FROM without the rows that have NULL in the given columns."""
    there = " AND ".join(f"{quote(column)} IS NOT NULL" for column in columns)
    return f"(SELECT * FROM {source} WHERE {there})" if there else source


def _fail_at_nulls(rows: str, types: Mapping[str, str], columns: Sequence[str]) -> str:
    """Write a query that returns the same rows, but fails if a given column has NULL."""
    # Without a window, Spark may check a row for NULL before a condition leaves the row out.
    checked = {
        name: f"COALESCE({quote(name)}, RAISE_ERROR('{_NULL_IN}{position}')) AS {quote(name)}"
        for position, name in enumerate(columns)
    }
    return f"SELECT {', '.join(checked.get(name, quote(name)) for name in types)} FROM ({rows})"


def null_error(write: Write, column: str) -> ExecutionError:
    model = write.task.snapshot.model
    return ExecutionError(
        f"{model.name} {write.task.interval.text}: a row has NULL in '{column}', "
        f"which its kind {model.kind.name} requires",
        hint=f"leave such rows out with skip_null {column}, or give them the zero key: "
        "@HASH_KEY(…, nulls := 'zero')",
        location=model.location,
    )


def check_time(write: Write, column: str) -> None:
    """Raise an ExecutionError unless a column has a date or timestamp type."""
    # Texts sort differently.
    type_ = write.types[write.physical_name(column)]
    if not type_.startswith(("date", "timestamp")):
        model = write.task.snapshot.model
        raise ExecutionError(
            f"{model.name}: '{column}', the time column of its kind {model.kind.name}, is of type "
            f"{type_.upper()}",
            hint="make it a DATE, TIMESTAMP or TIMESTAMP_NTZ",
            location=model.location,
        )


def _find_null_column(error: Exception, columns: Sequence[str]) -> str | None:
    _, found, rest = str(error).partition(f"[USER_RAISED_EXCEPTION] {_NULL_IN}")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return columns[int(digits)] if found else None


class FirstSeenWriter(Strategy):
    """Inserts rows with new keys, and overwrites a row if an earlier row of its key arrives."""

    own_session = True

    def digests_table(self, write: Write) -> bool:
        # Most arriving rows have an existing key and change nothing.
        return True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        return Layout(
            properties={
                "write.merge.mode": "merge-on-read",
                "write.merge.isolation-level": "serializable",
            }
        )

    def write(self, write: Write) -> None:
        """Merge the rows, and retry if the commit conflicted with another commit.

        Raises:
            ExecutionError: A row has NULL in the key or in its time, or the time has a wrong type.
        """
        kind = FirstSeen.from_model(write.task.snapshot.model)
        key = [write.physical_name(name) for name in kind.key]
        order = [write.physical_name(name) for name in kind.order]
        check_time(write, kind.time)
        earliest = Earliest(write.types, key, order, write.compared_fields())
        named = (*kind.key, kind.time)
        with write.source() as source, write.lock:
            complete = without_nulls(source, map(write.physical_name, kind.skip_null))
            rows = _fail_at_nulls(earliest.rows(complete), write.types, [*key, order[0]])
            try:
                if write.task.anew:
                    frame = write.session.sql(rows)
                    write.overwrite(frame, write.task.branch)
                else:
                    with write.committing():
                        # The table merges on read under serializable isolation: Iceberg refuses a
                        # MERGE if another commit conflicts with it. Then the MERGE runs again, and
                        # reads its source again.
                        write.merge(earliest.merge(write.target(write.task.branch), rows))
            except Exception as error:
                refused = _find_null_column(error, named)
                if refused is not None:
                    raise null_error(write, refused) from error
                raise
