"""Showing the SQL that Spark runs for a model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.make_plans import plan_project
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.options import PlanOptions
from vde_dagster.planning.render import render_query
from vde_dagster.planning.resolver import Resolver
from vde_dagster.project.find_model import find_model

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.project.model import Model
    from vde_dagster.sql.parsed import ParsedQueries


def render_model(
    warehouse: Warehouse,
    models: Mapping[ModelName, Model],
    parsed: ParsedQueries,
    model: str,
    environment: str,
    start: datetime | None,
    end: datetime | None,
) -> str:
    """Render a model of the project over an environment; see `Workspace.render`.

    The model's parents are those that a plan for the environment would give it.
    """
    name = find_model(models, model, warehouse.settings.default_namespace)
    definition = models[name]
    if definition.query is None:
        raise UsageError(
            f"{name} has no SQL: it is a {definition.kind.name} model "
            f"{'in Python' if definition.python else ''}".rstrip(),
            hint="its file is " + str(definition.location.path),
        )
    plan = plan_project(
        warehouse,
        models,
        environment,
        PlanOptions(skip_backfill=True),
        parsed=parsed,
        save=False,
    )
    resolver = Resolver(
        environment,
        plan.entries,
        plan.snapshots,
        {planned.table.id: planned.table for planned in plan.models if planned.table},
    )
    now = warehouse.store.database.clock.now()
    slot = plan.snapshots[plan.entries[name].snapshot_id].cadence.latest_slot(now)
    interval = Interval(start or slot.start, end or slot.end)
    return render_query(definition, resolver, warehouse.settings.catalog, interval, now)
