"""What a plan without a change leaves undone: intervals that are missing or have fallen due."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.lacks import Holdings
from vde_dagster.planning.missing import (
    ALWAYS,
    Window,
    availability,
    infer_starts,
    missing_intervals,
)
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
    complete: dict[ModelName, IntervalSet] = {}
    found: dict[ModelName, IntervalSet] = {}
    told: set[str] = set()
    holdings = Holdings(starts, window.now, window.ignore_cron)
    for name, snapshot in snapshots.items():
        parents = {parent: snapshots[parent] for parent in snapshot.parents if parent in snapshots}
        available = availability(snapshot, parents, complete, starts, window.now)
        table = tables.get(name)
        if table is None:
            holdings.note(snapshot, None, IntervalSet())
            if any(parent in complete for parent in snapshot.parents):
                complete[name] = available
            continue
        missing = missing_intervals(
            snapshot,
            table.available,
            window,
            starts,
            available,
            catches_up=holdings.catches_up(snapshot, table),
        )
        holdings.note(snapshot, table, missing)
        if snapshot.is_incremental:
            complete[name] = table.available | missing
        elif owed := holdings.owed(name):
            complete[name] = ALWAYS - owed
        if missing and table.id not in told:
            found[name] = missing
        told.add(table.id)
    return found
