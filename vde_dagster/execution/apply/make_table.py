"""Creation of physical tables at their first fill, and changes in place for a new definition.

Each change in place commits Iceberg metadata and the state in one transaction, without Spark.
Columns are only added, never removed, because readers and fills name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vde_dagster.base.texts import listed
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import Updates, append_columns, set_branch
from vde_dagster.lakehouse.metadata.table_metadata import columns_of, current_schema, head_of
from vde_dagster.lakehouse.publishing.commit import change_at_last
from vde_dagster.planning.engine_tasks import AnalysedQuery, FillTask
from vde_dagster.planning.environments.resolver import column_map, fill_map, nested_columns
from vde_dagster.planning.plan.assign_tables import with_added_columns
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.column_types import same_type
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.table_commits import TableCommit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.state.store import StateStore


def create_table(tasks: PlanTasks, filler: Snapshot, task: FillTask, lease: Lease) -> FillTask:
    """Create a table with the column types of a fill's query. Returns the task with the table."""
    table, handles = task.table, tasks.handles
    columns, prepared = analysed_types(handles, filler, task)
    if table.preview is not None:
        base = handles.store.tables.get(table.preview.of)
        add_columns(handles.lakehouse, base, filler, dict(columns), lease, table)
        created = handles.store.tables.get(table.id)
        tasks.written.put_table(created)
        return replace(task, table=created, columns=fill_map(filler, created), prepared=prepared)
    handles.engine().create_table(table, filler, tuple(columns), branch=task.branch)
    created = handles.store.tables.mark_created(table, columns)
    return replace(task, table=created, prepared=prepared)


def analysed_types(
    handles: Handles, filler: Snapshot, task: FillTask
) -> tuple[list[tuple[str, str]], AnalysedQuery | None]:
    """Analyze a fill's query with Spark.

    Returns:
        (physical column, Spark SQL type) of each computed column; the analyzed query, if any.
    """
    declared = {column.name: column.type for column in filler.model.columns}
    prepared = None
    if task.query is not None:
        before = tuple(filter(filler.model.is_for_session, task.before))
        prepared = handles.engine().prepare(task.query, before)
        analysed = {name.lower(): type_ for name, type_ in prepared.columns}
    else:
        analysed = {c.name.lower(): c.type or "STRING" for c in filler.columns}
    added = {column.name: column.type for column in filler.model.kind.added_columns}
    made = {*added, *(name for name, _ in filler.standalone_columns)}
    columns = []
    for output, physical in task.columns:
        if output not in made:
            continue  # It stays visible, but is no longer computed.
        type_ = added.get(output) or declared.get(output) or analysed.get(output.lower())
        if type_ is None:
            raise ExecutionError(
                f"{filler.name}: the query has no column '{output}'",
                hint=f"Spark finds the columns {', '.join(analysed)}",
            )
        columns.append((physical, type_))
    if filler.version.unknown_star and not declared:
        _require_known_columns(filler, analysed)
    return columns, prepared


def _require_known_columns(filler: Snapshot, analysed: Iterable[str]) -> None:
    """Check that the query returns no column that the plan does not know."""
    more = [name for name in analysed if name not in filler.version.columns]
    if more:
        raise ExecutionError(
            f"{filler.name}: its query returns columns that are not in the plan: {listed(more)}",
            hint="if the tables that SELECT * reads exist by now, plan again: vde plan ENV; "
            "otherwise write the columns in place of the star, or declare them: "
            "columns (id INT, …)",
            location=filler.model.location,
        )


