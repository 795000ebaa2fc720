"""Cadence: interval boundaries and cron ticks, which determine when intervals are due."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from vde_dagster.base.cron import last_tick, shortest_gap_seconds
from vde_dagster.base.times import add_months, instant_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.project.model import Model

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BEGINNING = datetime(1, 1, 1, tzinfo=timezone.utc)
FAR = datetime(9999, 12, 31, tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)
ALWAYS = IntervalSet((Interval(BEGINNING, FAR),))
_NOTHING = IntervalSet()


class IntervalUnit(Enum):
    """The length of a model's intervals, such as a day."""

    FIVE_MINUTE = 300
    QUARTER_HOUR = 900
    HALF_HOUR = 1800
    HOUR = 3600
    DAY = 86400
    MONTH = 28 * 86400
    YEAR = 365 * 86400

    @classmethod
    def named(cls, name: str) -> IntervalUnit:
        """Return the unit for a name in a model's header, such as `quarter_hour`."""
        return cls[name.upper()]

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ")

    def floor(self, instant: datetime) -> datetime:
        """Return the latest start of a unit at or before an instant (UTC)."""
        if months := _MONTHS.get(self):
            first = (instant.month - 1) // months * months + 1
            return datetime(instant.year, first, 1, tzinfo=timezone.utc)
        step = _STEPS[self]
        return EPOCH + ((instant - EPOCH) // step) * step

    def ceil(self, instant: datetime) -> datetime:
        """Return the earliest start of a unit at or after an instant (UTC)."""
        floor = self.floor(instant)
        return floor if floor == instant else self.shift(floor, 1)

    def shift(self, boundary: datetime, steps: int) -> datetime:
        """Move an instant, such as the start of a unit, by a number of units.

        The result is the first or last instant of the years 1 to 9999 if it would be outside them.
        """
        try:
            if months := _MONTHS.get(self):
                return add_months(boundary, steps * months)
            return boundary + _STEPS[self] * steps
        except OverflowError:
            return BEGINNING if steps < 0 else _LAST

    def align_inward(self, intervals: IntervalSet) -> IntervalSet:
        """Shrink every range to complete units, and drop ranges that contain no complete unit."""
        ranges = ((self.ceil(r.start), self.floor(r.end)) for r in intervals)
        return IntervalSet.of(Interval(start, end) for start, end in ranges if start < end)

    def align_outward(self, intervals: IntervalSet) -> IntervalSet:
        """Widen every range to whole units."""
        return IntervalSet.of(Interval(self.floor(r.start), self.ceil(r.end)) for r in intervals)

    def count(self, interval: Interval) -> int:
        """Count the units of an interval, including partial units at its ends."""
        start, end = self.floor(interval.start), self.ceil(interval.end)
        if months := _MONTHS.get(self):
            return ((end.year - start.year) * 12 + end.month - start.month) // months
        return int((end - start) // _STEPS[self])


_MONTHS = {IntervalUnit.MONTH: 1, IntervalUnit.YEAR: 12}
_STEPS = {unit: timedelta(seconds=unit.value) for unit in IntervalUnit}


@dataclass(frozen=True, slots=True)
class Cadence:
    """A cron expression, which schedules fills, and an interval unit, which divides the data.

    By default, the unit is the largest one that fits between two ticks. With `0 5 * * *`, intervals
    are days and are due at five in the morning. With `0 0 * * 1`, they are also days, but are due
    on Mondays. Units begin and end in UTC, even if the cron has another time zone.

    Args:
        zone: The IANA time zone of the cron; UTC if None.
        given_unit: The unit that the model names, or None.
        partials: Whether the unit in progress is filled up to the last tick.
        until_now: Whether the unit in progress is filled up to the present, once per tick.
    """

    cron: str
    zone: str | None = None
    given_unit: IntervalUnit | None = None
    partials: bool = False
    until_now: bool = False

    @classmethod
    def of(cls, model: Model) -> Cadence:
        # Only this method reads the properties that determine it.
        unit = IntervalUnit.named(model.interval_unit) if model.interval_unit else None
        return cls(model.cron, model.cron_tz, unit, model.allow_partials, model.until_now)

    @property
    def unit(self) -> IntervalUnit:
        return self.given_unit or largest_unit(self.cron)

    def last_tick(self, now: datetime) -> datetime:
        """Return the latest cron tick at or before an instant."""
        return last_tick(self.cron, now, self.zone)

    def due_until(self, now: datetime, *, ignore_cron: bool = False) -> datetime:
        """Return the exclusive end (UTC) of the intervals that are complete and due at an instant.

        Args:
            ignore_cron: Whether complete intervals are due at once.
        """
        return self.unit.floor(now if ignore_cron else self.last_tick(now))

    def filled_until(
        self, now: datetime, *, ignore_cron: bool = False, filled: IntervalSet = _NOTHING
    ) -> datetime:
        """Return the exclusive end (UTC) of the range that can be filled at an instant."""
        # With `until_now`, more is due as soon as a tick has passed since the end of `filled`.
        if not self.partials:
            return self.due_until(now, ignore_cron=ignore_cron)
        if ignore_cron:
            return now
        tick = self.last_tick(now)
        if not self.until_now:
            return tick
        has = filled.ranges[-1].end if filled else BEGINNING
        return now if has < tick else has

    def fully_filled(self, filled: IntervalSet, wanted: IntervalSet) -> IntervalSet:
        """Return the filled parts of `wanted` (UTC), without units that are filled only in part.

        A unit that `wanted` contains only in part is returned if that part is filled.
        """
        unit, found = self.unit, []
        for asked in wanted:
            for there in filled & IntervalSet((asked,)):
                start = there.start if there.start == asked.start else unit.ceil(there.start)
                end = there.end if there.end == asked.end else unit.floor(there.end)
                if start < end:
                    found.append(Interval(start, end))
        return IntervalSet.of(found)

    def latest_slot(self, now: datetime, *, ignore_cron: bool = False) -> Interval:
        """Return the last complete unit that is due at an instant (UTC)."""
        end = self.due_until(now, ignore_cron=ignore_cron)
        return Interval(self.unit.shift(end, -1), end)

    def batches(self, intervals: IntervalSet, size: int | None) -> list[Interval]:
        """Cut ranges into jobs of at most `size` units, in order of time."""
        if size is None:
            return list(intervals)
        out: list[Interval] = []
        for interval in intervals:
            start = interval.start
            while start < interval.end:
                end = min(self.unit.shift(self.unit.floor(start), size), interval.end)
                out.append(Interval(start, end))
                start = end
        return out


def require_time_for_ticks(instant: datetime, what: str) -> None:
    """Raise UsageError if ticks and units around an instant may be outside the years 1 to 9999."""
    # The year 4 has the first February 29. A time zone can move the last day out of the calendar.
    if instant.year < 10 or instant >= FAR:
        raise UsageError(
            f"due intervals cannot be determined for {what} {instant_text(instant)}",
            hint="write a time from 0010-01-01 to 9999-12-30",
        )


@functools.cache
def largest_unit(cron: str) -> IntervalUnit:
    """Return the largest interval unit that fits between two ticks of a cron."""
    gap = shortest_gap_seconds(cron)
    fitting = [unit for unit in IntervalUnit if unit.value <= gap]
    return fitting[-1] if fitting else IntervalUnit.FIVE_MINUTE
