"""Computes which intervals of a table are wanted, missing, filled again and audited.

`planning/intervals/cadence.py` computes units and ticks. `parent_coverage` finds the ranges that
parents have. `affected_intervals` finds the ranges that a restatement affects. `planner` decides
whether a plan or a run fills a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.intervals.cadence import FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import Part

_NOTHING = IntervalSet()


@dataclass(frozen=True, slots=True)
class Window:
    """The time range (UTC) of a plan. Start and end may be open.

    Args:
        now: The time of the plan.
        end: Exclusive end of the range.
        default_start: Start of models that do not declare one.
        ignore_cron: Whether complete intervals are due before the cron has ticked.
        min_intervals: Number of each model's latest intervals that are included even before
            `start`.
    """

    now: datetime
    start: datetime | None = None
    end: datetime | None = None
    default_start: datetime | None = None
    ignore_cron: bool = False
    min_intervals: int = 0


def wanted_intervals(
    snapshot: Snapshot,
    window: Window,
    starts: Mapping[ModelName, datetime],
    filled: IntervalSet = _NOTHING,
) -> IntervalSet:
    """Return the ranges (UTC) that a plan wants a table to have by now, filled or not."""
    cadence = snapshot.cadence
    if not snapshot.is_incremental:
        slot = cadence.latest_slot(window.now, ignore_cron=window.ignore_cron)
        return IntervalSet((slot,))
    unit = cadence.unit
    start = unit.floor(starts[snapshot.name])
    end = cadence.filled_until(window.now, ignore_cron=window.ignore_cron, filled=filled)
    last = snapshot.model.end_at(window.now)
    if last is not None:
        end = min(end, last)
    if window.end is not None:
        end = min(end, window.end)
    if not cadence.partials:
        end = unit.floor(end)
    if window.start is not None and not snapshot.in_order:
        # What is filled in order is filled from its beginning, or would have a gap for ever.
        asked = unit.floor(window.start)
        if window.min_intervals:
            asked = min(asked, unit.shift(unit.ceil(end), -window.min_intervals))
        start = max(start, asked)
    return IntervalSet((Interval(start, end),)) if start < end else IntervalSet()


def missing_intervals(
    snapshot: Snapshot,
    filled: IntervalSet,
    window: Window,
    starts: Mapping[ModelName, datetime],
    available: IntervalSet,
    *,
    catches_up: bool = False,
) -> IntervalSet:
    """Return the wanted intervals that can be computed and are not filled, with their lookback.

    Args:
        available: Ranges where the parents' data is complete, see `ParentCoverage`.
        catches_up: Whether a full table lacks rows that its parents have by now.
    """
    if filled and meaning_of(snapshot.model.kind).filled_once:
        return IntervalSet()
    wanted = wanted_intervals(snapshot, window, starts, filled)
    if not snapshot.is_incremental:
        # The whole table is as old as its latest fill, however long that slot was.
        fresh = filled and filled.ranges[-1].end >= wanted.ranges[-1].end
        if not fresh:
            return wanted
        return IntervalSet((last_slot(snapshot, filled),)) if catches_up else IntervalSet()
    cadence = snapshot.cadence
    if not wanted:
        return wanted
    until = wanted.ranges[-1].end
    if snapshot.in_order:
        reachable = available if cadence.partials else cadence.unit.align_inward(available)
        following = wanted & next_in_order(snapshot, filled, starts[snapshot.name], reachable)
        return add_lookback(snapshot, following, wanted & reachable)
    missing = intervals_left_to_fill(snapshot, wanted, filled)
    if not missing:
        return missing
    floor = cadence.unit.floor(starts[snapshot.name])
    reachable = cadence.fully_filled(available, IntervalSet((Interval(floor, until),)))
    return add_lookback(snapshot, missing & reachable, reachable)


def intervals_left_to_fill(
    snapshot: Snapshot, wanted: IntervalSet, filled: IntervalSet
) -> IntervalSet:
    """Return the wanted ranges that are not filled, or filled only as a part of a unit."""
    # A unit that was filled in part (while it was in progress, or by hours before the cron became
    # daily) is filled again from its beginning, because a query computes its rows from the whole
    # unit. If fills append rows, or rows build on earlier rows, filling continues where it ended.
    # A single fill must compute each unit.
    if not snapshot.is_incremental:
        return wanted if wanted - filled else IntervalSet()
    if not fills_parts_again(snapshot):
        return wanted - filled
    return wanted - snapshot.cadence.fully_filled(filled, wanted)


def partly_filled_units(snapshot: Snapshot, ranges: IntervalSet) -> tuple[Part, ...]:
    """Return filled ranges that are only a part of a unit, which is filled again later."""
    if not snapshot.is_incremental or not fills_parts_again(snapshot):
        return ()
    unit = snapshot.cadence.unit
    return tuple(Part(one, unit) for one in ranges - unit.align_inward(ranges))


def fills_parts_again(snapshot: Snapshot) -> bool:
    """Return whether a partly filled unit must be filled again from its beginning."""
    return snapshot.model.kind.refills and not snapshot.model.kind.in_order


def last_slot(snapshot: Snapshot, filled: IntervalSet) -> Interval:
    """Return the time range recorded with the last fill of a FULL table."""
    last = filled.ranges[-1]
    return Interval(max(last.start, snapshot.cadence.unit.shift(last.end, -1)), last.end)


def last_units(snapshot: Snapshot, filled: IntervalSet, count: int | None) -> IntervalSet:
    """Return the last `count` units of the filled ranges, or all ranges without a `count`."""
    if count is None or not filled:
        return filled
    end = filled.ranges[-1].end
    return filled & IntervalSet((Interval(snapshot.cadence.unit.shift(end, -count), end),))


def units_around(snapshot: Snapshot, missing: IntervalSet, change: IntervalSet) -> IntervalSet:
    """Return the missing intervals in the units that a change overlaps.

    For a model that is not filled by intervals, return everything that is missing.
    """
    if not missing or not snapshot.is_incremental:
        return missing
    hull = Interval(missing.ranges[0].start, missing.ranges[-1].end)
    return missing & snapshot.cadence.unit.align_outward(change & IntervalSet((hull,)))


def audited_ranges(snapshot: Snapshot, ranges: IntervalSet) -> tuple[Interval, ...]:
    """Return the ranges to audit after a fill. For a FULL table, this is only the last range."""
    return ranges.ranges if snapshot.is_incremental else ranges.ranges[-1:]


def next_in_order(
    snapshot: Snapshot, filled: IntervalSet, start: datetime, within: IntervalSet
) -> IntervalSet:
    """Return the first range of `within` that directly follows the filled ranges, or nothing."""
    cadence = snapshot.cadence
    whole = filled if cadence.partials else cadence.unit.align_inward(filled)
    begin = whole.ranges[-1].end if whole else cadence.unit.floor(start)
    later = within & IntervalSet((Interval(begin, FAR),))
    return (
        IntervalSet(later.ranges[:1]) if later and later.ranges[0].start == begin else IntervalSet()
    )


def add_lookback(snapshot: Snapshot, missing: IntervalSet, within: IntervalSet) -> IntervalSet:
    """Add earlier intervals that the model's lookback fills again, limited to the set `within`."""
    lookback = snapshot.model.kind.lookback
    if not missing or not lookback:
        return missing
    unit = snapshot.cadence.unit
    widened = IntervalSet.of(
        Interval(unit.shift(unit.floor(r.start), -lookback), r.end) for r in missing
    )
    return widened & within


