"""The planner: from a target and the state of the warehouse to a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.contracts import ContractBreak, Shown, contract_breaks
from vde_dagster.planning.environments.environment import PRODUCTION, Entry, ViewNames
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.kinds.repeatable import may_be_skipped, why_always
from vde_dagster.planning.plan.assign_tables import assign_tables, is_deployed_already
from vde_dagster.planning.plan.audits_due import (
    audited_range,
    own_audits_due,
    with_audits_of_others,
)
from vde_dagster.planning.plan.compare_snapshots import REMOVED, Reasons, becomes_table, classify
from vde_dagster.planning.plan.missing_intervals import (
    Readiness,
    infer_starts,
    missing_intervals,
    refills,
)
from vde_dagster.planning.plan.parent_coverage import ParentCoverage
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_request import (
    PlanRequest,
    filled_of,
    fills,
    units_from,
    window_for,
)
from vde_dagster.planning.plan.publication import planned_views
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import Part, PhysicalTable, TableChange

_ANEW = "its history begins anew: what its table keeps of the past is no longer in its sources"
_CATCHES_UP = "what it reads holds more by now of what its slot reaches over"
_COMPUTED = "its rows are computed into a table, and what reads it finds the same"
_PARTS = "what it has of {} that was filled in part does not count, and is filled again by the {}"
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
        snapshots: The target, in topological order.
        unique_id: Makes ids that were never used, for new tables.

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
    shown = state.base.entries if state.base is not None else {}
    old = {name: state.snapshots[entry.snapshot_id] for name, entry in shown.items()}
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
    works = PlannedWork(request, state, starts)
    reasons = Reasons(changed)
    building: set[ModelName] = set()
    moving: set[ModelName] = set()
    for name, snapshot in snapshots.items():
        before, table = old.get(name), tables.get(name)
        verdict = Verdict(*classify(snapshot, before), reasons.of(snapshot, before))
        if not snapshot.model.kind.is_read:
            start, last = starts.get(name), state.audited.get(name)
            due = audited_range(request, snapshot, before, moving, start, last)
            yield PlannedModel(
                name,
                verdict.change,
                verdict.category,
                verdict.reasons,
                snapshot.id,
                before.id if before is not None else None,
                intervals=due,
                audits=bool(due),
            )
            continue
        work = works.of(snapshot, table)
        verdict = _with_state(verdict, request, snapshot, table, state)
        verdict = _with_work(verdict, snapshot, before, work)
        skippable, always = _skipping(request, snapshot, snapshots, table, work)
        yield PlannedModel(
            name,
            verdict.change,
            verdict.category,
            verdict.reasons,
            snapshot.id,
            before.id if before is not None else None,
            table,
            bool(work.intervals),
            work.intervals,
            records_only=bool(work.intervals) and request.options.empty_backfill,
            audits=(not work.intervals or snapshot.is_incremental)
            and own_audits_due(snapshot, before, table, state, moving),
            restate=work.again,
            catches_up=work.catches_up,
            layout=table is not None
            and works.owns(table)
            and _layout_differs(name, snapshot, table, state),
            breaks=_breaks(name, Shown(snapshot, table), old, state) if name in changed else (),
            skippable=skippable,
            always=always,
            in_place=work.in_place,
        )
        if work.intervals or (table is None and building & set(snapshot.parents)):
            building.add(name)
        if name in building or verdict.change is not Change.UNCHANGED:
            moving.add(name)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a model's definition; it has no category where it has no rows."""

    change: Change
    category: Category | None
    reasons: tuple[str, ...]

    def because(self, reason: str, category: Category | None = None) -> Verdict:
        """Return it with one more reason, and with another category if one is given."""
        return replace(self, category=category or self.category, reasons=(*self.reasons, reason))


def _with_state(
    verdict: Verdict,
    request: PlanRequest,
    snapshot: Snapshot,
    table: PhysicalTable | None,
    state: WarehouseState,
) -> Verdict:
    name = snapshot.name
    if name in state.left_out:
        verdict = Verdict(Change.MODIFIED, Category.BREAKING, (_UNREADABLE,))
    if _begins_anew(name, snapshot, table, state):
        stays = verdict.category is Category.AFFECTED
        verdict = verdict.because(_ANEW, None if stays else Category.BREAKING)
    if by := request.previewed.get(name):
        verdict = verdict.because(f"goes on forward-only, as previewed in {', '.join(by)}")
    return verdict


def _with_work(
    verdict: Verdict, snapshot: Snapshot, before: Snapshot | None, work: ModelWork
) -> Verdict:
    if work.catches_up:
        verdict = verdict.because(_CATCHES_UP)
    if work.parts:
        units = " and ".join(dict.fromkeys(f"a {part.unit.text}" for part in work.parts))
        verdict = verdict.because(_PARTS.format(units, snapshot.cadence.unit.text))
    reused = work.intervals and verdict.category is Category.REUSE
    if reused and before is not None and becomes_table(snapshot, before):
        verdict = verdict.because(_COMPUTED, Category.NON_BREAKING)
    return verdict


