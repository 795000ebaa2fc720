"""What an environment would no longer show of the time that it shows now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.instants import range_text
from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.table import PhysicalTable


def require_no_gaps(
    plan: Plan, current: Environment | None, tables: Mapping[str, PhysicalTable]
) -> None:
    """Make sure that what a plan publishes covers the time that is shown now.

    Args:
        plan: The plan.
        current: The environment as it is published, or None.
        tables: Physical tables that it shows, by id.

    Raises:
        UsageError: It does not; names each model with what would be gone.
    """
    gone = dict(gaps(plan, current, tables))
    if gone:
        said = "; ".join(
            f"{name}, {range_text(ranges.ranges[0].start, ranges.ranges[-1].end)}"
            for name, ranges in gone.items()
        )
        raise UsageError(
            f"'{plan.environment}' would no longer show data that it shows now: {said}",
            hint="let the plan fill it (without --start, --end, --skip-backfill), or leave "
            "--no-gaps out",
        )


def gaps(
    plan: Plan, current: Environment | None, tables: Mapping[str, PhysicalTable]
) -> Iterator[tuple[ModelName, IntervalSet]]:
    """Yield what of a model is filled now and would not be, by model.

    What a lookback fills again is no gap: it is filled.
    """
    for model in plan.models:
        entry = current.entries.get(model.name) if current else None
        old = tables.get(entry.table_id) if entry and entry.table_id else None
        if old is None or model.table is None or model.snapshot_id is None:
            continue
        snapshot = plan.snapshots[model.snapshot_id]
        if model.table.id == old.id or not snapshot.is_incremental:
            continue
        shown = snapshot.cadence.align_inward(old.intervals)
        gone = shown - (model.table.intervals | model.intervals)
        if gone:
            yield model.name, gone
