"""Whether what a plan needs of Spark is there, asked before anything of it is stored."""

from __future__ import annotations

from vde_dagster.execution.plan_tests import PlanTests
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.plan import Plan, PlannedModel


def require_engine_for(plan: Plan, warehouse: Warehouse, tests: PlanTests | None) -> None:
    """Make sure that an engine can be had, where applying a plan needs one.

    Args:
        plan: The plan.
        warehouse: Where it is to be applied.
        tests: The unit tests that run first, or None for none.

    Raises:
        NoSparkError: Java or the Spark master is not there.
    """
    if (
        any(map(_works, plan.models))
        or plan.statements
        or _unknown_views(plan, warehouse)
        or (tests is not None and tests.need_an_engine(plan))
    ):
        warehouse.require_engine()


def _works(model: PlannedModel) -> bool:
    """Say whether an engine works on a model; what a run skips it leaves alone."""
    computes = model.builds and not model.records_only and model.skips is None
    new = model.table is not None and not model.table.created and model.snapshot_id is not None
    return computes or new or model.audits or model.layout or model.deploys


def _unknown_views(plan: Plan, warehouse: Warehouse) -> bool:
    """Say whether a query is shown whose types nobody has asked an engine for."""
    shown = {
        entry.snapshot_id
        for entry in plan.entries.values()
        if entry.table_id is None
        and plan.snapshots[entry.snapshot_id].model.kind.is_shown
        and plan.snapshots[entry.snapshot_id].model.query is not None
    }
    return bool(shown) and len(warehouse.store.snapshots.view_types(shown)) < len(shown)
