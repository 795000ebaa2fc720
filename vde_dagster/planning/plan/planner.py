"""Makes a plan from a target and the state of the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.contracts import (
    ContractBreak,
    ShownModel,
    find_contract_breaks,
)
from vde_dagster.planning.environments.environment import PRODUCTION, Entry, ViewNames
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.cadence import FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import explain_never_skipped, may_be_skipped
from vde_dagster.planning.plan.assign_tables import assign_tables, is_deployed_already
from vde_dagster.planning.plan.audits_due import (
    add_audits_of_unchanged_models,
    audited_range,
    needs_audits,
)
from vde_dagster.planning.plan.compare_snapshots import (
    ChangeReasons,
    becomes_table,
    classify_change,
    differing_columns,
)
from vde_dagster.planning.plan.missing_intervals import (
    Readiness,
    Window,
    infer_starts,
    missing_intervals,
)
from vde_dagster.planning.plan.parent_coverage import ParentCoverage
from vde_dagster.planning.plan.plan import Category, Change, Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_request import PlanRequest
from vde_dagster.planning.plan.publication import plan_views
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import Part, PhysicalTable, TableChange


def make_plan(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
    *,
    plan_id: str,
    unique_id: Callable[[], str],
) -> Plan:
    """Compare a project's snapshots with an environment, and return the plan.

    Args:
        snapshots: The project's snapshots, in topological order.
        unique_id: Returns a new unique id for each new table.

    Raises:
        UsageError: A view of the environment would have the name of another object.
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
    planner = _Planner(request, snapshots, tables, starts, state)
    return Plan(
        id=plan_id,
        environment=request.environment,
        kind=request.kind,
        base_version=state.target.version if state.target else 0,
        created_at=window.now,
        models=(
            *add_audits_of_unchanged_models(planner.planned(), snapshots, state),
            *planner.removed(),
        ),
        views=plan_views(request, snapshots, tables, entries, state),
        entries=entries,
        snapshots={snapshot.id: snapshot for snapshot in snapshots.values()},
        start=window.start,
        end=window.end,
        expires_at=None if request.environment == PRODUCTION else request.expires_at,
    )


def compare_models(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    tables: Mapping[ModelName, PhysicalTable],
    state: WarehouseState,
) -> dict[ModelName, PlannedModel]:
    """Compare a project's snapshots with an environment, without planning any fills."""
    planner = _Planner(request, snapshots, tables, {}, state)
    return {model.name: model for model in (*planner.compared(), *planner.removed())}


