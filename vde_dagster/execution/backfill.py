"""Filling chosen ranges of one version of a model, as a plan of its own."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.make_plans import plan_run
from vde_dagster.planning.environment import PRODUCTION, Environment, protected_tables
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.plan import Plan, PlannedModel
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def plan_backfill(
    warehouse: Warehouse, snapshot_id: str, intervals: IntervalSet, *, restate: bool
) -> Plan:
    """Plan to fill ranges of a stored snapshot's table.

    The plan is made against the environment that shows the snapshot, production first; what is
    written becomes visible in one publication. Restating a range restates it in every descendant,
    but for the tables that production shows when another environment's are restated.

    Args:
        warehouse: The project's warehouse.
        snapshot_id: The snapshot.
        intervals: The ranges (UTC), widened to whole units.
        restate: Whether to fill again what is filled already.

    Raises:
        UsageError: No environment shows the snapshot.
    """
    environment = _showing(warehouse, snapshot_id)
    plan = plan_run(warehouse, environment.name, save=False)
    name = next(n for n, e in environment.entries.items() if e.snapshot_id == snapshot_id)
    targets = {name}
    if restate:
        production = warehouse.store.environments.get(PRODUCTION)
        protected = protected_tables(environment.name, production)
        targets |= _descendants(plan, name, protected)
    models = tuple(
        _limited(model, plan.snapshots[model.snapshot_id], intervals, restate)
        if model.name in targets and model.snapshot_id is not None
        else replace(model, builds=False, intervals=IntervalSet())
        for model in plan.models
    )
    plan = replace(plan, id=f"{environment.name}-{uuid.uuid4().hex[:10]}", models=models)
    if not plan.is_empty:
        warehouse.store.plans.save(plan)
    return plan


def _showing(warehouse: Warehouse, snapshot_id: str) -> Environment:
    names = warehouse.store.shown.environments_of(snapshot_id)
    # Production first; what is dropped in between shows nothing any more.
    for name in sorted(names, key=lambda name: (name != PRODUCTION, name)):
        environment = warehouse.store.environments.get(name)
        if environment is not None:
            return environment
    raise UsageError(
        "no environment shows this version of the model",
        hint="apply the plan that introduces it",
    )


def _descendants(plan: Plan, name: ModelName, protected: frozenset[str]) -> set[ModelName]:
    """Name what reads a model, directly or not; what a protected table holds is not its rows."""
    found = {name}
    for model in plan.models:
        if model.table is not None and model.table.id in protected:
            continue
        if model.snapshot_id and set(plan.snapshots[model.snapshot_id].parents) & found:
            found.add(model.name)
    return found - {name}


def _limited(
    model: PlannedModel, snapshot: Snapshot, intervals: IntervalSet, restate: bool
) -> PlannedModel:
    if model.table is None:
        return model
    wanted = snapshot.cadence.align_outward(intervals)
    if restate:
        # A kind without intervals is computed again whole, into the slot that it filled last.
        chosen = model.table.intervals
        chosen = chosen & wanted if snapshot.is_incremental else IntervalSet(chosen.ranges[-1:])
        chosen = chosen | (model.intervals & wanted)
    else:
        chosen = model.intervals & wanted if snapshot.is_incremental else model.intervals
    return replace(model, builds=bool(chosen), intervals=chosen, restate=restate)
