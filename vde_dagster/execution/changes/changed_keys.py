"""Which rows of a model are to be filled again, told by the rows that its tables got and lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.metadata.commit_summaries import commit_line
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.changes.columns import ColumnPair, ViewColumn
from vde_dagster.planning.changes.query import (
    ByLineage,
    is_comparable,
    net_rows,
    of_commits,
    of_lineage,
    of_versions,
    read_by,
    spelled_apart,
)
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.kinds.repeatable import why_not_repeatable
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select

if TYPE_CHECKING:
    from vde_dagster.execution.apply.plan_tasks import PlanTasks


def keys_changed(
    tasks: PlanTasks,
    filler: Snapshot,
    key: Sequence[str],
    reads: Sequence[TableRead],
    seen: Mapping[str, InputState],
    now: Mapping[str, InputState],
) -> str | None:
    """Return the Spark SQL of the keys whose rows may be others than when a table was filled.

    Args:
        key: Output columns, see `Meaning.changed_by`.
        reads: What the definition reads.
        seen: By table, what the fill before read; none where somebody else wrote the table since.
        now: What there is to read.

    Returns:
        The query; None where any row may be another: a table is read for the first time, was
        swapped for another, lost the snapshot that was read of it, or the query is not local in it.
    """
    if not seen or set(seen) != set(now) or len(now) != len(reads):
        return None
    moved = [read for read in reads if not seen[read.key].still_is(now[read.key])]
    if not moved or any(now[read.key].read_id is None for read in reads):
        return None
    query = tasks.plain_query(filler)
    if query is None or why_not_repeatable(filler, tasks.plan.target) is not None:
        return None
    metadata = {read.key: tasks.workspace.lakehouse.table_metadata(read.ref) for read in reads}
    located = _located(tasks.catalog, filler, query, key, reads, metadata)
    parts: list[str] = []
    for read in moved:
        columns = located.get(_name(tasks.catalog, read))
        if columns is None or seen[read.key].schema_id != now[read.key].schema_id:
            return None
        states = (seen[read.key].read_id, now[read.key].read_id)
        rows = _rows(tasks.catalog, read, metadata[read.key], *states)
        if rows is None:
            return None
        parts += _keys(*rows, columns)
    return spelled_apart(" UNION ".join(parts))


def _located(
    catalog: str,
    filler: Snapshot,
    query: str,
    key: Sequence[str],
    reads: Sequence[TableRead],
    metadata: Mapping[str, dict[str, Any]],
) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    from vde_dagster.semantics.locality import columns_of_key

    if filler.version.opaque is not None:
        return {}
    schema = {_name(catalog, read): columns_of(metadata[read.key], None) for read in reads}
    return columns_of_key(query, schema, key)


def _name(catalog: str, read: TableRead) -> str:
    return f"{catalog}.{read.ref}".lower()


def _rows(
    catalog: str, read: TableRead, metadata: dict[str, Any], since: int | None, until: int | None
) -> tuple[str, Sequence[ViewColumn]] | None:
    """Return the query of the rows that differ in what is read of them, and its columns."""
    kept = {int(one["snapshot-id"]): one.get("schema-id") for one in metadata["snapshots"]}
    if since not in kept or until not in kept:
        return None
    types = columns_of(metadata, None)
    before, after = (columns_of(metadata, kept[one]) for one in (since, until))
    names = read.columns if read.columns is not None else tuple(types)
    if not set(names) <= set(types) or not all(is_comparable(types[name]) for name in names):
        return None
    columns = [ViewColumn(name, types[name], "", name) for name in names]
    pairs = [ColumnPair(column, column) for column in columns]
    way = read_by(*(commit_line(metadata, one, read.key) for one in (since, until)))
    table = read.ref.quoted(catalog)
    if way is None:
        listed = [(name, name) for name in names]
        shown = {name: types[name] for name in names}
        old, new = (
            pinned_select(table, PinnedTable(one, shown, there), listed)
            for one, there in ((since, before), (until, after))
        )
        weighed = of_versions(old, new, pairs)
    elif isinstance(way, ByLineage):
        older = (before, after) if way.forwards else (after, before)
        weighed = of_lineage(way, table, pairs, *older)
    elif way:
        weighed = of_commits(way, table, columns, types)
    else:
        weighed = of_versions(None, f"SELECT * FROM {table} WHERE false", pairs)
    return net_rows(weighed, columns), columns


def _keys(
    rows: str, columns: Sequence[ViewColumn], located: Sequence[Sequence[str]]
) -> Iterator[str]:
    places = {column.name.lower(): f"c{number}" for number, column in enumerate(columns)}
    for key in located:
        listed = ", ".join(f"{places[name.lower()]} AS k{n}" for n, name in enumerate(key))
        yield f"SELECT DISTINCT {listed} FROM ({rows}) AS changed"
