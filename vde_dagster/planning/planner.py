"""The plan: what has to be computed and published to bring an environment to a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from vde_dagster.base.names import ModelName
from vde_dagster.planning.assign_tables import assign_tables, is_deployed_already
from vde_dagster.planning.cadence import FAR
from vde_dagster.planning.compare import classify, reasons
from vde_dagster.planning.contracts import ContractBreak, Shown, ViewTypes, contract_breaks
from vde_dagster.planning.environment import (
    PRODUCTION,
    Entry,
    Environment,
    protected_tables,
    view_ref,
)
from vde_dagster.planning.in_place import ColumnChanges, TableChange
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.missing import (
    Window,
    availability,
    infer_starts,
    missing_intervals,
)
from vde_dagster.planning.options import NOTHING_SAID, PlanOptions
from vde_dagster.planning.plan import Category, Change, Plan, PlanKind, PlannedModel, PlannedViews
from vde_dagster.planning.readiness import Readiness, Ready
from vde_dagster.planning.repeatable import may_be_skipped, why_always
from vde_dagster.planning.resolver import Binding, Resolver
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable, TableRef
from vde_dagster.planning.views import has_view, view_signature

_ANEW = "its history begins anew: what its table keeps of the past is no longer in its sources"


@dataclass(frozen=True, slots=True)
class WarehouseState:
    """What the planner has to know of what has been built and published.

    Args:
        target: The environment's current version; None when it does not exist.
        production: Production's current version, with which a new environment is compared.
        snapshots: Snapshots that these two and the tables name, by id.
        tables: Physical tables that these two name, and all those whose fill version is that of a
            snapshot of the project, by id.
        view_types: What Spark made of the VIEW models that the plan may change, as far as it is
            known, by snapshot id.
    """

    target: Environment | None = None
    production: Environment | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    tables: Mapping[str, PhysicalTable] = field(default_factory=dict)
    view_types: ViewTypes = field(default_factory=dict)

    @property
    def base(self) -> Environment | None:
        """The environment that the plan's changes are told against."""
        return self.target or self.production

    @property
    def held(self) -> frozenset[str]:
        """The ids of the snapshots that the two environments hold, as they are stored."""
        return frozenset(
            entry.snapshot_id
            for environment in (self.target, self.production)
            if environment is not None
            for entry in environment.entries.values()
        )


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the caller asks for.

    Args:
        environment: The environment's name.
        window: The range to fill and the instant of the plan.
        kind: A change of code, or a scheduled run.
        options: What else the caller says of the plan.
        backfill: The models that are filled, or None for all.
        ready: Asks the signals of models, or None to let everything pass.
        changes: What becomes of the columns of models that go on with a table of production's.
        time_to_live: How long an environment other than production is kept.
        catalog: The Spark catalog's name.
    """

    environment: str
    window: Window
    kind: PlanKind = PlanKind.PLAN
    options: PlanOptions = NOTHING_SAID
    backfill: frozenset[ModelName] | None = None
    ready: Ready | None = None
    time_to_live: timedelta | None = None
    catalog: str = "lakehouse"
    changes: Mapping[ModelName, ColumnChanges] = field(default_factory=dict)


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
    """
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
    return Plan(
        id=plan_id,
        environment=request.environment,
        kind=request.kind,
        base_version=state.target.version if state.target else 0,
        created_at=window.now,
        models=(
            *_planned(request, snapshots, old, tables, starts, state),
            *_removed(snapshots, old, state),
        ),
        views=_views(request, snapshots, tables, entries, state),
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
    protected = protected_tables(request.environment, state.production)
    shown = state.base.tables if state.base is not None else frozenset[str]()
    complete: dict[ModelName, IntervalSet] = {}
    building: set[ModelName] = set()
    moving: set[ModelName] = set()
    readiness = Readiness(request.ready)
    for name, snapshot in snapshots.items():
        change, category = classify(snapshot, old.get(name))
        table = tables.get(name)
        parents = {parent: snapshots[parent] for parent in snapshot.parents}
        available = availability(snapshot, parents, complete, starts, request.window.now)
        own = table is not None and table.id not in protected
        why = reasons(snapshot, old.get(name), changed)
        if _begins_anew(name, snapshot, table, state):
            why = (*why, _ANEW)
            category = Category.BREAKING if category is not Category.AFFECTED else category
        intervals = IntervalSet()
        in_place = None
        again = False
        if table is not None:
            in_place = _in_place(request, snapshot, table, state)
            if own and _fills(request, snapshot, table, shown):
                intervals = missing_intervals(
                    snapshot,
                    _filled(request, table),
                    _window(request, snapshot, table),
                    starts,
                    available,
                )
            if in_place is not None and in_place.effective_from is not None:
                outdated = _from(in_place.effective_from, snapshot, table.intervals & available)
                again, intervals = bool(outdated), intervals | outdated
            intervals = readiness.let_pass(snapshot, intervals)
            if snapshot.is_incremental:
                complete[name] = table.available | intervals
        else:
            readiness.let_pass(snapshot, intervals)
            if any(parent in complete for parent in snapshot.parents):
                complete[name] = available
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
            audits=not intervals and _audits_due(snapshot, old.get(name), table, moving),
            restate=again,
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
    since = None if options.skip_backfill else options.effective_from
    return TableChange(table.ref, deploys=True, columns=changes, effective_from=since)


def _filled(request: PlanRequest, table: PhysicalTable) -> IntervalSet:
    """Return what need not be filled: of a preview what the new definition filled.

    A run fills what neither that nor the table it branched off has.
    """
    return table.available if request.kind is PlanKind.RUN else table.intervals


def _window(request: PlanRequest, snapshot: Snapshot, table: PhysicalTable) -> Window:
    """Return the range to fill: of a preview the latest interval, when nothing else is said."""
    window = request.window
    asked = window.start is not None or window.end is not None
    if table.preview is None or asked or request.kind is PlanKind.RUN:
        return window
    since = request.options.effective_from or snapshot.cadence.latest_slot(window.now).start
    return replace(window, start=since)


def _from(since: datetime, snapshot: Snapshot, filled: IntervalSet) -> IntervalSet:
    """Return the whole units that are filled from an instant on."""
    unit = snapshot.cadence.unit
    return snapshot.cadence.align_inward(filled & IntervalSet((Interval(unit.floor(since), FAR),)))


def _fills(
    request: PlanRequest,
    snapshot: Snapshot,
    table: PhysicalTable,
    shown: frozenset[str],
) -> bool:
    """Say whether a plan fills a model's missing intervals.

    A run fills whatever is due. A plan fills tables that the environment does not show yet, and
    what it was asked for by a range; what merely fell due waits for the run.
    """
    if request.options.skip_backfill:
        return False
    if request.backfill is not None and snapshot.name not in request.backfill:
        return False
    if request.kind is PlanKind.RUN:
        return True
    if request.window.start is not None or request.window.end is not None:
        return snapshot.is_incremental or not table.intervals
    return table.id not in shown


def _audits_due(
    snapshot: Snapshot,
    old: Snapshot | None,
    table: PhysicalTable | None,
    moving: set[ModelName],
) -> bool:
    """Say whether audits have to be run on data that this plan does not compute.

    A table's rows have passed the audits of the snapshot that filled it. A view's have passed
    none since what it reads moved.
    """
    audits = snapshot.model.audits
    if not audits:
        return False
    if table is None:
        return old is None or old.id != snapshot.id or bool(moving & set(snapshot.parents))
    if not table.intervals or table.snapshot_id == snapshot.id:
        return False
    return old is None or bool(set(audits) - set(old.model.audits))


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


def _views(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    tables: Mapping[ModelName, PhysicalTable],
    entries: Mapping[ModelName, Entry],
    state: WarehouseState,
) -> PlannedViews:
    after = Resolver(
        request.environment,
        entries,
        {snapshot.id: snapshot for snapshot in snapshots.values()},
        {table.id: table for table in tables.values()},
    )
    target = state.target
    before = (
        Resolver(request.environment, target.entries, state.snapshots, state.tables)
        if target
        else None
    )
    same = _unchanged_names(after, before)
    created: list[TableRef] = []
    replaced: list[TableRef] = []
    dropped: list[TableRef] = []
    for name in entries:
        if name in same:
            continue
        new, old = _shows(after, name), before is not None and _shows(before, name)
        if new and not old:
            created.append(view_ref(name, request.environment))
        elif old and not new:
            dropped.append(view_ref(name, request.environment))
        elif new and before is not None:
            catalog = request.catalog
            # Rendering costs milliseconds a view; a new environment needs none of it.
            if view_signature(name, after, catalog) != view_signature(name, before, catalog):
                replaced.append(view_ref(name, request.environment))
    if before:
        for name in before.entries:
            if name not in entries and _shows(before, name):
                dropped.append(view_ref(name, request.environment))
    return PlannedViews(
        tuple(sorted(created, key=str)),
        tuple(sorted(replaced, key=str)),
        tuple(sorted(dropped, key=str)),
    )


def _shows(resolver: Resolver, name: ModelName) -> bool:
    """Say whether an environment has a view of a model."""
    entry = resolver.entries.get(name)
    # Resolving would map the columns of every table, which this does not ask for.
    return entry is not None and has_view(Binding(resolver.snapshots[entry.snapshot_id]))


def _unchanged_names(after: Resolver, before: Resolver | None) -> set[ModelName]:
    """Return the models whose view is the same without rendering it.

    That is so when the entry is the same and, for queries that are inlined, those of all its
    parents are too.
    """
    if before is None:
        return set()
    same: set[ModelName] = set()
    for name, entry in after.entries.items():
        if before.entries.get(name) != entry:
            continue
        snapshot = after.snapshots[entry.snapshot_id]
        inlines = entry.table_id is None and not snapshot.model.kind.is_external
        if not inlines or all(parent in same for parent in snapshot.parents):
            same.add(name)
    return same


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
