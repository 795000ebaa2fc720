"""Physical tables made at their first fill, and changed in place for a new definition.

Both are one commit of Iceberg's metadata, without an engine, in a transaction with what the state
says of it. Columns are added and never taken away: who reads or fills the table names its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import Updates, append_columns, set_branch
from vde_dagster.lakehouse.metadata.table_metadata import current_schema, head_of
from vde_dagster.lakehouse.publishing.commit import change_at_last
from vde_dagster.planning.engine_tasks import AnalysedQuery, FillTask
from vde_dagster.planning.environments.contracts import same_type
from vde_dagster.planning.environments.resolver import column_map, fill_map
from vde_dagster.planning.plan.assign_tables import extended
from vde_dagster.planning.rendering.render import only_of_session
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.table_commits import TableCommit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


def create_table(tasks: PlanTasks, filler: Snapshot, task: FillTask, lease: Lease) -> FillTask:
    """Create a task's table with the types that its query really has; return the task for it."""
    table, handles = task.table, tasks.handles
    columns, prepared = analysed_types(handles, filler, task)
    if table.preview is not None:
        base = handles.store.tables.get(table.preview.of)
        _change(handles.lakehouse, base, filler, dict(columns), lease, table)
        created = handles.store.tables.get(table.id)
        tasks.written.put_table(created)
        return replace(task, table=created, columns=fill_map(filler, created), prepared=prepared)
    handles.engine().create_table(table, filler, tuple(columns), branch=task.branch)
    created = handles.store.tables.mark_created(table, columns)
    return replace(task, table=created, prepared=prepared)


def analysed_types(
    handles: Handles, filler: Snapshot, task: FillTask
) -> tuple[list[tuple[str, str]], AnalysedQuery | None]:
    """Return (physical column, Spark SQL type) of what a task writes, and what was analysed."""
    declared = {column.name: column.type for column in filler.model.columns}
    prepared = None
    if task.query is not None:
        before = tuple(filter(only_of_session, task.before))
        prepared = handles.engine().prepare(task.query, before)
        analysed = {name.lower(): type_ for name, type_ in prepared.columns}
    else:
        analysed = {c.name.lower(): c.type or "STRING" for c in filler.columns}
    added = {column.name: column.type for column in filler.model.kind.added_columns}
    made = {*added, *(name for name, _ in filler.own_columns)}
    columns = []
    for output, physical in task.columns:
        if output not in made:
            continue  # It is shown on, and no longer computed.
        type_ = added.get(output) or declared.get(output) or analysed.get(output.lower())
        if type_ is None:
            raise ExecutionError(
                f"{filler.name}: its query has no column '{output}'",
                hint=f"Spark sees {', '.join(analysed)}",
            )
        columns.append((physical, type_))
    return columns, prepared


def add_columns(
    lakehouse: Lakehouse,
    table: PhysicalTable,
    snapshot: Snapshot,
    types: Mapping[str, str],
    lease: Lease,
) -> PhysicalTable:
    """Give a table the columns that a definition adds; they may be called otherwise than planned.

    Args:
        types: Spark SQL types by physical column, as planned: what the engine analysed.
    """
    return _change(lakehouse, table, snapshot, types, lease, None)


def _change(
    lakehouse: Lakehouse,
    table: PhysicalTable,
    snapshot: Snapshot,
    types: Mapping[str, str],
    lease: Lease,
    preview: PhysicalTable | None,
) -> PhysicalTable:
    """Give a table a definition's columns, and make the branch on which a preview tries it."""
    store = lakehouse.store
    by_version = _types_by_version(preview or extended(table, snapshot), snapshot, types)
    _check_types(table, snapshot, by_version)
    whole, also = table, TableCommit()

    def change(now: dict[str, Any]) -> Updates:
        nonlocal whole, also
        known = store.tables.get(table.id)
        taken = {field["name"].lower() for field in current_schema(now)["fields"]}
        added = _named_apart(known, snapshot, taken, by_version)
        whole = replace(known, columns=(*known.columns, *added))
        updates = append_columns(now, [(c.name, c.type or "STRING") for c in added])
        made = None
        if preview is not None and preview.branch is not None:
            head = head_of(now)
            if head is None:
                raise ExecutionError(
                    f"{table.ref} is empty, so there is nothing to preview a change on",
                    hint="run production first: vde run prod",
                )
            updates += set_branch(now, preview.branch, head)
            shown = {physical for _, physical in column_map(snapshot, whole)}
            made = replace(
                preview,
                columns=tuple(c._replace(in_place=False) for c in whole.columns if c.name in shown),
            )
        also = TableCommit(
            lease=lease,
            subject=str(table.ref),
            columns=(known.id, added) if added else None,
            branched=made,
        )
        return updates

    change_at_last(lakehouse, table.ref, change, "table.in_place", lambda: also)
    return whole


def _types_by_version(
    planned: PhysicalTable, snapshot: Snapshot, types: Mapping[str, str]
) -> dict[str, str]:
    """Return the analysed types of a definition's columns, by the columns' versions."""
    physical = dict(column_map(snapshot, planned))
    return {
        column.version: types[physical[column.name]]
        for column in snapshot.columns
        if physical[column.name] in types
    }


def _named_apart(
    known: PhysicalTable,
    snapshot: Snapshot,
    taken: Iterable[str],
    types: Mapping[str, str],
) -> tuple[PhysicalColumn, ...]:
    """Return the columns that a table lacks, under names that nothing in it has.

    A process that died before the state knew of its columns may have left some.
    """
    names = {*taken}
    added = []
    for column in extended(known, snapshot).columns[len(known.columns) :]:
        name, number = column.name, 1
        while name.lower() in names:
            number += 1
            name = f"{column.name}_{number}"
        names.add(name.lower())
        added.append(column._replace(name=name, type=types.get(column.version, column.type)))
    return tuple(added)


def _check_types(table: PhysicalTable, snapshot: Snapshot, types: Mapping[str, str]) -> None:
    """Make sure that what goes on in a column fits in it, where only the engine knows the types."""
    physical = table.column_named_by_version()
    there = {column.name: column.type for column in table.columns}
    for column in snapshot.columns:
        was, becomes = there.get(physical.get(column.version, "")), types.get(column.version)
        if column.type is not None or was is None or becomes is None:
            continue
        if not same_type(was, becomes):
            raise ExecutionError(
                f"{snapshot.name}: column {column.name} is {was} in {table.ref}, and {becomes} in "
                "the new definition, which only Spark could tell",
                hint=f"cast it in the query, to {was} or to {becomes}: the plan then says what "
                "becomes of it",
                location=snapshot.model.location,
            )