def replace_plan_tables(plan: Plan, tables: Mapping[str, PhysicalTable]) -> Plan:
    """Replace tables of a plan with tables of the state.

    A new table may be replaced with an existing table that has the same rows and columns.

    Args:
        tables: Tables of the state, each under the id of the plan's table that it replaces.
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


@dataclass(frozen=True, slots=True)
class _Work:
    """The work on a model's table.

    Args:
        intervals: The ranges to fill (UTC).
        again: Whether a change in place fills ranges again that the earlier definition filled.
        catches_up: Whether a full table is computed again for the range of its last fill.
        early: Whether the table is filled before it is due, because the run ignores crons.
        parts: Ranges filled as a part of a longer unit, which do not count as filled.
    """

    intervals: IntervalSet = field(default_factory=IntervalSet)
    catches_up: bool = False
    again: bool = False
    in_place: TableChange | None = None
    early: bool = False
    parts: tuple[Part, ...] = ()


class _Planner:
    # The coverage of each model is recorded for its children.
    def __init__(
        self,
        request: PlanRequest,
        snapshots: Mapping[ModelName, Snapshot],
        tables: Mapping[ModelName, PhysicalTable],
        starts: Mapping[ModelName, datetime],
        state: WarehouseState,
    ) -> None:
        self.request, self.snapshots, self.tables = request, snapshots, tables
        self.starts, self.state = starts, state
        self.shown = state.base.entries if state.base is not None else {}
        self.shown_tables = state.base.tables if state.base is not None else frozenset[str]()
        self.old = {name: state.snapshots[one.snapshot_id] for name, one in self.shown.items()}
        self.changed = {
            name: (snapshot, self.old[name])
            for name, snapshot in snapshots.items()
            if name in self.old and not self.old[name].means(snapshot)
        }
        self.reasons = ChangeReasons(self.changed)
        self.protected = state.protected(request.environment)
        self.readiness = Readiness(request.ready)
        self.coverage = ParentCoverage(starts, request.window.now)

    def planned(self) -> Iterator[PlannedModel]:
        request, state = self.request, self.state
        building, moving = set[ModelName](), set[ModelName]()
        for name, snapshot in self.snapshots.items():
            before, table = self.old.get(name), self.tables.get(name)
            previous = before.id if before is not None else None
            if not snapshot.model.kind.is_read:
                start, last = self.starts.get(name), state.audited.get(name)
                due = audited_range(request, snapshot, before, moving, start, last)
                yield PlannedModel(
                    name,
                    *classify_change(snapshot, before),
                    self.reasons.explain(snapshot, before),
                    snapshot.id,
                    previous,
                    intervals=due,
                    audits=bool(due),
                )
                continue
            work = self._work(snapshot, table)
            change, category, reasons = self._verdict(snapshot, table, work)
            skippable, always = self._skipping(snapshot, table, work)
            yield PlannedModel(
                name,
                change,
                category,
                reasons,
                snapshot.id,
                previous,
                table,
                bool(work.intervals),
                work.intervals,
                records_only=bool(work.intervals) and request.options.empty_backfill,
                audits=(not work.intervals or snapshot.is_incremental)
                and needs_audits(snapshot, before, table, state, moving),
                restate=work.again,
                catches_up=work.catches_up,
                layout=table is not None and self._layout_differs(snapshot, table),
                breaks=self._breaks(name, ShownModel(snapshot, table))
                if name in self.changed
                else (),
                moves=self._moves(name) if name in self.changed else (),
                skippable=skippable,
                always=always,
                in_place=work.in_place,
            )
            if work.intervals or (table is None and building & set(snapshot.parents)):
                building.add(name)
            if name in building or change is not Change.UNCHANGED:
                moving.add(name)

    def compared(self) -> Iterator[PlannedModel]:
        for name, snapshot in self.snapshots.items():
            before, table = self.old.get(name), self.tables.get(name)
            if snapshot.model.kind.is_read:
                change, category, reasons = self._verdict(snapshot, table, _Work())
            else:
                change, category = classify_change(snapshot, before)
                reasons = self.reasons.explain(snapshot, before)
            changed = name in self.changed and snapshot.model.kind.is_read
            yield PlannedModel(
                name,
                change,
                category,
                reasons,
                snapshot.id,
                before.id if before is not None else None,
                table,
                breaks=self._breaks(name, ShownModel(snapshot, table)) if changed else (),
                moves=self._moves(name) if changed else (),
            )

    def removed(self) -> Iterator[PlannedModel]:
        for name, snapshot in self.old.items():
            if name not in self.snapshots:
                breaks, why = self._breaks(name, None), (Reason(ReasonCode.REMOVED),)
                yield PlannedModel(
                    name, Change.REMOVED, None, why, None, snapshot.id, breaks=breaks
                )
        for name in self.state.left_out:
            if name not in self.snapshots:
                reasons = (Reason(ReasonCode.REMOVED), Reason(ReasonCode.UNREADABLE))
                yield PlannedModel(name, Change.REMOVED, None, reasons)

    def _verdict(
        self, snapshot: Snapshot, table: PhysicalTable | None, work: _Work
    ) -> tuple[Change, Category | None, tuple[Reason, ...]]:
        before = self.old.get(snapshot.name)
        change, category = classify_change(snapshot, before)
        reasons = self.reasons.explain(snapshot, before)
        if snapshot.name in self.state.left_out:
            change, category = Change.MODIFIED, Category.BREAKING
            reasons = (Reason(ReasonCode.UNREADABLE),)
        why = [*reasons]
        if self._begins_anew(snapshot, table):
            why.append(Reason(ReasonCode.HISTORY_RESTARTS))
            category = category if category is Category.AFFECTED else Category.BREAKING
        if by := self.request.previewed.get(snapshot.name):
            why.append(Reason(ReasonCode.PREVIEWED, by))
        if work.catches_up:
            code = ReasonCode.BEFORE_CRON if work.early else ReasonCode.CATCHES_UP
            why.append(Reason(code))
        if work.parts:
            units = tuple(dict.fromkeys(part.unit.text for part in work.parts))
            why.append(Reason(ReasonCode.PARTS, units, detail=snapshot.cadence.unit.text))
        reused = work.intervals and category is Category.REUSE
        if reused and before is not None and becomes_table(snapshot, before):
            why.append(Reason(ReasonCode.BECOMES_TABLE))
            category = Category.NON_BREAKING
        return change, category, tuple(why)

    def _skipping(
        self, snapshot: Snapshot, table: PhysicalTable | None, work: _Work
    ) -> tuple[bool, Reason | str]:
        """Return whether this run may skip a model, and the reason if every run must compute it."""
        if not work.intervals or table is None or self.request.options.full:
            return False, ""
        if self.request.kind is not PlanKind.RUN or not may_be_skipped(snapshot):
            return False, ""
        always = explain_never_skipped(snapshot, self.snapshots) or ""
        return not always and bool(table.intervals), always

    def _begins_anew(self, snapshot: Snapshot, table: PhysicalTable | None) -> bool:
        """Return whether the plan replaces the filled table of a `disable_restatement` model."""
        entry = self.shown.get(snapshot.name)
        if (
            not snapshot.model.kind.disable_restatement
            or table is None
            or entry is None
            or not entry.table_id
        ):
            return False
        shown = self.state.tables.get(entry.table_id) if table.preview is None else None
        return shown is not None and shown.id != table.id and bool(shown.intervals)

    def _breaks(self, name: ModelName, new: ShownModel | None) -> tuple[ContractBreak, ...]:
        table = self.state.tables.get(self.shown[name].table_id or "")
        before = ShownModel(self.old[name], table)

        def with_declared_readers(one: ContractBreak) -> ContractBreak:
            known = [own for own in self.request.exposures if own.reads_column(name, one.column)]
            named = {
                what: tuple(own.name for own in known if own.what == what)
                for what in ("exposure", "sync", "metric")
            }
            exposures, syncs, metrics = named.values()
            return replace(one, exposures=exposures, syncs=syncs, metrics=metrics)

        found = find_contract_breaks(before, new, self.state.view_types, self.old.values())
        return tuple(map(with_declared_readers, found))

    def _moves(self, name: ModelName) -> tuple[str, ...]:
        columns = differing_columns(*self.changed[name])
        metrics = (one for one in self.request.exposures if one.what == "metric")
        return tuple(
            one.name for one in metrics if any(one.reads_column(name, column) for column in columns)
        )

    def _layout_differs(self, snapshot: Snapshot, table: PhysicalTable) -> bool:
        # The table has the layout of the published model, or of the snapshot that created it.
        if table.id in self.protected or not table.created or table.preview is not None:
            return False
        shown = self.shown.get(snapshot.name)
        has = shown.snapshot_id if shown and shown.table_id == table.id else table.snapshot_id
        known = self.state.snapshots.get(has)
        return known is not None and known.layout_hash != snapshot.layout_hash

    def _work(self, snapshot: Snapshot, table: PhysicalTable | None) -> _Work:
        """Return the work on a model's table. Its parents must be planned first."""
        parts: tuple[Part, ...] = ()
        if table is not None:
            counted = table.with_ranges_for_unit(snapshot.cadence.unit)
            if table.id not in self.protected:
                lost = table.intervals - counted.intervals
                parts = tuple(p for p in table.parts if lost & IntervalSet((p.interval,)))
            table = counted
        work = self._requested_work(snapshot, table) if table is not None else _Work()
        intervals = self.readiness.unblocked_intervals(snapshot, work.intervals)
        self.coverage.record_coverage(snapshot, table, intervals)
        # What fills more than the slot that the table has is no mere catching up.
        has = table.intervals if table is not None else IntervalSet()
        catches_up = work.catches_up and bool(intervals) and not intervals - has
        return replace(work, intervals=intervals, catches_up=catches_up, parts=parts)

    def _requested_work(self, snapshot: Snapshot, table: PhysicalTable) -> _Work:
        complete = self.coverage.complete_parent_ranges(snapshot)
        intervals, catches_up, early = IntervalSet(), False, False
        if table.id not in self.protected and self._fills(snapshot, table):
            catches_up = self.coverage.catches_up(snapshot, table)
            early = not catches_up and self._is_asked_early(snapshot, table)
            catches_up = catches_up or early
            # A run fills what neither a preview nor its table has; so do plans that add rows.
            once = self.request.kind is PlanKind.RUN or not snapshot.model.kind.refills
            intervals = missing_intervals(
                snapshot,
                table.available if once else table.intervals,
                self._window(snapshot, table),
                self.starts,
                complete,
                catches_up=catches_up,
            )
        in_place = self._in_place(snapshot, table)
        if in_place is None or in_place.effective_from is None:
            return _Work(intervals, catches_up, in_place=in_place, early=early)
        since = snapshot.cadence.unit.floor(in_place.effective_from)
        filled = table.intervals & complete & IntervalSet((Interval(since, FAR),))
        outdated = snapshot.cadence.unit.align_inward(filled)
        return _Work(intervals | outdated, catches_up, bool(outdated), in_place, early)

    def _is_asked_early(self, snapshot: Snapshot, table: PhysicalTable) -> bool:
        """Return whether a run that ignores crons computes a full table before it is due."""
        asked = self.request.kind is PlanKind.RUN and self.request.window.ignore_cron
        if not asked or snapshot.is_incremental:
            return False
        return bool(table.intervals) and not meaning_of(snapshot.model.kind).filled_once

    def _fills(self, snapshot: Snapshot, table: PhysicalTable) -> bool:
        # A run fills all due intervals. A plan fills tables that the environment does not show yet,
        # and an explicitly given range. Other due intervals wait for the next run.
        request, window = self.request, self.request.window
        if request.options.skip_backfill:
            return False
        if request.backfill is not None and snapshot.name not in request.backfill:
            return False
        if request.kind is PlanKind.RUN:
            return True
        if window.start is not None or window.end is not None:
            return snapshot.is_incremental or not table.intervals
        return table.id not in self.shown_tables

    def _window(self, snapshot: Snapshot, table: PhysicalTable) -> Window:
        window = self.request.window
        asked = window.start is not None or window.end is not None
        if table.preview is None or asked or self.request.kind is PlanKind.RUN:
            return window
        since = self.request.options.effective_from
        return replace(window, start=since or snapshot.cadence.latest_slot(window.now).start)

    def _in_place(self, snapshot: Snapshot, table: PhysicalTable) -> TableChange | None:
        request, target = self.request, self.state.target
        if snapshot.forward is None:
            return None
        changes = request.changes.get(snapshot.name, ())
        if table.preview is not None:
            entry = target.entries.get(snapshot.name) if target else None
            if entry is not None and entry.table_id == table.id:
                return None
            return TableChange(table.ref, deploys=False, columns=changes)
        if request.environment != PRODUCTION or is_deployed_already(snapshot, self.state):
            return None
        again = not request.options.skip_backfill and snapshot.model.kind.refills
        since = request.options.effective_from if again else None
        return TableChange(table.ref, deploys=True, columns=changes, effective_from=since)