def _skipping(
    request: PlanRequest,
    snapshot: Snapshot,
    snapshots: Mapping[ModelName, Snapshot],
    table: PhysicalTable | None,
    work: ModelWork,
) -> tuple[bool, str]:
    """Say whether a run may skip a model whose inputs are the same, or why it never may."""
    if not work.intervals or table is None or request.options.full:
        return False, ""
    if request.kind is not PlanKind.RUN or not may_be_skipped(snapshot):
        return False, ""
    always = why_always(snapshot, snapshots) or ""
    return not always and bool(table.intervals), always


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
    for name, snapshot in old.items():
        if name not in snapshots:
            breaks, before = _breaks(name, None, old, state), snapshot.id
            yield PlannedModel(name, Change.REMOVED, None, (REMOVED,), None, before, breaks=breaks)
    for name in state.left_out:
        if name not in snapshots:
            yield PlannedModel(name, Change.REMOVED, None, (REMOVED, _UNREADABLE))


def _breaks(
    name: ModelName, new: Shown | None, old: Mapping[ModelName, Snapshot], state: WarehouseState
) -> tuple[ContractBreak, ...]:
    assert state.base is not None
    table_id = state.base.entries[name].table_id
    before = Shown(old[name], state.tables.get(table_id) if table_id else None)
    return contract_breaks(before, new, state.view_types, old.values())


def _layout_differs(
    name: ModelName, snapshot: Snapshot, table: PhysicalTable, state: WarehouseState
) -> bool:
    """Say whether an existing table is laid out otherwise than its model now asks.

    Its layout is that of the model that the environment shows with it, else of its creator.
    """
    if not table.created or table.preview is not None:
        return False
    shown = state.base.entries.get(name) if state.base else None
    has = shown.snapshot_id if shown and shown.table_id == table.id else table.snapshot_id
    known = state.snapshots.get(has)
    return known is not None and known.layout_hash != snapshot.layout_hash


def with_tables(plan: Plan, tables: Mapping[str, PhysicalTable]) -> Plan:
    """Return the plan with planned tables exchanged, by id, for those that exist."""
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


@dataclass(frozen=True, slots=True)
class ModelWork:
    """The work on a model's table.

    Args:
        intervals: What it fills (UTC).
        again: Whether a change in place fills again what the earlier definition filled.
        parts: Parts of longer units in its table, which do not count for it.
    """

    intervals: IntervalSet = field(default_factory=IntervalSet)
    catches_up: bool = False
    again: bool = False
    in_place: TableChange | None = None
    parts: tuple[Part, ...] = ()


class PlannedWork:
    """The work of a plan's models, parents first; it remembers what children may count on."""

    def __init__(
        self, request: PlanRequest, state: WarehouseState, starts: Mapping[ModelName, datetime]
    ) -> None:
        self._request, self._state, self._starts = request, state, starts
        self._protected = state.protected(request.environment)
        self._shown = state.base.tables if state.base is not None else frozenset[str]()
        self._readiness = Readiness(request.ready)
        self._coverage = ParentCoverage(starts, request.window.now)

    def owns(self, table: PhysicalTable) -> bool:
        """Say whether a table is the environment's to fill and to lay out."""
        return table.id not in self._protected

    def of(self, snapshot: Snapshot, table: PhysicalTable | None) -> ModelWork:
        """Return the work for a model; its parents come first.

        Args:
            table: The table that serves it; None for one that is a query.
        """
        parts: tuple[Part, ...] = ()
        if table is not None:
            counted = table.counted_by(snapshot.cadence.unit)
            if self.owns(table):
                lost = table.intervals - counted.intervals
                parts = tuple(p for p in table.parts if lost & IntervalSet((p.interval,)))
            table = counted
        work = self._asked(snapshot, table) if table is not None else ModelWork()
        intervals = self._readiness.let_pass(snapshot, work.intervals)
        self._coverage.note(snapshot, table, intervals)
        # What fills more than the slot that the table has is no mere catching up.
        has = table.intervals if table is not None else IntervalSet()
        catches_up = work.catches_up and bool(intervals) and not intervals - has
        return replace(work, intervals=intervals, catches_up=catches_up, parts=parts)

    def _asked(self, snapshot: Snapshot, table: PhysicalTable) -> ModelWork:
        """Return the work before signals hold anything back."""
        request, coverage = self._request, self._coverage
        complete = coverage.complete_for(snapshot)
        intervals, catches_up = IntervalSet(), False
        if self.owns(table) and fills(request, snapshot, table, self._shown):
            catches_up = coverage.catches_up(snapshot, table)
            intervals = missing_intervals(
                snapshot,
                filled_of(request, snapshot, table),
                window_for(request, snapshot, table),
                self._starts,
                complete,
                catches_up=catches_up,
            )
        in_place = _in_place(request, snapshot, table, self._state)
        if in_place is None or in_place.effective_from is None:
            return ModelWork(intervals, catches_up, in_place=in_place)
        outdated = units_from(in_place.effective_from, snapshot, table.intervals & complete)
        return ModelWork(intervals | outdated, catches_up, bool(outdated), in_place)


def _in_place(
    request: PlanRequest, snapshot: Snapshot, table: PhysicalTable, state: WarehouseState
) -> TableChange | None:
    """Return the change in place of a table of production's; None when it does not change."""
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
