"""Planning to compute again what an environment shows; see `planning.restatement`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.execution.batch_bytes import with_batches
from vde_dagster.execution.make_plans import plan_run, readable_id
from vde_dagster.planning.environment import PRODUCTION, protected_tables
from vde_dagster.planning.options import PlanOptions
from vde_dagster.planning.outdated import Changed
from vde_dagster.planning.plan import Plan, Proposal
from vde_dagster.planning.restatement import require_what_is_shown, restate_published
from vde_dagster.planning.table import PhysicalTable

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
        environment: The environment.
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
