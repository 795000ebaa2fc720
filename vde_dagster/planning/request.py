"""From what somebody says of a plan to the range and the models that it fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from vde_dagster.base.instants import end_text, instant_text, utc
from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.missing import Window
from vde_dagster.planning.options import PlanOptions
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.dag import ancestors
from vde_dagster.project.selection import Changed, select


def window_of(options: PlanOptions, now: datetime, default_start: datetime | None) -> Window:
    """Return the range that a plan is limited to.

    Args:
        options: What was said of the plan.
        now: The instant of the plan (UTC).
        default_start: Start of models that declare none (UTC), or None.

    Raises:
        UsageError: The range is none, or has not happened yet; today may be its last day.
    """
    start = utc(options.start) if options.start else None
    end = utc(options.end) if options.end else None
    if start is not None and end is not None:
        Interval(start, end)
    if start is not None and start > now:
        raise UsageError(
            f"the start {instant_text(start)} lies in the future",
            hint="give a start before now",
        )
    tonight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    if end is not None and end > now and end != tonight:
        raise UsageError(
            f"the end {end_text(end)} lies in the future",
            hint=f"give an end before now, {instant_text(now)}, or today",
        )
    return Window(now, start, end, default_start, options.ignore_cron, options.min_intervals)


def models_to_fill(
    snapshots: Mapping[ModelName, Snapshot],
    patterns: Sequence[str],
    changed: Changed | None = None,
) -> frozenset[ModelName] | None:
    """Return the models that patterns select for filling, with what they read; None for all.

    Raises:
        UsageError: A pattern selects nothing.
    """
    if not patterns:
        return None
    models = {name: snapshot.model for name, snapshot in snapshots.items()}
    chosen = select(models, patterns, changed)
    return frozenset(chosen | ancestors(models, chosen))
