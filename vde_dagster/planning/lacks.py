"""What the tables that a plan makes whole are made without, remembered with their fills."""

from __future__ import annotations

from datetime import datetime

from vde_dagster.planning.holdings import Holdings
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.missing import Window, infer_starts
from vde_dagster.planning.order import in_order
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.table import Lacks


def made_without(plan: Plan, default_start: datetime | None) -> dict[str, Lacks]:
    """Return what the tables that a plan makes whole are made without, by table id.

    Args:
        plan: The plan.
        default_start: Start of models that declare none (UTC), or None.
    """
    snapshots = in_order(
        {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
    )
    planned = {model.name: model for model in plan.models}
    starts = infer_starts(snapshots, Window(plan.created_at, default_start=default_start))
    holdings = Holdings(starts, plan.created_at)
    found: dict[str, Lacks] = {}
    for name, snapshot in snapshots.items():
        model = planned.get(name)
        if model is None or not snapshot.model.kind.is_read:
            continue
        intervals = model.intervals if model.builds else IntervalSet()
        holdings.note(snapshot, model.table, intervals)
        if intervals and model.table is not None and not snapshot.is_incremental:
            lacks = holdings.lacks(name) if not meaning_of(snapshot.model.kind).filled_once else {}
            if lacks:
                found.setdefault(model.table.id, lacks)
    return found
