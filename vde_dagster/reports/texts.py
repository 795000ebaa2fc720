"""Sizes, times and ranges as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped


def unit_name(unit: IntervalUnit) -> str:
    """Name a unit, as in `day` or `quarter hour`."""
    return unit.name.lower().replace("_", " ").removesuffix("s")


def units(snapshot: Snapshot, intervals: IntervalSet) -> int:
    """Count the units of work in what a model fills; a whole table is one."""
    if not snapshot.is_incremental:
        return 1 if intervals else 0
    unit = snapshot.cadence.unit
    return sum(unit.count(interval) for interval in intervals)


def span(interval: Interval) -> str:
    """Write a half-open range (UTC): days by their dates, both ends included."""
    return interval.text.removesuffix(" UTC")


def spans(intervals: IntervalSet, most: int = 3) -> str:
    """Write the first few of some ranges (UTC)."""
    shown = [span(interval) for interval in list(intervals)[:most]]
    if len(intervals) > most:
        shown.append(f"and {len(intervals) - most} more ranges")
    return ", ".join(shown)


def size(number: int | None) -> str:
    """Write a number of bytes: `1.5 MB`."""
    if number is None:
        return ""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def saved(skipped: Iterable[Skipped]) -> str:
    """Say what skipping saves, as far as earlier fills tell: `, which saves 12 s and 3.4 MB`."""
    found = list(skipped)
    seconds = sum(one.seconds or 0.0 for one in found)
    amount = sum(one.bytes or 0 for one in found)
    parts = [f"{seconds:,.1f} s"] if seconds else []
    if amount:
        parts.append(f"{amount / 1e6:,.1f} MB" if amount >= 100_000 else f"{amount / 1e3:,.1f} kB")
    return f", which saves {' and '.join(parts)}" if parts else ""


def duration(seconds: float | None) -> str:
    """Write a time of work: `15 s`, `3 min`, `2.5 h`; nothing where it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def short_time(value: datetime | None) -> str:
    """Write an instant: `2026-11-21 09:20`, UTC."""
    return value.strftime("%Y-%m-%d %H:%M") if value is not None else ""
