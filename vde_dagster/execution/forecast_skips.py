"""Saying of a planned run what it is going to skip, as far as that can be known before it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.execution.skipping import unchanged_inputs
from vde_dagster.planning.contents import Skipped
from vde_dagster.planning.plan import Plan, PlannedModel
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.serve import choose_filler
from vde_dagster.planning.sources import TableRead, tables_read

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.warehouse_state import WarehouseState
    from vde_dagster.state.fill_facts import LastFill


def forecast_skips(warehouse: Warehouse, plan: Plan, state: WarehouseState) -> Plan:
    """Note in a plan which models have nothing new to compute.

    What reads a table that the plan fills may be skipped, too, when its rows come out as before;
    only the run itself can tell.

    Args:
        warehouse: Where the tables are.
        plan: The plan of a run.
        state: What it was made from.
    """
    resolver = Resolver(
        plan.environment,
        plan.entries,
        plan.snapshots,
        {model.table.id: model.table for model in plan.models if model.table},
    )
    reads = {
        model.name: _reads(plan, model, state, resolver, warehouse.settings.catalog)
        for model in plan.models
        if model.skippable
    }
    tables = [model.table.id for model in plan.models if model.skippable and model.table]
    last = warehouse.store.facts.latest(tables)
    filled: set[str] = set()
    told: set[str] = set()
    models = []
    for model in plan.models:
        if model.builds and model.table is not None:
            skips = None
            if model.skippable and not model.restate and model.table.id in last:
                found, read = last[model.table.id], reads[model.name]
                skips = _skips(warehouse, found, read, filled)
            if skips is None:
                filled.add(model.table.id)
            elif model.table.id in told:
                skips = replace(skips, seconds=0.0, bytes=0)  # What is shared is saved once.
            told.add(model.table.id)
            model = replace(model, skips=skips)
        models.append(model)
    return replace(plan, models=tuple(models))


def _reads(
    plan: Plan, model: PlannedModel, state: WarehouseState, resolver: Resolver, catalog: str
) -> tuple[TableRead, ...]:
    assert model.table is not None
    snapshot = plan.snapshots[model.snapshot_id or ""]
    target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
    definition = state.snapshots.get(model.table.snapshot_id)
    filler = choose_filler(model.table, snapshot, definition, target) or snapshot
    return tables_read(filler, resolver, catalog)


def _skips(
    warehouse: Warehouse, last: LastFill, reads: tuple[TableRead, ...], filled: set[str]
) -> Skipped | None:
    was = last.facts.inputs
    if was is None or any(read.key in filled for read in reads):
        return None
    return last.as_skipped() if unchanged_inputs(warehouse, reads, was) is not None else None
