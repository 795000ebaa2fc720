"""Plans that compute again: restatements, backfills of ranges, and models due by their cron."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.apply.batches import with_batches
from vde_dagster.execution.plans.make_plans import plan_run, readable_id
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, protected_tables
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import Changed
from vde_dagster.planning.plan.plan import Plan, Proposal
from vde_dagster.planning.plan.plan_request import PlanOptions
from vde_dagster.planning.plan.restatement import (
    Tick,
    due_again,
    fill_chosen,
    require_what_is_shown,
    restate,
    restate_published,
    wishes,
)
from vde_dagster.planning.plan.restatement import restate as restated
from vde_dagster.planning.tables.table import PhysicalTable

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def plan_restatement(
    warehouse: Warehouse,
    environment: str,
    options: PlanOptions,
    *,
    save: bool = True,
    proposal: Proposal | None = None,
    check: Callable[[Plan], None] | None = None,
) -> Plan:
    """Plan to compute models of an environment again, as it was published.

    Args:
        warehouse: The project's warehouse.
        options: Which models, and the range; without one everything that is filled.
        save: Whether to store the plan, so that it can be applied by its id.
        proposal: What makes it one that waits for an approval, or None.
        check: Refuses the plan before it is stored, or None.

    Raises:
        UsageError: There is no such environment; a pattern selects nothing; none of the models
            can be computed again; the environment would show less than it does; or other choices
            make no sense beside it.
    """
    run = plan_run(warehouse, environment, replace(options, full=True), save=False)
    require_what_is_shown(run, _shown_tables(warehouse, environment))
    production = warehouse.store.environments.get(PRODUCTION)
    plan = restate_published(
        run, options, protected_tables(environment, production), warehouse.changed_files
    )
    plan = with_batches(warehouse, replace(with_outdated(warehouse, plan), proposal=proposal))
    plan = replace(plan, id=readable_id(plan, f"restates_{next(iter(plan.restates), '')}"))
    if check is not None and not plan.is_empty:
        check(plan)
    if save and not plan.is_empty:
        warehouse.store.plans.save(plan)
    return plan


def _shown_tables(warehouse: Warehouse, environment: str) -> dict[ModelName, PhysicalTable]:
    """Return the tables that an environment shows, by model."""
    current = warehouse.store.environments.get(environment)
    if current is None:
        return {}
    tables = warehouse.store.tables.load(current.tables)
    return {
        name: tables[entry.table_id]
        for name, entry in current.entries.items()
        if entry.table_id is not None and entry.table_id in tables
    }


def with_outdated(warehouse: Warehouse, plan: Plan) -> Plan:
    """Say in a plan what its restatement makes outdated elsewhere."""
    if not plan.restates:
        return plan
    found = warehouse.store.outdated.find(Changed.by(plan), plan.snapshots)
    return replace(plan, outdates=found)


def plan_backfill(
    warehouse: Warehouse, snapshot_id: str, intervals: IntervalSet, *, restate: bool
) -> Plan:
    """Plan to fill ranges of a stored snapshot's table.

    The plan is made against the environment that shows the snapshot, production first; what is
    written becomes visible in one publication. Restating a range restates it in every descendant,
    but for the tables that production shows when another environment's are restated. A model
    that may not be restated is filled where it misses something.

    Args:
        warehouse: The project's warehouse.
        intervals: The ranges (UTC), widened to whole units.
        restate: Whether to fill again what is filled already.

    Raises:
        UsageError: No environment shows the snapshot.
    """
    environment = _showing(warehouse, snapshot_id)
    plan = plan_run(warehouse, environment.name, PlanOptions(full=True), save=False)
    name = next(n for n, e in environment.entries.items() if e.snapshot_id == snapshot_id)
    if restate:
        production = warehouse.store.environments.get(PRODUCTION)
        protected = protected_tables(environment.name, production)
        found = restated(plan, {name: intervals}, protected, fills_missing=True)
        plan = with_outdated(warehouse, found.plan)
    else:
        plan = fill_chosen(plan, name, intervals)
    plan = replace(plan, id=f"{environment.name}-{uuid.uuid4().hex[:10]}")
    plan = with_batches(warehouse, plan)
    if not plan.is_empty:
        warehouse.store.plans.save(plan)
    return plan


def _showing(warehouse: Warehouse, snapshot_id: str) -> Environment:
    names = warehouse.store.shown.environments_of(snapshot_id)
    # Production first; what is dropped in between shows nothing any more.
    for name in sorted(names, key=lambda name: (name != PRODUCTION, name)):
        environment = warehouse.store.environments.get(name)
        if environment is not None and environment.frozen is None:
            return environment
    raise UsageError(
        "no environment that may change shows this version of the model",
        hint="apply the plan that introduces it",
    )


def with_auto_restatement(warehouse: Warehouse, plan: Plan, *, save: bool) -> Plan:
    """Add to a run of production what its models ask to be filled again.

    What a tick asks for is remembered until it is computed: a run that fails leaves it to the
    next one, whatever ticks meanwhile.

    Args:
        warehouse: The project's warehouse.
        plan: The run's plan.
        save: Whether to remember it; a plan that only looks changes nothing.
    """
    if plan.environment != PRODUCTION:
        return plan
    ticks = _ticks(warehouse, plan)
    if not ticks:
        return plan
    store = warehouse.store
    new = {table_id: tick for table_id, (_, tick) in ticks.items() if tick.intervals}
    if save and new:
        store.outdated.remember({key: (tick.intervals, tick.at) for key, tick in new.items()})
    waiting = store.outdated.of_tables(ticks)
    wanted = {
        name: waiting.get(table_id, IntervalSet()) | tick.intervals
        for table_id, (name, tick) in ticks.items()
    }
    wanted = {name: ranges for name, ranges in wanted.items() if ranges}
    if not wanted:
        return plan
    return with_outdated(warehouse, restate(plan, wanted, frozenset(), beside=True).plan)


def _ticks(warehouse: Warehouse, plan: Plan) -> dict[str, tuple[ModelName, Tick]]:
    """Return the latest tick of each model that has any, by table."""
    found: dict[str, tuple[ModelName, Tick]] = {}
    for model in plan.models:
        if model.table is None or model.snapshot_id is None or model.table.id in found:
            continue
        snapshot = plan.snapshots[model.snapshot_id]
        asked = wishes(snapshot, plan.created_at)
        if not asked or not model.table.intervals or not snapshot.model.kind.restatable:
            continue
        log = warehouse.store.fills.log(model.table.id)
        fills = ((fill.interval, fill.recorded_at) for fill in log)
        found[model.table.id] = (
            model.name,
            due_again(snapshot, model.table.intervals, asked, fills),
        )
    return found
