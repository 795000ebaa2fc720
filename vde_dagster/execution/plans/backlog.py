"""Backlogs of models that consume changes, computed for a plan without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.errors import VdeError
from vde_dagster.execution.apply.skipping import SkipDecisions, States, input_states
from vde_dagster.execution.changes import changed_keys
from vde_dagster.execution.changes.refresh_choice import RefreshChoice, project_costs
from vde_dagster.execution.plan_tasks import PlanTasks, WrittenTables
from vde_dagster.lakehouse.metadata.commit_summaries import commit_line, growth_between
from vde_dagster.planning.changes.backlog import RESTATED, Backlog, TableBacklog
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.environments.resolver import TableRead, tables_read
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.assign_tables import choose_filler
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_why_all
from vde_dagster.state.fills.fills import FillRecord

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.warehouse_state import WarehouseState


def with_backlogs(
    handles: Handles, plan: Plan, state: WarehouseState, models: Sequence[PlannedModel]
) -> Plan:
    """Add the unread changes of input tables to each model in `models` that has a table."""
    read_by_changes = {model.name: model.table for model in models if model.table is not None}
    costs = project_costs(handles, plan)
    tasks = PlanTasks(plan, plan.resolver(), WrittenTables(), handles, costs=costs)
    last = handles.store.fills.latest(table.id for table in read_by_changes.values())
    filled = {one.table.id for one in plan.builds if one.table is not None and one.skips is None}

    def with_backlog(model: PlannedModel) -> PlannedModel:
        table = read_by_changes.get(model.name)
        if table is None or table.id not in last:
            return model
        snapshot, definition = plan.snapshot_of(model), state.snapshots.get(table.snapshot_id)
        filler = choose_filler(table, snapshot, definition, plan.target) or snapshot
        try:
            found = _find_backlog(tasks, filler, table, last[table.id], filled)
        except (VdeError, OSError):
            return model  # `vde fsck` or the fill reports unreadable tables.
        return replace(model, backlog=found)

    return mark_restated(handles, replace(plan, models=tuple(map(with_backlog, plan.models))))


def mark_restated(handles: Handles, plan: Plan) -> Plan:
    """Note in the backlogs of restated models that their fills compute all rows."""
    resolver = plan.resolver()

    def marked(model: PlannedModel) -> PlannedModel:
        if model.backlog is None or model.table is None:
            return model
        reads = tables_read(plan.snapshot_of(model), resolver, handles.settings.catalog)
        if not plan.restates_alone(model.table.id, {read.key for read in reads}):
            return model
        return replace(model, backlog=replace(model.backlog, why_all=RESTATED, refresh=None))

    return replace(plan, models=tuple(map(marked, plan.models)))


def _find_backlog(
    tasks: PlanTasks, filler: Snapshot, table: PhysicalTable, last: FillRecord, filled: set[str]
) -> Backlog | None:
    reads = tasks.tables_read(filler)
    # Rows that the plan fills before are not visible yet: the fill decides.
    is_open = any(read.key in filled for read in reads)
    if is_open and meaning_of(filler.model.kind).chooses(filler.model):
        return None
    why_all, earlier = "", dict[str, changed_keys.LastRead]()
    seen: States = {}
    try:
        seen = SkipDecisions(tasks).inputs_of_definition(filler, table)
    except changed_keys.ComputesAllError as why:
        why_all = str(why)
    now = input_states(tasks.handles.lakehouse, reads, seen)
    try:
        earlier = changed_keys.read_last_inputs(tasks, reads, seen) if seen else {}
    except changed_keys.ComputesAllError as why:
        why_all = str(why)
    moved = [
        _table_backlog(tasks, read, earlier.get(read.key), now.get(read.key), read.key in filled)
        for read in reads
        if read.key in filled or _has_changed(earlier.get(read.key), now.get(read.key))
    ]
    if not moved:
        return None
    refresh: Refresh | None = None
    if not why_all and not is_open:
        choice = RefreshChoice(tasks, filler, table, reads, now)
        if choice.compute_small_inputs() is not None:
            return None
        try:
            refresh = choice.from_changes(
                changed_keys.find_changed_rows(tasks, filler, reads, seen, now), earlier
            )
        except changed_keys.ComputesAllError as why:
            why_all = str(why)
    if refresh is not None and not refresh.from_changes:
        why_all = describe_why_all(refresh)
    return Backlog(last.recorded_at, tuple(moved), why_all, refresh)


def _has_changed(was: changed_keys.LastRead | None, now: InputState | None) -> bool:
    return was is None or now is None or was.has_changed(now)


def _table_backlog(
    tasks: PlanTasks,
    read: TableRead,
    was: changed_keys.LastRead | None,
    now: InputState | None,
    filled_first: bool,
) -> TableBacklog:
    name = changed_keys.table_name(tasks, read)
    if was is None or now is None or was.other is not None:
        return TableBacklog(name, None, filled_first=filled_first)
    metadata = tasks.handles.lakehouse.table_metadata(read.ref)
    commits = 0
    for commit in commit_line(metadata, now.read_id, read.key):
        if commit.snapshot_id == was.state.read_id:
            break
        commits += not commit.quiet
    else:
        if was.state.read_id is not None:
            return TableBacklog(name, None, filled_first=filled_first)
    growth = growth_between(metadata, was.state.read_id, now.read_id)
    return TableBacklog(name, commits, growth.added, growth.removed, filled_first)
