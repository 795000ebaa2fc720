"""What a plan without a change leaves undone: intervals that are missing or have fallen due."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.holdings import Holdings
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.missing import Window, infer_starts, missing_intervals
from vde_dagster.planning.order import in_order
from vde_dagster.planning.plan import Plan


def due_intervals(plan: Plan, window: Window) -> Mapping[ModelName, IntervalSet]:
    """Return what a run of the plan's target would compute, by model, parents first.

    Args:
        plan: The plan; its own intervals are missing too.
        window: The instant, and the start of models that declare none.

    Two models of one table are told as one, the first.
    """
    snapshots = in_order(
        {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
    )
    tables = {model.name: model.table for model in plan.models if model.table}
    starts = infer_starts(snapshots, window)
    found: dict[ModelName, IntervalSet] = {}
    told: set[str] = set()
    holdings = Holdings(starts, window.now)
    for name, snapshot in snapshots.items():
        table = tables.get(name)
        if table is None:
            holdings.note(snapshot, None, IntervalSet())
            continue
        missing = missing_intervals(
            snapshot,
            table.available,
            window,
            starts,
            holdings.complete_for(snapshot),
            catches_up=holdings.catches_up(snapshot, table),
        )
        holdings.note(snapshot, table, missing)
        if missing and table.id not in told:
            found[name] = missing
        told.add(table.id)
    return found
