"""Keys of a model's rows to refill, derived from the rows that its inputs gained and lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.lakehouse.metadata.commit_summaries import commit_line
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn, written_alike
from vde_dagster.planning.changes.query import (
    ByLineage,
    is_comparable,
    net_rows,
    read_by,
    spelled_apart,
    weigh_commits,
    weigh_lineage,
    weigh_versions,
)
from vde_dagster.planning.engine_tasks import ChangedKeys
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import why_not_repeatable
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_reason

if TYPE_CHECKING:
    from vde_dagster.execution.plan_tasks import PlanTasks


States = Mapping[str, InputState]


class ComputesAllError(Exception):
    """Any row may have changed since the table was filled; the message has the reason.

    Args:
        lost: Whether keys would suffice if the state that was read had been kept.
    """

    def __init__(self, why: str, *, lost: bool = False) -> None:
        super().__init__(why)
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Earlier:
    """Table at the state that an earlier fill read.

    Args:
        other: The earlier table, if the model has another table now.
    """

    state: InputState
    other: PhysicalTable | None = None


def keys_changed(
    tasks: PlanTasks,
    filler: Snapshot,
    reads: Sequence[TableRead],
    seen: States,
    now: States,
) -> ChangedKeys:
    """Return the keys whose rows may have changed since a table was filled.

    Args:
        reads: Inputs of the definition.
        seen: Inputs of the last fill by table; empty if something else wrote the table since.
        now: Current inputs.

    Raises:
        ComputesAllError: Any row may have changed: a table is read for the first time, has lost the
            snapshot that was read, or its rows do not determine the keys that they affect.
    """
    if not seen:
        raise ComputesAllError("the inputs of its last fill are unknown")
    why = why_not_repeatable(filler, tasks.plan.target)
    query = tasks.plain_query(filler)
    if query is None or why is not None:
        raise ComputesAllError(f"it {describe_reason(why or Reason(ReasonCode.PYTHON))}")
    earlier = earlier_reads(tasks, reads, seen)
    for read in reads:
        if read.key not in now or now[read.key].read_id is None:
            raise ComputesAllError(f"{table_name(tasks, read)} has no snapshot to read")
    moved = [read for read in reads if _moved(earlier[read.key], now[read.key])]
    metadata = {read.key: tasks.handles.lakehouse.table_metadata(read.ref) for read in reads}
    key, located = _located(tasks.catalog, filler, query, reads, metadata)
    if not key:
        raise ComputesAllError("no column of its query divides the rows of a table that it reads")
    parts: list[str] = []
    for read in moved:
        was, is_, name = earlier[read.key], now[read.key], table_name(tasks, read)
        columns = located.get(_spelled(tasks.catalog, read))
        if columns is None:
            raise ComputesAllError(
                f"rows of {name} do not determine the {', '.join(key)} that they affect"
            )
        if was.other is not None:
            rows = _rows_of_another(tasks, name, read, was, is_, metadata[read.key])
        elif was.state.schema_id != is_.schema_id:
            raise ComputesAllError(f"the columns of {name} have changed")
        else:
            states = (was.state.read_id, is_.read_id)
            rows = _rows(tasks.catalog, name, read, metadata[read.key], *states)
        parts += _keys(*rows, columns)
    if not parts:
        raise ComputesAllError("none of its inputs has changed")
    return ChangedKeys(key, spelled_apart(" UNION ".join(parts)))


def earlier_reads(tasks: PlanTasks, reads: Sequence[TableRead], seen: States) -> dict[str, Earlier]:
    """Find the state of each table that a fill read; for a replaced table, the earlier table.

    Raises:
        ComputesAllError: A table was not read before, or its predecessor is unknown.
    """
    found = {read.key: Earlier(seen[read.key]) for read in reads if read.key in seen}
    others = {key for key in seen if key not in found}
    for read in reads:
        if read.key in found:
            continue
        name = _table_model(tasks, read)
        tables = tasks.handles.store.tables.own_tables(name) if name is not None else []
        known = [one for one in tables if one.id in others]
        if len(known) != 1:
            gone = ", and the table that the last fill read no longer exists" if others else ""
            why = f"{table_name(tasks, read)} has another table now{gone}"
            raise ComputesAllError(why, lost=bool(others))
        others.discard(known[0].id)
        found[read.key] = Earlier(seen[known[0].id], known[0])
    if others:
        raise ComputesAllError("the model no longer reads all tables that its last fill read")
    return found


def table_name(tasks: PlanTasks, read: TableRead) -> str:
    """Return a table's name for messages: its model's name, if there is one."""
    return str(_table_model(tasks, read) or read.ref)


def _table_model(tasks: PlanTasks, read: TableRead) -> ModelName | None:
    entries = tasks.target.entries.items()
    return next((name for name, entry in entries if entry.table_id == read.key), None)


def _moved(was: Earlier, now: InputState) -> bool:
    return was.other is not None or not was.state.still_is(now)


def _located(
    catalog: str,
    filler: Snapshot,
    query: str,
    reads: Sequence[TableRead],
    metadata: Mapping[str, dict[str, Any]],
) -> tuple[tuple[str, ...], Mapping[str, tuple[tuple[str, ...], ...]]]:
    """Return the key, and for each table the columns that have its values."""
    from vde_dagster.semantics.locality import columns_of_key, find_key

    key = meaning_of(filler.model.kind).changed_by(filler.model)
    if filler.version.opaque is not None:
        return key, {}
    schema = {_spelled(catalog, read): columns_of(metadata[read.key], None) for read in reads}
    key = key or find_key(query, schema)
    return key, columns_of_key(query, schema, key)


def _spelled(catalog: str, read: TableRead) -> str:
    return f"{catalog}.{read.ref}".lower()


_Rows = tuple[str, Sequence[ViewColumn]]
"""Query for the rows that differ in the columns read, and its columns."""


def _rows(
    catalog: str,
    name: str,
    read: TableRead,
    metadata: dict[str, Any],
    since: int | None,
    until: int | None,
) -> _Rows:
    kept = _kept(metadata)
    if since not in kept or until not in kept:
        raise ComputesAllError(f"the state of {name} that was read is no longer kept", lost=True)
    columns, types = _columns(name, read, metadata)
    before, after = (columns_of(metadata, kept[one]) for one in (since, until))
    pairs = [ColumnPair(column, column) for column in columns]
    way = read_by(*(commit_line(metadata, one, read.key) for one in (since, until)))
    table = read.ref.quoted(catalog)
    if way is None:
        old, new = (
            _state(table, columns, PinnedTable(one, types, there))
            for one, there in ((since, before), (until, after))
        )
        weighed = weigh_versions(old, new, pairs)
    elif isinstance(way, ByLineage):
        older = (before, after) if way.forwards else (after, before)
        weighed = weigh_lineage(way, table, pairs, *older)
    elif way:
        weighed = weigh_commits(way, table, columns, types)
    else:
        weighed = weigh_versions(None, f"SELECT * FROM {table} WHERE false", pairs)
    return net_rows(weighed, columns), columns


def _rows_of_another(
    tasks: PlanTasks,
    name: str,
    read: TableRead,
    was: Earlier,
    now: InputState,
    metadata: dict[str, Any],
) -> _Rows:
    """Compare a table's state at the last fill with the current state of its replacement."""
    old, new = was.other, {**tasks.target.tables, **tasks.written.tables}[read.key]
    assert old is not None
    found = tasks.handles.lakehouse.find_table(old.ref)
    kept = _kept(found.metadata) if found is not None else {}
    if found is None or was.state.read_id not in kept:
        gone = "the state that the last fill read no longer exists"
        raise ComputesAllError(f"{name} has another table now, and {gone}", lost=True)
    columns, types = _columns(name, read, metadata)
    had = columns_of(found.metadata, kept[was.state.read_id])
    places, versions = old.column_named_by_version(), {c.name: c.version for c in new.columns}
    listed = []
    for column in columns:
        place = places.get(versions.get(column.name, ""), "")
        if not written_alike(had.get(place, ""), column.type):
            raise ComputesAllError(
                f"{name} has another table now: its column {column.name} differs"
            )
        listed.append((column.name, place))
    after = columns_of(metadata, _kept(metadata).get(now.read_id or 0))
    weighed = weigh_versions(
        pinned_select(old.ref.quoted(tasks.catalog), PinnedTable(was.state.read_id), listed),
        _state(read.ref.quoted(tasks.catalog), columns, PinnedTable(now.read_id, types, after)),
        [ColumnPair(column, column) for column in columns],
    )
    return net_rows(weighed, columns), columns


