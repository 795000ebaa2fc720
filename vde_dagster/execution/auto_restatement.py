"""Runs of production that fill again what models ask for; see `planning.auto_restatement`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.execution.plan_restatement import with_outdated
from vde_dagster.planning.auto_restatement import Tick, due_again, wishes
from vde_dagster.planning.environment import PRODUCTION
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.restatement import restate

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


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
        fills = ((Interval(row.start_at, row.end_at), row.recorded_at) for row in log)
        found[model.table.id] = (
            model.name,
            due_again(snapshot, model.table.intervals, asked, fills),
        )
    return found
