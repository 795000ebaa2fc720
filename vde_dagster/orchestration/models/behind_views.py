"""The tables that a model reads through views, so that Dagster compares it with what holds rows.

A view shows what its parents hold at once: its own events never tell that rows have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshot import Snapshot

Find = Callable[[ModelName], Snapshot | None]
"""Returns a model's definition; None for what nobody declares."""


def behind_views(snapshot: Snapshot, find: Find) -> tuple[ModelName, ...]:
    """Return the tables that a model reads only through views and embedded models, sorted.

    Args:
        snapshot: The model; one without a table holds no rows that could be out of date.
        find: What its parents are.
    """
    if not snapshot.has_table:
        return ()
    direct = snapshot.model.depends_on
    seen: set[ModelName] = {snapshot.name, *direct}
    return tuple(sorted({found for parent in direct for found in _tables(parent, find, seen)}))


def without_circles(
    direct: Mapping[ModelName, Sequence[ModelName]], behind: Mapping[ModelName, Sequence[ModelName]]
) -> dict[ModelName, tuple[ModelName, ...]]:
    """Leave out tables behind views by which a model would depend on itself.

    What a model reads directly is what its file says, what is behind views is what production
    shows: a view that no longer reads a table, and the table that now reads what is made of the
    view, would close a circle, and Dagster would load nothing.

    Args:
        direct: What each model reads.
        behind: The tables that it reads through views.

    >>> a, b = ModelName("db", "a"), ModelName("db", "b")
    >>> without_circles({a: [b], b: []}, {b: [a]})[b]
    ()
    """
    kept = {name: tuple(tables) for name, tables in behind.items()}
    while True:
        graph = {name: (*parents, *kept.get(name, ())) for name, parents in direct.items()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = list(pairwise(error.args[1]))
            closing = [(above, name) for above, name in circle if above in kept.get(name, ())]
            for above, name in closing:
                kept[name] = tuple(table for table in kept[name] if table != above)
            if closing:
                continue
        return kept


def _tables(name: ModelName, find: Find, seen: set[ModelName]) -> Iterator[ModelName]:
    snapshot = find(name)
    if snapshot is None or snapshot.has_table:
        return
    for parent in snapshot.model.depends_on:
        if parent in seen:
            continue
        seen.add(parent)
        known = find(parent)
        if known is None or known.has_table or known.model.kind.is_external:
            yield parent
        else:
            yield from _tables(parent, find, seen)
