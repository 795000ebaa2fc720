"""Checks before a plan is stored: a doubtful state, a missing engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.plan.plan import Plan, PlannedModel


def doubts(warehouse: Warehouse) -> tuple[str, ...]:
    """Return warnings for a plan of the project's files.

    Raises:
        UsageError: The state certainly belongs to another project.
    """
    return (*_other_name(warehouse), *_new_beside_old(warehouse))


def _other_name(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state elsewhere that was written from a folder of another name."""
    owner, own = warehouse.store.project.require_own(), warehouse.settings.identity
    if owner is None or warehouse.settings.state_url is None or not own.may_be_other(owner):
        return
    yield (
        f"the state store was written by a project in a folder '{owner.name}', and this is "
        f"{own}; if they are two, give this one a state of its own (state_url); if they are one, "
        "let the settings say so in every checkout: an id (or a name) below [tool.vde]"
    )


def _new_beside_old(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state in which nothing is, where the warehouse has tables."""
    if not warehouse.store.project.is_new():
        return
    found: list[str] = []
    with suppress(OSError):  # What cannot be listed says nothing; who writes there says why.
        found = warehouse.lakehouse.left_by_others()
    if found:
        from vde_dagster.state.db.database import without_password

        settings = warehouse.settings
        yield (
            f"the state store {without_password(settings.resolved_state_url)} is new, but the "
            f"warehouse {settings.resolved_warehouse} has tables and views already (in "
            f"{', '.join(found[:3])}{', …' if found[3:] else ''}): if they are this project's, "
            "the state is the wrong one, and all would be computed again: look at state_url and "
            "VDE_STATE_URL, or import the state (vde state import)"
        )


def require_engine_for(plan: Plan, warehouse: Warehouse, tests: PlanTests | None) -> None:
    """Make sure that an engine can be had, where applying a plan needs one.

    Args:
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
