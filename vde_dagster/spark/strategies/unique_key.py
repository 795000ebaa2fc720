"""INCREMENTAL_BY_UNIQUE_KEY: the interval's rows are merged on their key."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import quote
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.project.kinds.unique_key import ALL
from vde_dagster.spark.strategies.base import (
    Layout,
    Strategy,
    Write,
    condition,
    latest_first,
    merge_again,
    strategy_for,
)
from vde_dagster.spark.tables.columns import sortable
from vde_dagster.sql.expressions import read_expression

_NUMBER = "vde_row_number"


@strategy_for(IncrementalByUniqueKey)
class UniqueKey(Strategy):
    """Inserts new keys and replaces the rows of known ones, in one MERGE; NULLs are equal.

    Of several rows of one key `latest_first` takes one. The table merges on read under serializable
    isolation: Iceberg refuses a MERGE that raced with another commit, and it is run again.
    """

    own_session = True

    def digests_table(self, write: Write) -> bool:
        """A merged row may be as it was."""
        return True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Merge on read; the isolation level is Iceberg's default, said for the reader."""
        return Layout(
            properties={
                "write.merge.mode": "merge-on-read",
                "write.merge.isolation-level": "serializable",
            }
        )

    def write(self, write: Write) -> None:
        """Merge the rows, again when the commit met another one."""
        kind = write.task.snapshot.model.kind
        assert isinstance(kind, IncrementalByUniqueKey)
        with write.source() as source, write.lock:
            rows = _rows(write, kind, source)
            if write.task.anew:
                # What the table holds may have keys that no source has now.
                frame = write.session.sql(rows)
                write.writer(frame, write.task.branch).overwrite(condition("true"))
            else:
                with write.committing():
                    merge_again(write, _merge_statement(write, kind, rows))


def _merge_statement(write: Write, kind: IncrementalByUniqueKey, rows: str) -> str:
    columns = list(write.types)
    keys = [write.physical_name(name) for name in kind.unique_key]
    named = {name.lower(): quote(write.physical_name(name)) for name in kind.merge_columns}
    sides = {"source": named, "target": named}
    on = [f"target.{quote(key)} <=> source.{quote(key)}" for key in keys]
    for text in kind.key_expressions:
        target, new = (_of_side(text, named, side) for side in ("target", "source"))
        on.append(f"({target}) <=> ({new})")
    if kind.merge_filter:
        on.append(f"({_renamed(kind.merge_filter, sides)})")
    matched = []
    for when, assigned in kind.when_matched or (("", ((ALL, ALL),)),):
        given = {named[c.lower()]: _renamed(text, sides) for c, text in assigned if c != ALL}
        if (ALL, ALL) in assigned:
            given = {quote(c): f"source.{quote(c)}" for c in columns} | given
        sets = ", ".join(f"target.{column} = {value}" for column, value in given.items())
        only = f" AND ({_renamed(when, sides)})" if when else ""
        action = f"UPDATE SET {sets}" if assigned else "DELETE"
        matched.append(f"WHEN MATCHED{only} THEN {action}")
    return "\n".join(
        [
            f"MERGE INTO {write.target(write.task.branch)} target",
            f"USING ({rows}) source",
            f"ON {' AND '.join(on)}",
            *matched,
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(map(quote, columns))})",
            f"VALUES ({', '.join(f'source.{quote(c)}' for c in columns)})",
        ]
    )


def _rows(write: Write, kind: IncrementalByUniqueKey, source: str) -> str:
    """Return the query of the source's rows, one per key."""
    types, keys = write.types, [write.physical_name(name) for name in kind.unique_key]
    named = {name.lower(): quote(write.physical_name(name)) for name in kind.merge_columns}
    expressions = (_of_side(text, named) for text in kind.key_expressions)
    by = ", ".join([*(sortable(quote(key), types[key]) for key in keys), *expressions])
    order = latest_first(types, [name for name in types if name not in keys] or keys)
    names = ", ".join(map(quote, types))
    return (
        f"SELECT {names} FROM (SELECT {names}, "
        f"ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS {_NUMBER} FROM {source}) "
        f"WHERE {_NUMBER} = 1"
    )


def _of_side(text: str, named: Mapping[str, str], side: str = "") -> str:
    """Write an expression over the output's columns over those of one side of the MERGE."""
    prefix = f"{side}." if side else ""
    return read_expression(text).renamed({name: prefix + new for name, new in named.items()})


def _renamed(text: str, sides: Mapping[str, Mapping[str, str]]) -> str:
    return text if text in ("", ALL) else read_expression(text).renamed_sides(sides)
