"""What somebody may say of a plan, from wherever it is asked for to the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vde_dagster.base.instants import parse_range, parse_time
from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The choices of who asks for a plan: one value for terminal, launchpad and Python.

    Args:
        start: Fill only from here on (UTC), or None.
        end: Fill only before here (UTC, exclusive), or None.
        select: Patterns of the models whose changes are taken; all when empty.
        skip_backfill: Publish without computing anything.
        now: The instant that the plan calls now (UTC); the clock's when None.
        restate: Patterns of published models to compute again in the range, whatever the files
            say now; none when empty.
        ignore_cron: Fill what is complete although its cron has not ticked yet.
        min_intervals: Look at this many of each model's latest intervals even before `start`.
        empty_backfill: Record what is missing as filled, and compute nothing.
        backfill: Patterns of the models that are filled, with what they read; all when empty.
        full: Whether a run computes what is due whether or not something changed.
        no_gaps: Whether to refuse a plan after which the environment shows less time of a model
            than it does now.
        forward_only: Whether all models whose kind can change in place do.
        effective_from: Compute again from here on what changes in place (UTC), or None.
        allow_destructive: Patterns of the models that may lose or retype columns in place.
        allow_additive: Patterns of the models that may get or widen columns in place.
        remove_models: Whether it is meant where a plan removes all models of an environment, or
            more than the project's share of them.
    """

    start: datetime | None = None
    end: datetime | None = None
    select: tuple[str, ...] = ()
    skip_backfill: bool = False
    now: datetime | None = None
    restate: tuple[str, ...] = ()
    ignore_cron: bool = False
    min_intervals: int = 0
    empty_backfill: bool = False
    backfill: tuple[str, ...] = ()
    full: bool = False
    no_gaps: bool = False
    forward_only: bool = False
    effective_from: datetime | None = None
    allow_destructive: tuple[str, ...] = ()
    allow_additive: tuple[str, ...] = ()
    remove_models: bool = False

    def __post_init__(self) -> None:
        for name in ("select", "restate", "backfill", "allow_destructive", "allow_additive"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.skip_backfill and (self.empty_backfill or self.backfill):
            raise UsageError(
                "a plan that skips the backfill has nothing to fill or to record",
                hint="leave skip_backfill out, or the choice of what is filled",
            )

    @classmethod
    def read(
        cls,
        *,
        start: str | None,
        end: str | None,
        execution_time: str | None,
        clock: datetime,
        names: tuple[str, str, str, str],
        effective_from: str | None = None,
        **said: Any,
    ) -> PlanOptions:
        """Read options whose times are texts; relative ones are told from the execution time.

        Args:
            start: The first instant, or None.
            end: The end, or None; a day is included.
            execution_time: The instant of the plan, or None for the clock's.
            clock: The present (UTC).
            names: What these three and `effective_from` are called where they were written.
            effective_from: From when on changes in place are computed again, or None.
            said: The other fields.

        Raises:
            UsageError: One of them is no time, or the execution time has not come yet.
        """
        now = parse_time(execution_time, names[2], clock) if execution_time else None
        if now is not None and now > clock:
            raise UsageError(
                f"{names[2]} '{execution_time}' lies in the future",
                hint="nothing of what it would call past has happened yet: give an earlier time",
            )
        since, until = parse_range(start, end, names[:2], now or clock)
        again = parse_time(effective_from, names[3], now or clock) if effective_from else None
        return cls(since, until, now=now, effective_from=again, **said)

    def __bool__(self) -> bool:
        """Whether anything was said at all."""
        return self != NOTHING_SAID


NOTHING_SAID = PlanOptions()
"""A plan as it is made by default."""
