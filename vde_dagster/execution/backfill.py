"""Filling chosen ranges of one version of a model, as a plan of its own."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.errors import UsageError
from vde_dagster.execution.batch_bytes import with_batches
from vde_dagster.execution.make_plans import plan_run
from vde_dagster.execution.plan_restatement import with_outdated
from vde_dagster.planning.environment import PRODUCTION, Environment, protected_tables
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.options import PlanOptions
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.restatement import fill_chosen
from vde_dagster.planning.restatement import restate as restated

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


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
        snapshot_id: The snapshot.
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
