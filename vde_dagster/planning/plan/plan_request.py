"""The request for a plan: its options, its range, and the models that it fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import end_text, instant_text, utc
from vde_dagster.errors import UsageError
from vde_dagster.planning.intervals.cadence import require_time_for_ticks
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.missing_intervals import Ready, Window
from vde_dagster.planning.plan.plan import PlanKind
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import ColumnChanges
from vde_dagster.project.dag import ancestors
from vde_dagster.project.model import Exposure
from vde_dagster.project.selection import Changed, select
from vde_dagster.project.settings import EnvironmentMode, SuffixTarget


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The options of a plan, together with the settings and state that complete them.

    Args:
        backfill: The models that are filled, or None for all.
        ready: Evaluates the signals of models; None blocks nothing.
        changes: Column changes of models that reuse a production table.
        previewed: For each model, the environments that already preview its change in place.
        expires_at: When an environment other than production expires (UTC), or None for never.
        exposures: Exposures, such as dashboards, to check for broken columns.
    """

    environment: str
    window: Window
    kind: PlanKind = PlanKind.PLAN
    options: PlanOptions = NOTHING_SAID
    backfill: frozenset[ModelName] | None = None
    ready: Ready | None = None
    expires_at: datetime | None = None
    catalog: str = "lakehouse"
    suffix: SuffixTarget = "schema"
    mode: EnvironmentMode = "full"
    changes: Mapping[ModelName, ColumnChanges] = field(default_factory=dict)
    previewed: Mapping[ModelName, tuple[str, ...]] = field(default_factory=dict)
    exposures: tuple[Exposure, ...] = ()


def plan_window(options: PlanOptions, now: datetime, default_start: datetime | None) -> Window:
    """Return the time range of a plan (UTC).

    Raises:
        UsageError: The range is empty, starts in the future, or ends in the future and not with the
            current day; or `now` is before the year 10 or on 9999-12-31.
    """
    require_time_for_ticks(now, "the execution time")
    start = utc(options.start) if options.start else None
    end = utc(options.end) if options.end else None
    if start is not None and end is not None:
        Interval(start, end)
    if start is not None and start > now:
        raise UsageError(
            f"the start {instant_text(start)} lies in the future", hint="give a start before now"
        )
    tonight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    if end is not None and end > now and end != tonight:
        raise UsageError(
            f"the end {end_text(end)} lies in the future",
            hint=f"give an end before {instant_text(now)} (now), or today's date",
        )
    return Window(now, start, end, default_start, options.ignore_cron, options.min_intervals)


def models_to_fill(
    snapshots: Mapping[ModelName, Snapshot], patterns: Sequence[str], changed: Changed | None = None
) -> frozenset[ModelName] | None:
    """Return the models that patterns select, and their ancestors; None without patterns.

    Raises:
        UsageError: A pattern selects nothing.
    """
    if not patterns:
        return None
    models = {name: snapshot.model for name, snapshot in snapshots.items()}
    chosen = select(models, patterns, changed)
    return frozenset(chosen | ancestors(models, chosen))
