"""The plan: what has to be computed and published to bring an environment to a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.assign_tables import assign_tables, is_deployed_already
from vde_dagster.planning.audits_due import own_audits_due, with_audits_of_others
from vde_dagster.planning.compare import becomes_table, classify, reasons
from vde_dagster.planning.contracts import ContractBreak, Shown, contract_breaks
from vde_dagster.planning.environment import PRODUCTION, Entry, ViewNames
from vde_dagster.planning.in_place import TableChange
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.lacks import Holdings
from vde_dagster.planning.missing import (
    ALWAYS,
    availability,
    infer_starts,
    missing_intervals,
)
from vde_dagster.planning.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan_request import (
    PlanRequest,
    filled_of,
    fills,
    refills,
    units_from,
    window_for,
)
from vde_dagster.planning.planned_views import planned_views
from vde_dagster.planning.readiness import Readiness
from vde_dagster.planning.repeatable import may_be_skipped, why_always
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.standalone_audits import audited_range
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.warehouse_state import WarehouseState

_ANEW = "its history begins anew: what its table keeps of the past is no longer in its sources"
_CATCHES_UP = "what it reads holds more by now of what its slot reaches over"
_COMPUTED = "its rows are computed into a table, and what reads it finds the same"
_UNREADABLE = "what is published of it is not known: its stored definition cannot be read"


def make_plan(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
    *,
    plan_id: str,
    unique_id: Callable[[], str],
) -> Plan:
    """Compare a target with an environment and say what to do.

    Args:
        request: What the caller asks for.
        snapshots: The target, in topological order.
        state: What exists.
        plan_id: The plan's id.
        unique_id: Makes ids that were never used, for new tables.

    Returns:
        The plan, complete in itself.

    Raises:
        UsageError: A view of the environment would have the name of something else.
    """
    ViewNames(request.environment, request.suffix).require_free(
        (name for name, one in snapshots.items() if one.model.kind.is_shown),
        (name for name, one in snapshots.items() if not one.model.table),
    )
    window = request.window
    starts = infer_starts(snapshots, window)
    tables = assign_tables(request.environment, snapshots, state, window, starts, unique_id)
    entries = {
        name: Entry(name, snapshot.id, tables[name].id if name in tables else None)
        for name, snapshot in snapshots.items()
    }
    expires = None
    if request.time_to_live and request.environment != PRODUCTION:
        expires = window.now + request.time_to_live
    old = _shown_snapshots(state)
    planned = _planned(request, snapshots, old, tables, starts, state)
    return Plan(
        id=plan_id,
        environment=request.environment,
        kind=request.kind,
        base_version=state.target.version if state.target else 0,
        created_at=window.now,
        models=(
            *with_audits_of_others(planned, snapshots, state),
            *_removed(snapshots, old, state),
        ),
        views=planned_views(request, snapshots, tables, entries, state),
        entries=entries,
        snapshots={snapshot.id: snapshot for snapshot in snapshots.values()},
        start=window.start,
        end=window.end,
        expires_at=expires,
    )


def _shown_snapshots(state: WarehouseState) -> dict[ModelName, Snapshot]:
    """Return what the environment that the plan is compared with shows."""
    if state.base is None:
        return {}
    return {name: state.snapshots[e.snapshot_id] for name, e in state.base.entries.items()}


def _planned(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    old: Mapping[ModelName, Snapshot],
    tables: Mapping[ModelName, PhysicalTable],
    starts: Mapping[ModelName, datetime],
    state: WarehouseState,
) -> Iterator[PlannedModel]:
    """Say of each model of the target what changed and what has to be done, parents first."""
    changed = {
        name: (snapshot, old[name])
        for name, snapshot in snapshots.items()
        if name in old and old[name].id != snapshot.id
    }
    protected = state.protected(request.environment)
    shown = state.base.tables if state.base is not None else frozenset[str]()
    complete: dict[ModelName, IntervalSet] = {}
    building: set[ModelName] = set()
    moving: set[ModelName] = set()
    readiness = Readiness(request.ready)
    window = request.window
    holdings = Holdings(starts, window.now, window.ignore_cron)
    for name, snapshot in snapshots.items():
        change, category = classify(snapshot, old.get(name))
        if not snapshot.model.kind.is_read:
            start, last = starts.get(name), state.audited.get(name)
            due = audited_range(request, snapshot, old.get(name), moving, start, last)
            why = reasons(snapshot, old.get(name), changed)
            yield _planned_audit(snapshot, old.get(name), change, category, why, due)
            continue
        table = tables.get(name)
        parents = {parent: snapshots[parent] for parent in snapshot.parents}
        available = availability(snapshot, parents, complete, starts, request.window.now)
        own = table is not None and table.id not in protected
        why = reasons(snapshot, old.get(name), changed)
        if name in state.left_out:
            change, category, why = Change.MODIFIED, Category.BREAKING, (_UNREADABLE,)
        if _begins_anew(name, snapshot, table, state):
            why = (*why, _ANEW)
            category = Category.BREAKING if category is not Category.AFFECTED else category
        by = request.previewed.get(name)
        if by:
            why = (*why, f"goes on forward-only, as previewed in {', '.join(by)}")
        intervals = IntervalSet()
        in_place = None
        again = catches_up = False
        if table is not None:
            in_place = _in_place(request, snapshot, table, state)
            if own and fills(request, snapshot, table, shown):
                catches_up = holdings.catches_up(snapshot, table)
                intervals = missing_intervals(
                    snapshot,
                    filled_of(request, snapshot, table),
                    window_for(request, snapshot, table),
                    starts,
                    available,
                    catches_up=catches_up,
                )
            if in_place is not None and in_place.effective_from is not None:
                outdated = units_from(
                    in_place.effective_from, snapshot, table.intervals & available
                )
                again, intervals = bool(outdated), intervals | outdated
            intervals = readiness.let_pass(snapshot, intervals)
            catches_up = catches_up and bool(intervals) and not intervals - table.intervals
            if catches_up:
                why = (*why, _CATCHES_UP)
            holdings.note(snapshot, table, intervals)
            if snapshot.is_incremental:
                complete[name] = table.available | intervals
            elif owed := holdings.owed(name):
                complete[name] = ALWAYS - owed
        else:
            readiness.let_pass(snapshot, intervals)
            holdings.note(snapshot, None, intervals)
            if any(parent in complete for parent in snapshot.parents):
                complete[name] = available
        if intervals and category is Category.REUSE and becomes_table(snapshot, old[name]):
            category, why = Category.NON_BREAKING, (*why, _COMPUTED)
        skippable, always = False, ""
        in_run = request.kind is PlanKind.RUN and may_be_skipped(snapshot)
        if intervals and table is not None and in_run:
            always = "" if request.options.full else why_always(snapshot, snapshots) or ""
            skippable = not always and not request.options.full and bool(table.intervals)
        yield PlannedModel(
            name=name,
            change=change,
            category=category,
            reasons=why,
            snapshot_id=snapshot.id,
            previous_snapshot_id=old[name].id if name in old else None,
            table=table,
            builds=bool(intervals),
            intervals=intervals,
            records_only=bool(intervals) and request.options.empty_backfill,
            audits=(not intervals or snapshot.is_incremental)
            and own_audits_due(snapshot, old.get(name), table, state, moving),
            restate=again,
            catches_up=catches_up,
            layout=table is not None and own and _layout_differs(name, snapshot, table, state),
            breaks=_breaks(name, Shown(snapshot, table), old, state) if name in changed else (),
            skippable=skippable,
            always=always,
            in_place=in_place,
        )
        if intervals or (table is None and building & set(snapshot.parents)):
            building.add(name)
        if name in building or change is not Change.UNCHANGED:
            moving.add(name)


def _planned_audit(
    snapshot: Snapshot,
    old: Snapshot | None,
    change: Change,
    category: Category | None,
    why: tuple[str, ...],
    due: IntervalSet,
) -> PlannedModel:
    """Plan a standalone audit, which computes nothing."""
    return PlannedModel(
        name=snapshot.name,
        change=change,
        category=category,
        reasons=why,
        snapshot_id=snapshot.id,
        previous_snapshot_id=old.id if old is not None else None,
        table=None,
        builds=False,
        intervals=due,
        audits=bool(due),
    )


def _begins_anew(
    name: ModelName, snapshot: Snapshot, table: PhysicalTable | None, state: WarehouseState
) -> bool:
    """Say whether a model gets another table whose rows its sources cannot make as they were."""
    entry = state.base.entries.get(name) if state.base is not None else None
    if snapshot.model.kind.restatable or table is None or entry is None or not entry.table_id:
        return False
    if table.preview is not None:
        return False
    shown = state.tables.get(entry.table_id)
    return shown is not None and shown.id != table.id and bool(shown.intervals)


def _removed(
    snapshots: Mapping[ModelName, Snapshot],
    old: Mapping[ModelName, Snapshot],
    state: WarehouseState,
) -> Iterator[PlannedModel]:
    """Name the models that the target no longer has."""
    for name, snapshot in old.items():
        if name not in snapshots:
            why = reasons(None, snapshot, {})
            breaks = _breaks(name, None, old, state)
            yield PlannedModel(
                name, Change.REMOVED, None, why, None, snapshot.id, None, False, breaks=breaks
            )
    for name in state.left_out:
        if name not in snapshots:
            why = (*reasons(None, None, {}), _UNREADABLE)
            yield PlannedModel(name, Change.REMOVED, None, why, None, None, None, False)


def _breaks(
    name: ModelName, new: Shown | None, old: Mapping[ModelName, Snapshot], state: WarehouseState
) -> tuple[ContractBreak, ...]:
    """Say what readers of a model that changes will not find as it is."""
    assert state.base is not None
    table_id = state.base.entries[name].table_id
    before = Shown(old[name], state.tables.get(table_id) if table_id else None)
    return contract_breaks(before, new, state.view_types, old.values())


def _in_place(
    request: PlanRequest, snapshot: Snapshot, table: PhysicalTable, state: WarehouseState
) -> TableChange | None:
    """Say how a plan goes on with a table of production's; None when nothing of that changes."""
    if snapshot.forward is None:
        return None
    changes = request.changes.get(snapshot.name, ())
    if table.preview is not None:
        entry = state.target.entries.get(snapshot.name) if state.target else None
        if entry is not None and entry.table_id == table.id:
            return None
        return TableChange(table.ref, deploys=False, columns=changes)
    if request.environment != PRODUCTION or is_deployed_already(snapshot, state):
        return None
    options = request.options
    again = not options.skip_backfill and refills(snapshot)
    since = options.effective_from if again else None
    return TableChange(table.ref, deploys=True, columns=changes, effective_from=since)


def _layout_differs(
    name: ModelName, snapshot: Snapshot, table: PhysicalTable, state: WarehouseState
) -> bool:
    """Say whether an existing table is laid out otherwise than its model now asks.

    The layout that it has is that of the model which the environment shows it for, and else of
    the definition that created it.
    """
    if not table.created or table.preview is not None:
        return False
    shown = state.base.entries.get(name) if state.base else None
    has = shown.snapshot_id if shown and shown.table_id == table.id else table.snapshot_id
    known = state.snapshots.get(has)
    return known is not None and known.layout_hash != snapshot.layout_hash


def with_tables(plan: Plan, tables: Mapping[str, PhysicalTable]) -> Plan:
    """Return the plan with planned tables exchanged for the ones that exist.

    Args:
        plan: The plan.
        tables: By the planned table's id, the table that turned out to serve it.
    """
    models = tuple(
        replace(model, table=tables.get(model.table.id, model.table)) if model.table else model
        for model in plan.models
    )
    entries = {
        name: replace(entry, table_id=tables[entry.table_id].id)
        if entry.table_id is not None and entry.table_id in tables
        else entry
        for name, entry in plan.entries.items()
    }
    return replace(plan, models=models, entries=entries)
