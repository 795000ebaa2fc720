"""Applying plans to a state in memory: what the planner would find after a real apply."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.execution.plans.signals import signal_caller
from vde_dagster.planning.build_snapshots import SnapshotCache, build_snapshots
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, protected_tables
from vde_dagster.planning.environments.warehouse_state import PreviewedDefinition, WarehouseState
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import (
    EnvironmentScope,
    ExistingTables,
    RestatedRanges,
    find_outdated,
)
from vde_dagster.planning.plan.assign_tables import with_added_columns, with_deployed_definition
from vde_dagster.planning.plan.forward_only import (
    ForwardOnly,
    may_change_in_place,
    require_effective_from_used,
    require_matching_patterns,
)
from vde_dagster.planning.plan.missing_intervals import partly_filled_units
from vde_dagster.planning.plan.parent_coverage import parent_gaps
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.plan.plan_request import PlanRequest, models_to_fill, plan_window
from vde_dagster.planning.plan.planner import make_plan
from vde_dagster.planning.plan.publication import require_no_gaps
from vde_dagster.planning.plan.restatement import restate_published
from vde_dagster.planning.snapshots.built import BuiltSnapshot
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import Part, PhysicalTable, Preview
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.reports.forward_only import warnings_in_place
from vde_dagster.reports.restatement import restated_plan

NOW = datetime(2024, 1, 10, 12, tzinfo=timezone.utc)


class MemoryMemo(SnapshotCache):
    """Remembers snapshots within a process."""

    def __init__(self) -> None:
        self.known: dict[str, BuiltSnapshot] = {}

    def get(self, key: str, model: Model) -> BuiltSnapshot | None:
        return self.known.get(key)

    def put(self, key: str, built: BuiltSnapshot) -> None:
        self.known[key] = built


_MEMO = MemoryMemo()


class Warehouse:
    """A warehouse in which every apply succeeds at once.

    Args:
        external: Columns of tables that others write.
    """

    def __init__(self, external: dict[str, list[tuple[str, str]]] | None = None) -> None:
        self.external = external or {}
        self.environments: dict[str, Environment] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.tables: dict[str, PhysicalTable] = {}
        self.view_types: dict[str, tuple[tuple[str, str], ...]] = {}
        self.earlier: list[EnvironmentScope] = []
        self._ids = itertools.count(1)

    def copy(self) -> Warehouse:
        """A warehouse in the same state that goes its own way from here; ids never repeat."""
        out = Warehouse(self.external)
        out.environments = dict(self.environments)
        out.snapshots = dict(self.snapshots)
        out.tables = dict(self.tables)
        out.view_types = dict(self.view_types)
        out.earlier = list(self.earlier)
        out._ids = self._ids
        return out

    def plan(
        self,
        root: Path,
        environment: str = PRODUCTION,
        *,
        now: datetime = NOW,
        **said: Any,
    ) -> Plan:
        """Plan the project in a folder."""
        project = load_project(root)
        snapshots = build_snapshots(
            project.models, lambda name: self.external.get(str(name)) or None, memo=_MEMO
        )
        options = PlanOptions(now=now, **said)
        state = replace(self._state(environment), pinned=self._pinned(snapshots))
        resolved = ForwardOnly(state, options)
        require_matching_patterns(options, snapshots)
        warnings: tuple[str, ...] = ()
        if may_change_in_place(snapshots, self._state(environment), options):
            snapshots = build_snapshots(
                project.models,
                lambda name: self.external.get(str(name)) or None,
                memo=_MEMO,
                revise=resolved.revise,
            )
            warnings = tuple(warnings_in_place(resolved.findings))
        plan = self._make(environment, snapshots, PlanKind.PLAN, options, resolved)
        require_effective_from_used(options, plan)
        return replace(plan, warnings=warnings)

    def plan_snapshots(
        self,
        snapshots: dict[ModelName, Snapshot],
        environment: str = PRODUCTION,
        *,
        now: datetime = NOW,
        **said: Any,
    ) -> Plan:
        """Plan given snapshots."""
        return self._make(environment, snapshots, PlanKind.PLAN, PlanOptions(now=now, **said))

    def plan_run(self, environment: str = PRODUCTION, *, now: datetime = NOW, **said: Any) -> Plan:
        """Plan what is due."""
        from vde_dagster.planning.snapshots.snapshot import sort_parents_first

        current = self.environments[environment]
        snapshots = sort_parents_first(
            {name: self.snapshots[e.snapshot_id] for name, e in current.entries.items()}
        )
        return self._make(environment, snapshots, PlanKind.RUN, PlanOptions(now=now, **said))

    def _make(
        self,
        environment: str,
        snapshots: dict[ModelName, Snapshot],
        kind: PlanKind,
        options: PlanOptions,
        resolved: ForwardOnly | None = None,
    ) -> Plan:
        state = self._state(environment)
        request = PlanRequest(
            environment,
            plan_window(options, options.now or NOW, None),
            kind,
            options,
            models_to_fill(snapshots, options.backfill),
            signal_caller(environment, options.now or NOW),
            changes=resolved.changes if resolved else {},
            previewed=resolved.previewed if resolved else {},
        )
        number = next(self._ids)
        plan = make_plan(
            request,
            snapshots,
            state,
            plan_id=f"plan{number}",
            unique_id=lambda: f"{next(self._ids):032x}",
        )
        if options.no_gaps:
            require_no_gaps(plan, state.target, state.tables)
        return plan

    def plan_restatement(
        self, environment: str = PRODUCTION, *, now: datetime = NOW, **said: Any
    ) -> Plan:
        """Plan to compute again what an environment shows."""
        options = PlanOptions(now=now, **said)
        run = self.plan_run(environment, now=now, start=options.start, end=options.end)
        protected = protected_tables(environment, self.environments.get(PRODUCTION))
        plan = restated_plan(restate_published(run, options, protected))
        return replace(plan, outdates=find_outdated(RestatedRanges.from_plan(plan), self._made()))

    def _made(self) -> ExistingTables:
        """What there is: environments as they are, and tables of which nothing else is known."""
        shown = [EnvironmentScope(env.entries, name) for name, env in self.environments.items()]
        scopes = (*shown, *self.earlier)
        covered = {e.table_id for s in scopes for e in s.entries.values() if e.table_id}
        production = self.environments[PRODUCTION].tables
        return ExistingTables(scopes, self.snapshots, self.tables, covered, production)

    def _state(self, environment: str) -> WarehouseState:
        return WarehouseState(
            self.environments.get(environment),
            self.environments.get(PRODUCTION),
            self.snapshots,
            self.tables,
            self.view_types,
            previews=self._previews(),
        )

    def _pinned(self, snapshots: dict[ModelName, Snapshot]) -> dict[ModelName, str]:
        """The newest table of every model's physical version."""
        found = {}
        for table in self.tables.values():
            filler = self.snapshots.get(table.snapshot_id)
            if filler is None or filler.name not in snapshots or table.preview is not None:
                continue
            pin = snapshots[filler.name].model.physical_version
            if pin is not None and filler.model.physical_version == pin:
                found[filler.name] = table.id
        return found

    def _previews(self) -> dict[ModelName, tuple[PreviewedDefinition, ...]]:
        """What environments preview, and which show the same definition computed anew."""
        found: dict[ModelName, tuple[PreviewedDefinition, ...]] = {}
        shown = [(n, e) for n, env in self.environments.items() for e in env.entries.values()]
        for environment, entry in shown:
            forward = self.snapshots[entry.snapshot_id].forward
            table = self.tables[entry.table_id] if entry.table_id else None
            if forward is not None and table is not None and table.preview is not None:
                anew = tuple(name for name, e in shown if e.snapshot_id == forward.own_id)
                previewed = PreviewedDefinition(environment, forward, anew)
                found[entry.name] = (*found.get(entry.name, ()), previewed)
        return found

    def apply(self, plan: Plan) -> Plan:
        """Pretend that a plan was applied."""
        self.begin(plan)
        for found in (
            find_outdated(RestatedRanges.from_plan(plan), self._made()) if plan.restates else ()
        ):
            table = self.tables[found.table_id]
            preview = table.preview
            if preview is not None:
                preview = replace(preview, inherited=preview.inherited - found.intervals)
            filled = table.intervals - found.intervals
            self.tables[table.id] = replace(table, intervals=filled, preview=preview)
        lacks = parent_gaps(plan, None)
        if plan.environment in self.environments:
            self.earlier.append(EnvironmentScope(self.environments[plan.environment].entries))
        for model in plan.models:
            if model.table is not None and model.snapshot_id is not None:
                known = self.tables.get(model.table.id, model.table)
                if model.deploys and model.in_place is not None:
                    widened = {c.column: c.becomes or "" for c in model.in_place.widened}
                    snapshot = plan.snapshots[model.snapshot_id]
                    known = with_deployed_definition(model.table, snapshot, widened)
                if known.preview is not None and not known.created:
                    known = self._branched(known, known.preview, plan.snapshots[model.snapshot_id])
                filled = known.intervals | model.intervals
                without = lacks.get(known.id, {}) if model.builds else known.lacks
                own = partly_filled_units(plan.snapshots[model.snapshot_id], model.intervals)
                left = tuple(
                    Part(one, part.unit)
                    for part in known.parts
                    for one in IntervalSet((part.interval,)) - model.intervals
                )
                self.tables[known.id] = replace(
                    known, created=True, intervals=filled, lacks=without, parts=(*left, *own)
                )
        self.environments[plan.environment] = Environment(
            plan.environment,
            plan.base_version + 1,
            plan.entries,
            plan.id,
            plan.created_at,
            "test",
            plan.id,
        )
        return plan

    def begin(self, plan: Plan) -> None:
        """Pretend that a plan was begun to be applied: which parts of units it fills is known."""
        self.snapshots.update(plan.snapshots)
        for model in plan.builds:
            if model.table is not None and model.snapshot_id is not None:
                known = self.tables.get(model.table.id, model.table)
                own = partly_filled_units(plan.snapshots[model.snapshot_id], model.intervals)
                self.tables[known.id] = replace(known, parts=(*known.parts, *own))

    def _branched(
        self, table: PhysicalTable, preview: Preview, snapshot: Snapshot
    ) -> PhysicalTable:
        """Make a branch of a table, which gets the branch's columns."""
        base = self.tables[preview.of]
        self.tables[base.id] = with_added_columns(base, snapshot)
        inherited = base.with_ranges_for_unit(IntervalUnit.FIVE_MINUTE).intervals
        return replace(table, preview=replace(preview, inherited=inherited))
