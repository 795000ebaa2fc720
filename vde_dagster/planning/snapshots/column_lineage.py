"""Column lineage over all models, down to the tables that others write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.planning.snapshots.snapshot import Snapshot


class Flow(NamedTuple):
    """The flow of a column of one model into a column of another.

    Args:
        column: Its column; None where all its rows depend on what is read.
        how: See `Read`.
    """

    model: str
    column: str | None
    parent: str
    source: str
    how: str


def require_column(snapshot: Snapshot, column: str) -> str:
    """Return a column's name as the model has it.

    Raises:
        UsageError: It has none of that name.
    """
    known = {one.name.lower(): one.name for one in snapshot.columns}
    if column.lower() not in known:
        hint = suggest(column, list(known.values()), "columns")
        raise UsageError(f"{snapshot.name} has no column '{column}'", hint=hint)
    return known[column.lower()]


def own_flows(snapshot: Snapshot, column: str | None) -> Iterator[Flow]:
    """Yield the sources of one column; None for those of the rows."""
    wanted = column.lower() if column is not None else None
    for read in snapshot.reads:
        if (read.output.lower() if read.output is not None else None) == wanted:
            yield Flow(str(snapshot.name), column, read.parent, read.column, read.how)


def trace(
    snapshots: Mapping[ModelName, Snapshot], name: ModelName, column: str | None = None
) -> list[Flow]:
    """Follow columns of a model up to where they come from, each once, nearest first.

    Args:
        column: One of its columns; by default all, and what decides its rows.
    """
    by_name = {str(one): snapshot for one, snapshot in snapshots.items()}
    columns: list[str | None] = [column]
    if column is None:
        columns = [*(item.name for item in snapshots[name].columns), None]
    return _walk(
        [(str(name), one) for one in columns],
        lambda at: own_flows(by_name[at[0]], at[1]) if at[0] in by_name else (),
        lambda flow: (flow.parent, flow.source),
    )


def trace_down(
    snapshots: Mapping[ModelName, Snapshot], name: ModelName, column: str | None = None
) -> list[Flow]:
    """Follow columns of a model down to all that is made of them, each once, nearest first."""
    readers: dict[_Place, list[Flow]] = {}
    for snapshot in snapshots.values():
        for read in snapshot.reads:
            flow = Flow(str(snapshot.name), read.output, read.parent, read.column, read.how)
            readers.setdefault((read.parent, read.column.lower()), []).append(flow)
    columns = [item.name for item in snapshots[name].columns] if column is None else [column]
    return _walk(
        [(str(name), one.lower()) for one in columns],
        lambda at: readers.get(at, ()),
        # What only decides the rows is in no column of its reader's.
        lambda flow: (flow.model, flow.column.lower()) if flow.column else None,
    )


_Place = tuple[str, str | None]


def _walk(
    begin: list[_Place],
    flows: Callable[[_Place], Iterable[Flow]],
    following: Callable[[Flow], _Place | None],
) -> list[Flow]:
    waiting, seen, found = begin, {*begin, None}, list[Flow]()
    for place in waiting:  # It grows while it is walked through.
        for flow in flows(place):
            found.append(flow)
            if (at := following(flow)) not in seen and at is not None:
                seen.add(at)
                waiting.append(at)
    return found