def infer_starts(
    snapshots: Mapping[ModelName, Snapshot], window: Window
) -> dict[ModelName, datetime]:
    """Return the start of each model's data, by default from its parents (passed first)."""
    out: dict[ModelName, datetime] = {}
    for name, snapshot in snapshots.items():
        start = snapshot.model.start_at(window.now)
        if start is not None:
            out[name] = start
            continue
        inherited = [out[parent] for parent in snapshot.parents if parent in out]
        if inherited:
            out[name] = min(inherited)
        elif snapshot.is_incremental or window.default_start is not None:
            slot = snapshot.cadence.latest_slot(window.now)
            out[name] = window.default_start or slot.start
    return out


Ready = Callable[[Snapshot, IntervalSet], IntervalSet]
"""Returns the part (whole units) of a model's missing intervals that its signals allow."""


@dataclass(slots=True)
class Readiness:
    """Evaluates the signals of a plan's models, parents before children."""

    # Without `ready`, nothing is blocked. If a signal blocks ranges, the same ranges of incremental
    # children are blocked, and all ranges of children that are written as a whole.
    ready: Ready | None = None
    blocked: dict[ModelName, IntervalSet] = field(default_factory=dict)

    def unblocked_intervals(self, snapshot: Snapshot, missing: IntervalSet) -> IntervalSet:
        """Return the missing intervals that no signal of the model or its parents blocks."""
        parents = (self.blocked[one] for one in snapshot.parents if one in self.blocked)
        blocked = IntervalSet.union(parents)
        passing = missing
        if blocked:
            around = snapshot.cadence.unit.align_outward(blocked)
            passing = missing - around if snapshot.is_incremental else IntervalSet()
        if passing and snapshot.model.signals and self.ready is not None:
            passing = self.ready(snapshot, passing)
        if passing and snapshot.in_order:
            # Intervals that build on earlier ones cannot skip any.
            first = passing.ranges[0]
            at_once = first.start == missing.ranges[0].start
            passing = IntervalSet((first,)) if at_once else IntervalSet()
        kept = (missing - passing) | (blocked if not snapshot.has_table else IntervalSet())
        if kept:
            self.blocked[snapshot.name] = kept
        return passing
