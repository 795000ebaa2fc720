"""What a run fills again by itself, since its model asks for that now and then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Wish:
    """What a model asks to be filled again, and since when.

    Args:
        at: The tick at which it asks (UTC).
        last: How many of the last intervals, or None for all that are filled.
    """

    at: datetime
    last: int | None


@dataclass(frozen=True, slots=True)
class Tick:
    """An instant at which a model asks to be filled again.

    Args:
        at: The tick (UTC).
        intervals: What had not been filled since then, of what it asks for (UTC).
    """

    at: datetime
    intervals: IntervalSet


def wishes(snapshot: Snapshot, now: datetime) -> tuple[Wish, ...]:
    """Return what a model asks for by the latest ticks before an instant (UTC)."""
    found = []
    again = snapshot.model.kind.auto_restatement
    if again is not None:
        tick = replace(snapshot.cadence, cron=again.cron).last_tick(now)
        found.append(Wish(tick, again.intervals))
    ended = _after_the_end(snapshot, now)
    return (*found, ended) if ended is not None else tuple(found)


def _after_the_end(snapshot: Snapshot, now: datetime) -> Wish | None:
    """Ask for the last intervals as long as a lookback from those that would follow has them.

    After a model's end nothing falls due that would bring the lookback with it; late rows come
    all the same. What can only be made again whole is left alone.
    """
    kind, cadence = snapshot.model.kind, snapshot.cadence
    end, lookback = snapshot.model.end_at(now), kind.earlier_intervals
    if end is None or not lookback or kind.restates_whole or snapshot.in_order:
        return None
    first, due = cadence.unit.ceil(end), cadence.due_until(now)
    if due <= first:
        return None
    left = lookback + 1 - cadence.unit.count(Interval(first, due))
    return Wish(cadence.last_tick(now), left) if left > 0 else None


def due_again(
    snapshot: Snapshot,
    filled: IntervalSet,
    asked: Iterable[Wish],
    fills: Iterable[tuple[Interval, datetime]],
) -> Tick:
    """Return what a model asks to be filled again by its latest ticks.

    What was filled after a tick is new enough; so a model that has just been made, or a range
    that somebody restated meanwhile, is not computed twice.

    Args:
        snapshot: The model.
        filled: What its table holds (UTC).
        asked: What it asks for; at least one wish.
        fills: What was ever filled, and when (UTC).
    """
    asked, log = tuple(asked), tuple(fills)
    intervals = IntervalSet()
    for wish in asked:
        newer = IntervalSet.of(interval for interval, at in log if at >= wish.at)
        intervals = intervals | (_last(snapshot, filled, wish.last) - newer)
    return Tick(max(wish.at for wish in asked), intervals)


def _last(snapshot: Snapshot, filled: IntervalSet, count: int | None) -> IntervalSet:
    if count is None or not filled:
        return filled
    end = filled.ranges[-1].end
    return filled & IntervalSet((Interval(snapshot.cadence.unit.shift(end, -count), end),))
