"""When a model's data falls due: interval boundaries and cron ticks, in UTC."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.project.model import Model

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FAR = datetime(9999, 12, 31, tzinfo=timezone.utc)


class IntervalUnit(Enum):
    """The step that a model's intervals are cut to."""

    FIVE_MINUTES = 300
    QUARTER_HOUR = 900
    HALF_HOUR = 1800
    HOUR = 3600
    DAY = 86400
    MONTH = 28 * 86400
    YEAR = 365 * 86400

    def floor(self, instant: datetime) -> datetime:
        """Return the latest boundary at or before an instant."""
        if self is IntervalUnit.YEAR:
            return datetime(instant.year, 1, 1, tzinfo=timezone.utc)
        if self is IntervalUnit.MONTH:
            return datetime(instant.year, instant.month, 1, tzinfo=timezone.utc)
        step = timedelta(seconds=self.value)
        return EPOCH + ((instant - EPOCH) // step) * step

    def ceil(self, instant: datetime) -> datetime:
        """Return the earliest boundary at or after an instant."""
        floor = self.floor(instant)
        return floor if floor == instant else self.shift(floor, 1)

    def shift(self, boundary: datetime, steps: int) -> datetime:
        """Move a boundary by a number of units."""
        if self is IntervalUnit.YEAR:
            return boundary.replace(year=boundary.year + steps)
        if self is IntervalUnit.MONTH:
            month = boundary.year * 12 + boundary.month - 1 + steps
            return boundary.replace(year=month // 12, month=month % 12 + 1)
        return boundary + timedelta(seconds=self.value) * steps

    def count(self, interval: Interval) -> int:
        """Count the units in an aligned interval."""
        start, end = interval.start, interval.end
        if self is IntervalUnit.YEAR:
            return end.year - start.year
        if self is IntervalUnit.MONTH:
            return (end.year - start.year) * 12 + end.month - start.month
        return int((end - start) // timedelta(seconds=self.value))


@dataclass(frozen=True, slots=True)
class Cadence:
    """A cron expression with the interval unit that follows from it.

    The unit is the largest one that fits between two ticks, so `0 5 * * *` has days that fall
    due at five in the morning, and `0 0 * * 1` has days that fall due on Mondays.

    Args:
        cron: Five-field cron expression, read in UTC.
    """

    cron: str

    @classmethod
    def of(cls, model: Model) -> Cadence:
        """Return the cadence of a model: the one place that reads its properties for it."""
        return cls(model.cron)

    @property
    def unit(self) -> IntervalUnit:
        """The interval unit."""
        return _unit_of(self.cron)

    def last_tick(self, now: datetime) -> datetime:
        """Return the latest cron tick at or before an instant."""
        return _last_tick(self.cron, now)

    def due_until(self, now: datetime) -> datetime:
        """Return the exclusive end of the intervals that are complete and due at an instant."""
        return self.unit.floor(self.last_tick(now))

    def latest_slot(self, now: datetime) -> Interval:
        """Return the last complete unit that is due: the slot that a whole-table kind fills."""
        end = self.due_until(now)
        return Interval(self.unit.shift(end, -1), end)

    def align_inward(self, intervals: IntervalSet) -> IntervalSet:
        """Shrink every range to whole units, dropping what holds none."""
        unit = self.unit
        ranges = ((unit.ceil(r.start), unit.floor(r.end)) for r in intervals)
        return IntervalSet.of(Interval(start, end) for start, end in ranges if start < end)

    def align_outward(self, intervals: IntervalSet) -> IntervalSet:
        """Widen every range to whole units."""
        unit = self.unit
        return IntervalSet.of(Interval(unit.floor(r.start), unit.ceil(r.end)) for r in intervals)

    def batches(self, intervals: IntervalSet, size: int | None) -> list[Interval]:
        """Cut missing ranges to jobs of at most `size` units, in order of time."""
        if size is None:
            return list(intervals)
        out: list[Interval] = []
        for interval in intervals:
            start = interval.start
            while start < interval.end:
                end = min(self.unit.shift(start, size), interval.end)
                out.append(Interval(start, end))
                start = end
        return out


@functools.lru_cache(maxsize=4096)
def _last_tick(cron: str, now: datetime) -> datetime:
    """Remembered, because a plan asks for every model at one instant, and croniter is slow."""
    from croniter import croniter  # Not every command asks for ticks.

    tick: datetime = croniter(cron, now + timedelta(microseconds=1)).get_prev(datetime)
    return tick


@functools.cache
def _unit_of(cron: str) -> IntervalUnit:
    from croniter import croniter

    ticks = croniter(cron, datetime(2023, 12, 31, tzinfo=timezone.utc))
    moments = [ticks.get_next(datetime) for _ in range(6)]
    gap = min((b - a).total_seconds() for a, b in itertools.pairwise(moments))
    fitting = [unit for unit in IntervalUnit if unit.value <= gap]
    return fitting[-1] if fitting else IntervalUnit.FIVE_MINUTES
