"""Half-open intervals of time, and sets of intervals that merge adjacent ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import reduce
from operator import attrgetter, or_

from vde_dagster.base.times import instant_text, parse_instant, range_text, utc
from vde_dagster.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The instants from `start` (included) to `end` (excluded), in UTC.

    Raises:
        UsageError: `end` is not after `start`.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is not timezone.utc or self.end.tzinfo is not timezone.utc:
            object.__setattr__(self, "start", utc(self.start))
            object.__setattr__(self, "end", utc(self.end))
        if self.end <= self.start:
            raise UsageError(
                f"the interval {instant_text(self.start)} … {instant_text(self.end)} does not end "
                "after its start",
                hint="give a start that lies before the end (the end is exclusive)",
            )

    def __str__(self) -> str:
        return f"{iso(self.start)}/{iso(self.end)}"

    @property
    def text(self) -> str:
        """The interval for messages; a range of whole days ends with its last day."""
        return range_text(self.start, self.end)

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Read the form of `str(interval)`: `start/end` in ISO 8601."""
        start, _, end = text.partition("/")
        return cls(parse_instant(start), parse_instant(end))

    def to_json(self) -> dict[str, str]:
        """Return `{"start": …, "end": …}` in ISO 8601 UTC."""
        return {"start": iso(self.start), "end": iso(self.end)}


_START, _END = attrgetter("start"), attrgetter("end")


def iso(value: datetime) -> str:
    """Write an instant in UTC, such as `2024-05-01T00:00:00Z`."""
    return utc(value).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A set of instants as sorted, disjoint, non-adjacent half-open ranges."""

    ranges: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, intervals: Iterable[Interval]) -> IntervalSet:
        """Build a set from intervals in any order, overlapping or adjacent."""
        merged: list[Interval] = []
        for interval in sorted(intervals, key=_START):
            if merged and interval.start <= merged[-1].end:
                if interval.end > merged[-1].end:
                    merged[-1] = Interval(merged[-1].start, interval.end)
            else:
                merged.append(interval)
        return cls(tuple(merged))

    @classmethod
    def union(cls, sets: Iterable[IntervalSet]) -> IntervalSet:
        return reduce(or_, sets, cls())

    @property
    def text(self) -> str:
        return ", ".join(interval.text for interval in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def __or__(self, other: IntervalSet) -> IntervalSet:
        if not self.ranges or not other.ranges:
            return other if not self.ranges else self
        few, many = sorted((self.ranges, other.ranges), key=len)
        # Only what lies around the shorter set is looked at: it is one fill, often.
        first = bisect_left(many, few[0].start, key=_END)
        last = bisect_right(many, few[-1].end, key=_START)
        merged = IntervalSet.of((*few, *many[first:last]))
        return IntervalSet((*many[:first], *merged.ranges, *many[last:]))

    def __and__(self, other: IntervalSet) -> IntervalSet:
        out: list[Interval] = []
        if not self.ranges or not other.ranges:
            return IntervalSet()
        i = bisect_right(self.ranges, other.ranges[0].start, key=_END)
        j = bisect_right(other.ranges, self.ranges[0].start, key=_END)
        while i < len(self.ranges) and j < len(other.ranges):
            a, b = self.ranges[i], other.ranges[j]
            start, end = max(a.start, b.start), min(a.end, b.end)
            if start < end:
                whole = start == a.start and end == a.end
                out.append(a if whole else Interval(start, end))
            if a.end <= b.end:
                i += 1
            else:
                j += 1
        return IntervalSet(tuple(out))

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        out: list[Interval] = []
        if not self.ranges or not other.ranges:
            return self
        j = bisect_right(other.ranges, self.ranges[0].start, key=_END)
        for a in self.ranges:
            start = a.start
            while j < len(other.ranges) and other.ranges[j].end <= start:
                j += 1
            k = j
            while k < len(other.ranges) and other.ranges[k].start < a.end:
                b = other.ranges[k]
                if b.start > start:
                    out.append(Interval(start, b.start))
                start = max(start, b.end)
                k += 1
            if start < a.end:
                out.append(a if start == a.start else Interval(start, a.end))
        return IntervalSet(tuple(out))

    def contains(self, interval: Interval) -> bool:
        at = bisect_right(self.ranges, interval.start, key=_START) - 1
        return at >= 0 and interval.end <= self.ranges[at].end

    def to_json(self) -> list[dict[str, str]]:
        return [interval.to_json() for interval in self.ranges]
