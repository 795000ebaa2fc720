"""What a run fills again by itself, since its model asks for that now and then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Tick:
    """An instant at which a model asks to be filled again.

    Args:
        at: The tick (UTC).
        intervals: What had not been filled since then, of what it asks for (UTC).
    """

    at: datetime
    intervals: IntervalSet


def last_tick(snapshot: Snapshot, now: datetime) -> datetime | None:
    """Return the latest instant (UTC) at which a model asked to be filled again, or None."""
    again = snapshot.model.kind.auto_restatement
    return None if again is None else replace(snapshot.cadence, cron=again.cron).last_tick(now)


def due_again(
    snapshot: Snapshot,
    filled: IntervalSet,
    tick: datetime,
    fills: Iterable[tuple[Interval, datetime]],
) -> Tick:
    """Return what a model asks to be filled again by its latest tick.

    What was filled after the tick is new enough; so a model that has just been made, or a range
    that somebody restated meanwhile, is not computed twice.

    Args:
        snapshot: The model; it has an automatic restatement.
        filled: What its table holds (UTC).
        tick: Its latest tick (UTC).
        fills: What was ever filled, and when (UTC).
    """
    again = snapshot.model.kind.auto_restatement
    assert again is not None
    window = filled
    if again.intervals is not None and filled:
        end = filled.ranges[-1].end
        first = snapshot.cadence.unit.shift(end, -again.intervals)
        window = filled & IntervalSet((Interval(first, end),))
    newer = IntervalSet.of(interval for interval, at in fills if at >= tick)
    return Tick(tick, window - newer)
