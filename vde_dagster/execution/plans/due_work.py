"""Due work: missing intervals of an environment, and ranges that plans recompute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count
from vde_dagster.errors import UsageError
from vde_dagster.planning.changes.backlog import Backlog
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Environment,
    production_first,
    protected_tables,
)
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import RestatedRanges
from vde_dagster.planning.plan.missing_intervals import Window
from vde_dagster.planning.plan.parent_coverage import due_intervals
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.restatement import (
    RestatementTick,
    due_restatements,
    restate,
    restate_since_ticks,
)
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_backlog
from vde_dagster.reports.restatement import restated_plan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


@dataclass(frozen=True, slots=True)
class Missing:
    """Intervals that models have not filled, and changes of inputs that models have not processed.

    Args:
        by_environment: Missing ranges (UTC) by model, for each environment whose run fills them.
        units: Number of missing intervals by model.
        backlogs: Unprocessed changes of inputs, for each model that is filled from changes.
    """

    # Production fills its own tables.
    by_environment: Mapping[str, Mapping[ModelName, IntervalSet]] = field(default_factory=dict)
    units: Mapping[ModelName, int] = field(default_factory=dict)
    backlogs: Mapping[ModelName, Backlog] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.units or self.backlogs)

    def to_json(self) -> dict[str, Any]:
        found = self.backlogs.items()
        return {
            "models": {
                str(name): ranges.to_json()
                for models in self.by_environment.values()
                for name, ranges in models.items()
            },
            "commands": [f"vde run {name}" for name in self.by_environment],
            **({"backlogs": {str(n): b.to_json() for n, b in found}} if found else {}),
        }

    def sentence(self) -> str:
        """Describe missing intervals and unprocessed changes, with the command to compute them."""
        parts = []
        for environment, models in self.by_environment.items():
            intervals = sum(self.units[name] for name in models)
            parts.append(
                f"{count(len(models), 'model')} with {count(intervals, 'interval')}, "
                f"computed by: vde run {environment}"
            )
        parts_of_text = ["missing or due: " + "; ".join(parts)] if parts else []
        for name, backlog in self.backlogs.items():
            parts_of_text.append(f"not read yet by {name}: {'; '.join(describe_backlog(backlog))}")
        return "; ".join(parts_of_text)


def pending_work(handles: Handles, plan: Plan, *, ignore_cron: bool = False) -> Missing:
    """Return due intervals of a plan's environment, and input changes that models must process.

    Args:
        ignore_cron: Whether complete intervals are due before the cron has ticked.
    """
    window = Window(
        plan.created_at, default_start=handles.settings.start_time, ignore_cron=ignore_cron
    )
    due = due_intervals(plan, window)
    backlogs = {model.name: model.backlog for model in plan.models if model.backlog is not None}
    if not due:
        return Missing(backlogs=backlogs)
    shown = protected_tables(plan.environment, handles.store.environments.get(PRODUCTION))
    tables = {model.name: model.table.id for model in plan.models if model.table}
    found: dict[str, dict[ModelName, IntervalSet]] = {}
    units: dict[ModelName, int] = {}
    for name, ranges in due.items():
        environment = PRODUCTION if tables[name] in shown else plan.environment
        found.setdefault(environment, {})[name] = ranges
        snapshot = plan.snapshots[plan.entries[name].snapshot_id]
        unit = snapshot.cadence.unit
        units[name] = sum(map(unit.count, ranges)) if snapshot.is_incremental else 1
    return Missing(found, units, backlogs)


def environment_tables(handles: Handles, environment: str) -> dict[ModelName, PhysicalTable]:
    current = handles.store.environments.get(environment)
    if current is None:
        return {}
    tables = handles.store.tables.load(current.tables)
    return {
        name: tables[entry.table_id]
        for name, entry in current.entries.items()
        if entry.table_id is not None and entry.table_id in tables
    }


def with_outdated(handles: Handles, plan: Plan) -> Plan:
    """Add to a plan the tables, in any environment, that its restatement makes outdated."""
    if not plan.restates:
        return plan
    found = handles.store.outdated.find(RestatedRanges.from_plan(plan), plan.snapshots)
    return replace(plan, outdates=found)


def find_changeable_environment(handles: Handles, snapshot_id: str) -> Environment:
    """Find an unfrozen environment with a snapshot, production first, or raise UsageError."""
    names = handles.store.shown.environments_with_snapshot(snapshot_id)
    for name in sorted(names, key=production_first):
        # An environment dropped meanwhile is empty.
        environment = handles.store.environments.get(name)
        if environment is not None and environment.frozen is None:
            return environment
    raise UsageError(
        "no environment that can be changed contains this version of the model",
        hint="apply the plan that introduces it",
    )


def with_auto_restatement(handles: Handles, plan: Plan, *, save: bool) -> Plan:
    """Add due restatements (`auto_restatement_cron`) to production's run. `save` records them."""
    # The restatement of a tick is recorded until it is computed. A failed run leaves it to the next
    # run, even if the cron ticks again meanwhile.
    if plan.environment != PRODUCTION:
        return plan
    ticks = _due_ticks(handles, plan)
    if not ticks:
        return plan
    store = handles.store
    new = {table_id: tick for table_id, (_, tick) in ticks.items() if tick.intervals}
    if save and new:
        store.outdated.remember({key: (tick.intervals, tick.at) for key, tick in new.items()})
    waiting = store.outdated.ranges_by_table(ticks)
    wanted = {
        name: waiting.get(table_id, IntervalSet()) | tick.intervals
        for table_id, (name, tick) in ticks.items()
    }
    wanted = {name: ranges for name, ranges in wanted.items() if ranges}
    if not wanted:
        return plan
    return with_outdated(handles, restated_plan(restate(plan, wanted, frozenset(), beside=True)))


def _due_ticks(handles: Handles, plan: Plan) -> dict[str, tuple[ModelName, RestatementTick]]:
    found: dict[str, tuple[ModelName, RestatementTick]] = {}
    for model in plan.models:
        if model.table is None or model.snapshot_id is None or model.table.id in found:
            continue
        snapshot = plan.snapshot_of(model)
        asked = due_restatements(snapshot, plan.created_at)
        if not asked or not model.table.intervals or snapshot.model.kind.disable_restatement:
            continue
        log = handles.store.fills.log(model.table.id)
        fills = ((fill.interval, fill.recorded_at) for fill in log)
        found[model.table.id] = (
            model.name,
            restate_since_ticks(snapshot, model.table.intervals, asked, fills),
        )
    return found
