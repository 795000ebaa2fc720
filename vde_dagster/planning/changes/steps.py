"""Changes step by step: what each step says of its own columns, said of the last one's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vde_dagster.base.names import quote
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn, written_alike
from vde_dagster.planning.changes.query import MARKS


@dataclass(frozen=True, slots=True)
class ColumnsOfSteps:
    """How the columns of a view went on from step to step.

    Args:
        first: The columns before the first step; none where there was no view.
        pairs: Per step its columns, each with the one that it goes on from.
    """

    first: tuple[ViewColumn, ...]
    pairs: tuple[tuple[ColumnPair, ...], ...]

    @property
    def last(self) -> tuple[ViewColumn, ...]:
        """The columns behind the last step."""
        return tuple(pair.after for pair in self.pairs[-1]) if self.pairs else self.first

    def at(self, step: int) -> tuple[ColumnPair, ...]:
        """Return the last columns, each with the one of a step that it goes on from.

        A column that a step has and the last one has not is left out, and one that came later has
        none: a copy has dropped the one and NULL in the other.

        Args:
            step: Counts the steps from 1; 0 for the time before the first.
        """
        found = [ColumnPair(column, column) for column in self.last]
        for pairs in reversed(self.pairs[step:]):
            came = {pair.after: pair.before for pair in pairs}
            found = [
                ColumnPair(one.after, came[one.before] if one.before is not None else None)
                for one in found
            ]
        return tuple(found)


def in_last_columns(query: str, pairs: Sequence[ColumnPair]) -> str:
    """Write the query of a step's changes in the columns of the last step.

    Args:
        query: The query, in the step's own columns.
        pairs: The last columns, each with the step's.

    >>> a, b = ViewColumn("a", "INT", "1"), ViewColumn("b", "BIGINT", "1")
    >>> in_last_columns("SELECT 1", [ColumnPair(b, a)]).rpartition(", ")[2]
    'CAST(`a` AS BIGINT) AS `b` FROM (SELECT 1) AS step'
    """
    listed = [*(quote(name) for name, _ in MARKS), *map(_column, pairs)]
    return f"SELECT {', '.join(listed)} FROM ({query}) AS step"


def mapped_key(key: Sequence[str], pairs: Sequence[ColumnPair]) -> tuple[str, ...] | None:
    """Say what a step's key is called in the last columns; None where they do not have all of it.

    Args:
        key: Names of the step's columns.
        pairs: The last columns, each with the step's.
    """
    names = {pair.before.name: pair.after.name for pair in pairs if pair.before is not None}
    return tuple(names[name] for name in key) if all(name in names for name in key) else None


def _column(pair: ColumnPair) -> str:
    before, after = pair.before, pair.after
    if before is None:
        return f"CAST(NULL AS {after.type}) AS {quote(after.name)}"
    if written_alike(before.type, after.type):
        return f"{quote(before.name)} AS {quote(after.name)}"
    return f"CAST({quote(before.name)} AS {after.type}) AS {quote(after.name)}"