def _kept(metadata: dict[str, Any]) -> dict[int | None, int | None]:
    """Return the schema id of each Iceberg snapshot in a table's metadata."""
    return {int(one["snapshot-id"]): one.get("schema-id") for one in metadata["snapshots"]}


def _columns(
    name: str, read: TableRead, metadata: dict[str, Any]
) -> tuple[Sequence[ViewColumn], Mapping[str, str]]:
    """Return the columns that a query reads from a table, and the current types of all columns."""
    types = columns_of(metadata, None)
    names = read.columns if read.columns is not None else tuple(types)
    for one in names:
        if one not in types or not is_comparable(types[one]):
            raise ComputesAllError(f"{name} has a column {one} whose values cannot be compared")
    return [ViewColumn(one, types[one], "", one) for one in names], types


def _state(table: str, columns: Sequence[ViewColumn], pinned: PinnedTable) -> str:
    return pinned_select(table, pinned, [(column.name, column.name) for column in columns])


def _keys(
    rows: str, columns: Sequence[ViewColumn], located: Sequence[Sequence[str]]
) -> Iterator[str]:
    places = {column.name.lower(): f"c{number}" for number, column in enumerate(columns)}
    for key in located:
        listed = ", ".join(f"{places[name.lower()]} AS k{n}" for n, name in enumerate(key))
        yield f"SELECT DISTINCT {listed} FROM ({rows}) AS changed"