def add_columns(
    lakehouse: Lakehouse,
    table: PhysicalTable,
    snapshot: Snapshot,
    types: Mapping[str, str],
    lease: Lease,
    preview: PhysicalTable | None = None,
) -> PhysicalTable:
    """Add new columns of a model's definition to its Iceberg table.

    Args:
        types: Spark SQL type of each column, by its physical name in the plan.
        preview: A branch of the table, created in the same commit, that shows the new columns.
    """
    # The physical names of the added columns may differ from the plan.
    store = lakehouse.store
    _require_named_fields(store, table, snapshot)
    by_version = _types_by_version(preview or with_added_columns(table, snapshot), snapshot, types)
    _check_types(table, snapshot, by_version)
    whole, also = table, TableCommit()

    def change(now: dict[str, Any]) -> Updates:
        nonlocal whole, also
        known = store.tables.get(table.id)
        taken = {field["name"].lower() for field in current_schema(now)["fields"]}
        grown = with_added_columns(known, snapshot, columns_of(now, None)).columns[
            : len(known.columns)
        ]
        added = _name_new_columns(known, snapshot, taken, by_version)
        whole = replace(known, columns=(*grown, *added))
        changed = tuple(column for column in whole.columns if column not in known.columns)
        updates = append_columns(now, [(c.name, c.type or "STRING") for c in changed])
        made = None
        if preview is not None and preview.branch is not None:
            head = head_of(now)
            if head is None:
                raise ExecutionError(
                    f"{table.ref} is empty, so a change cannot be previewed",
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
            columns=(known.id, changed) if changed else None,
            branched=made,
        )
        return updates

    change_at_last(lakehouse, table.ref, change, "table.in_place", lambda: also)
    return whole


def _require_named_fields(store: StateStore, table: PhysicalTable, snapshot: Snapshot) -> None:
    # Such a view would fail, because the column's type would differ from the view's.
    grown = with_added_columns(table, snapshot).columns
    growing = {old.name for old, new in zip(table.columns, grown, strict=False) if old != new}
    readers = store.shown.entries_on_tables([table.id]) if growing else []
    shown = store.snapshots.load({entry.snapshot_id for _, entry in readers})
    for environment, entry in readers:
        reader = shown[entry.snapshot_id]
        fields = nested_columns(reader, table)
        for output, physical in column_map(reader, table):
            if physical in growing and output not in fields:
                raise ConflictError(
                    f"{snapshot.name} cannot add fields to column {output} in place: the view in "
                    f"environment '{environment}' reads the whole column, because that "
                    "environment's definition of this model is not forward-only",
                    hint=f"publish the forward-only definition there: vde apply {environment}; or "
                    f"remove the environment: vde drop {environment}",
                )


def _types_by_version(
    planned: PhysicalTable, snapshot: Snapshot, types: Mapping[str, str]
) -> dict[str, str]:
    physical = dict(column_map(snapshot, planned))
    return {
        column.version: types[physical[column.name]]
        for column in snapshot.columns
        if physical[column.name] in types
    }


def _name_new_columns(
    known: PhysicalTable, snapshot: Snapshot, taken: Iterable[str], types: Mapping[str, str]
) -> tuple[PhysicalColumn, ...]:
    # A name can be taken because an earlier process added the column and then died before it
    # updated the state.
    names = {*taken}
    added = []
    for column in with_added_columns(known, snapshot).columns[len(known.columns) :]:
        name, number = column.name, 1
        while name.lower() in names:
            number += 1
            name = f"{column.name}_{number}"
        names.add(name.lower())
        added.append(column._replace(name=name, type=types.get(column.version, column.type)))
    return tuple(added)


def _check_types(table: PhysicalTable, snapshot: Snapshot, types: Mapping[str, str]) -> None:
    from vde_dagster.sql.casts import sort_type_fields

    physical = table.column_named_by_version()
    there = {column.name: column.type for column in table.columns}
    nested = nested_columns(snapshot, with_added_columns(table, snapshot))
    for column in snapshot.columns:
        was, becomes = there.get(physical.get(column.version, "")), types.get(column.version)
        if column.type is not None or was is None or becomes is None:
            continue
        was = nested[column.name].shown if column.name in nested else was
        if not same_type(sort_type_fields(was), sort_type_fields(becomes)):
            raise ExecutionError(
                f"{snapshot.name}: column {column.name} is {was} in {table.ref}, but {becomes} in "
                "the new definition, according to Spark",
                hint=f"cast {column.name} to {was} or {becomes} in the query: then the plan shows "
                "the effect",
                location=snapshot.model.location,
            )
