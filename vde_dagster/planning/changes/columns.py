"""Columns of two versions of a view, paired by their meaning, then by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vde_dagster.planning.tables.column_types import same_type, widens_in_place
from vde_dagster.planning.tables.nested_fields import ShownFields

Event = Literal["added", "removed", "renamed", "retyped"]


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of one version of a view.

    Args:
        version: Hash of the expression that computes the column.
        place: Name of the physical column; None if the model has no table.
        fields: How to read a nested column whose fields may change in place.
    """

    name: str
    type: str
    version: str
    place: str | None = None
    fields: ShownFields | None = None


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the later version of a view, paired with the matching earlier column, if any."""

    after: ViewColumn
    before: ViewColumn | None


@dataclass(frozen=True, slots=True)
class ColumnEvent:
    """A column that was added to a view, removed, renamed or retyped.

    A copy of the view needs this change before it receives changed rows.

    Args:
        what: `added` (NULL in every row so far), `removed`, `renamed` or `retyped` (widened).
        column: The column's name in the later version; for `removed`, in the earlier version.
        was: For `renamed`, the earlier name; for `retyped`, the earlier type.
        becomes: The column's type in the later version.
    """

    what: Event
    column: str
    was: str | None = None
    becomes: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "column": self.column, "was": self.was, "becomes": self.becomes}


def pair_columns(
    before: Sequence[ViewColumn], after: Sequence[ViewColumn], *, same_table: bool = False
) -> tuple[ColumnPair, ...]:
    """Match each column of the later version to the earlier column that it continues.

    Args:
        same_table: Whether one physical table serves both versions.

    >>> old = [ViewColumn("a", "INT", "1"), ViewColumn("b", "INT", "2")]
    >>> new = [ViewColumn("b", "INT", "1"), ViewColumn("c", "INT", "3")]
    >>> [(one.after.name, one.before and one.before.name) for one in pair_columns(old, new)]
    [('b', 'a'), ('c', None)]
    """
    # A column of the same name and meaning is preferred, then a renamed column of the same meaning,
    # then a column of the same name, whose values are compared as they are. A column whose type
    # does not widen into the new type is never matched, because its values might not be
    # convertible. In one physical table, columns of the same place have the same meaning.
    left = dict(enumerate(before))
    found: dict[int, ViewColumn] = {}

    def same_name(one: ViewColumn, other: ViewColumn) -> bool:
        return one.name.lower() == other.name.lower()

    def same_meaning(one: ViewColumn, other: ViewColumn) -> bool:
        return one.place == other.place if same_table else one.version == other.version

    rules: tuple[Callable[[ViewColumn, ViewColumn], bool], ...] = (
        lambda one, other: same_name(one, other) and same_meaning(one, other),
        same_meaning,
        same_name,
    )
    for rule in rules:
        for place, column in enumerate(after):
            if place in found:
                continue
            match = next(
                (
                    i
                    for i, one in left.items()
                    if rule(one, column) and _continues_column(one, column)
                ),
                None,
            )
            if match is not None:
                found[place] = left.pop(match)
    return tuple(ColumnPair(column, found.get(place)) for place, column in enumerate(after))


_ANY_OF_ITS_KIND = frozenset({"int", "integer", "string", "timestamp", "timestamp_ntz"})
"""Types that hold every value of all Spark types with the same Iceberg type.

For example, STRING holds every value of VARCHAR(10).
"""


def _continues_column(before: ViewColumn, after: ViewColumn) -> bool:
    if is_same_type_text(before.type, after.type) or widens_in_place(before.type, after.type):
        return True
    return after.type.lower() in _ANY_OF_ITS_KIND and same_type(before.type, after.type)


def is_same_type_text(one: str, other: str) -> bool:
    """Return whether two types are equal, except for spaces and the case of type names.

    >>> is_same_type_text("ARRAY<STRUCT<a: INT>>", "array<struct<a:int>>")
    True
    >>> is_same_type_text("STRUCT<a: INT>", "STRUCT<A: INT>")
    False
    """
    plain, wanted = (
        _TYPE_WORD.sub(lambda word: word[0].lower(), type_.replace(" ", ""))
        for type_ in (one, other)
    )
    return plain == wanted


_TYPE_WORD = re.compile(r"\b\w+\b(?!:)")


def column_events(
    before: Sequence[ViewColumn], pairs: Sequence[ColumnPair]
) -> Iterator[ColumnEvent]:
    """Yield the column changes to apply to a copy of a view's earlier version."""
    kept = {pair.before for pair in pairs}
    for column in before:
        if column not in kept:
            yield ColumnEvent("removed", column.name)
    for pair in pairs:
        old, new = pair.before, pair.after
        if old is None:
            yield ColumnEvent("added", new.name, becomes=new.type)
            continue
        if old.name != new.name:
            yield ColumnEvent("renamed", new.name, old.name, new.type)
        if not is_same_type_text(old.type, new.type):
            yield ColumnEvent("retyped", new.name, old.type, new.type)
