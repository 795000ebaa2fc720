"""Column lineage through models: the sources of columns, and the columns computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Read, Snapshot
from vde_dagster.semantics.versions.lineage import EVERY_COLUMN


class Flow(NamedTuple):
    """A dependency of a model's column, or of all its rows, on a column of another model.

    Args:
        column: None if all rows of the model depend on the source.
        how: Kind of the dependency, as in `Read.how`.
    """

    model: str
    column: str | None
    parent: str
    source: str
    how: str


def direct_flows(snapshot: Snapshot, column: str | None) -> Iterator[Flow]:
    """Yield the parents' columns that one column uses directly.

    Without a `column`, yield the columns that decide which rows exist.
    """
    wanted = column.lower() if column is not None else None
    for read in snapshot.reads:
        if (read.output.lower() if read.output is not None else None) == wanted:
            yield Flow(str(snapshot.name), column, read.parent, read.column, read.how)


def trace(
    snapshots: Mapping[ModelName, Snapshot], name: ModelName, column: str | None = None
) -> list[Flow]:
    """Return the sources of a column and of the model's rows, direct or not, nearest first.

    Args:
        column: None for all columns.
    """
    by_name = {str(one): snapshot for one, snapshot in snapshots.items()}
    columns = [column] if column else [item.name for item in snapshots[name].columns]
    return _walk(
        [(str(name), one) for one in (*columns, None)],
        lambda at: direct_flows(by_name[at[0]], at[1]) if at[0] in by_name else (),
        lambda flow: (flow.parent, flow.source),
    )


def trace_down(
    snapshots: Mapping[ModelName, Snapshot], name: ModelName, column: str | None = None
) -> list[Flow]:
    """Return the columns and rows that depend on a column, directly or not, nearest first.

    Args:
        column: None for all columns of the model.
    """
    readers: dict[_Place, list[Flow]] = {}
    for snapshot in snapshots.values():
        for read in snapshot.reads:
            flow = Flow(str(snapshot.name), read.output, read.parent, read.column, read.how)
            readers.setdefault((read.parent, read.column.lower()), []).append(flow)
    columns = [item.name for item in snapshots[name].columns] if column is None else [column]
    return _walk(
        [(str(name), one.lower()) for one in columns],
        lambda at: (*readers.get(at, ()), *readers.get((at[0], EVERY_COLUMN), ())),
        # A source that only decides rows appears in no column of the reader.
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


@dataclass(frozen=True, slots=True)
class AffectedParts:
    """The columns or rows of a model that a change upstream may affect.

    Args:
        columns: Names of columns whose values may change, in the model's order.
        rows: Whether rows may change, which affects every column.
    """

    columns: tuple[str, ...]
    rows: bool


def find_affected_parts(
    snapshots: Mapping[ModelName, Snapshot], name: ModelName, column: str
) -> dict[ModelName, AffectedParts]:
    """Find the columns and rows of each model that a change of one column may affect.

    Args:
        snapshots: The snapshots to search, parents before children.
    """
    touched = {str(name): AffectedParts((column,), rows=False)}
    for snapshot in snapshots.values():
        reads = [read for read in snapshot.reads if _reaches(read, touched)]
        if not reads or snapshot.name == name:
            continue
        outputs = {read.output.lower() for read in reads if read.output is not None}
        rows = any(read.output is None or touched[read.parent].rows for read in reads)
        columns = (one.name for one in snapshot.columns if rows or one.name.lower() in outputs)
        touched[str(snapshot.name)] = AffectedParts(tuple(columns), rows)
    return {one: touched[str(one)] for one in snapshots if str(one) in touched and one != name}


def _reaches(read: Read, touched: Mapping[str, AffectedParts]) -> bool:
    parent = touched.get(read.parent)
    if parent is None or parent.rows or read.column == EVERY_COLUMN:
        return parent is not None
    return read.column.lower() in map(str.lower, parent.columns)
