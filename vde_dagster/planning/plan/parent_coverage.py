"""Parent coverage: the ranges that models have, and the parents' ranges that full tables lack.

A full model is computed from the rows that its parents have at that time. Its slot, the range
recorded with its fill, may include intervals that a parent has not filled yet: a run has not
computed a due interval, the parent's cron ticks later, a signal blocks the interval, or the plan is
limited to other intervals. The fill records these gaps under the name of the model whose rows are
missing. As soon as a gap shrinks, the table is computed again for its slot.

A model filled by intervals waits for its parents instead, because an interval computed too early
would count as filled and stay wrong:
- It waits for a full parent until that parent was computed for a slot that covers the interval. It
  does not wait for a parent that is computed only from seeds, because that parent's rows never
  change.
- It waits for a parent's unit that is filled only in part until the unit is complete, because each
  part computes the unit's rows again. A model that also fills parts of the same or a longer unit,
  and fills them again later, does not wait.

If a model is filled up to the present at each tick and fills its units again, it does not wait for
the next slot of a full parent with the same or a shorter unit. If a model that is filled up to the
present has no time column, it never waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.intervals.cadence import ALWAYS, BEGINNING, FAR, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.kinds.repeatable import explain_not_repeatable
from vde_dagster.planning.plan.missing_intervals import (
    Window,
    fills_parts_again,
    infer_starts,
    missing_intervals,
)
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.planning.tables.table import ParentGaps, PhysicalTable

NOTHING: ParentGaps = {}

MOST_RANGES = 30
"""Maximum number of recorded ranges; the earliest ranges are merged to stay within it."""


@dataclass(slots=True)
class ParentCoverage:
    """Tracks the ranges that each model has and lacks after a plan. Record parents before children.

    Args:
        starts: First instant of data by model (UTC).
        now: Time of the plan (UTC).
    """

    starts: Mapping[ModelName, datetime]
    now: datetime
    _missing: dict[ModelName, ParentGaps] = field(default_factory=dict)
    """For each model, the gaps that its readers see, by the model whose rows are missing."""
    _waits: dict[ModelName, ParentGaps] = field(default_factory=dict)
    """For each model, the gaps that delay its incremental readers."""
    _parts: dict[ModelName, tuple[IntervalUnit, IntervalSet]] = field(default_factory=dict)
    """Filled parts of incomplete units."""
    _old: dict[ModelName, tuple[IntervalUnit, IntervalSet]] = field(default_factory=dict)
    """Ranges from the end of full tables' slots to the present."""
    _static: set[ModelName] = field(default_factory=set)
    """Models computed only from files, such as seeds."""

    def complete_parent_ranges(self, snapshot: Snapshot) -> IntervalSet:
        """Return the ranges with complete data in all parents; only these can be filled."""
        cadence, out = snapshot.cadence, ALWAYS
        if _reads_whole(snapshot):
            return out
        again = cadence.partials and fills_parts_again(snapshot)
        taken = [self._parts, *([self._old] if cadence.until_now else [])]
        for root, ranges in self.waits_of_parents(snapshot).items():
            for parts in taken:
                unit, part = parts.get(root, (cadence.unit, IntervalSet()))
                if again and unit.value <= cadence.unit.value:
                    ranges = ranges - part
            out = out - ranges
        return out

    def record_coverage(
        self, snapshot: Snapshot, table: PhysicalTable | None, intervals: IntervalSet
    ) -> None:
        """Record the ranges that a model has after the plan.

        Args:
            table: None for a view.
            intervals: The ranges that the plan fills (UTC).
        """
        name, filled_once = snapshot.name, meaning_of(snapshot.model.kind).filled_once
        if filled_once or self._is_static(snapshot):
            self._static.add(name)
        if table is None:
            self._missing[name] = self._gaps(snapshot, FAR)
            self._waits[name] = self.waits_of_parents(snapshot)
        elif snapshot.is_incremental:
            filled = table.with_ranges_for_unit(snapshot.cadence.unit).available
            self._note_filled(snapshot, filled | intervals)
        elif not filled_once:
            self._missing[name] = self._waits[name] = self._unmade(snapshot, table, intervals)
            made = table.intervals | intervals
            if made and made.ranges[-1].end < self.now:
                old = IntervalSet((Interval(made.ranges[-1].end, self.now),))
                self._old[name] = snapshot.cadence.unit, old
            if name in self._static and (table.intervals or intervals):
                del self._waits[name]

    def waits_of_parents(self, snapshot: Snapshot) -> ParentGaps:
        """Return the ranges of ancestors that a model filled by intervals waits for.

        Each range is listed under the ancestor that has not filled it.
        """
        found: dict[ModelName, IntervalSet] = {}
        for parent in snapshot.parents:
            for root, ranges in self._waits.get(parent, NOTHING).items():
                found[root] = found.get(root, IntervalSet()) | ranges
        return found

    def lacking_intervals(self, name: ModelName) -> ParentGaps:
        """Return the parents' intervals that a full table will still lack after its next fill."""
        return {root: ranges for root, ranges in self._missing[name].items() if root != name}

    def catches_up(self, snapshot: Snapshot, table: PhysicalTable) -> bool:
        """Return whether parents of a full table have received rows after the table's last fill."""
        if not table.lacks or not table.intervals:
            return False
        now = self._gaps(snapshot, table.intervals.ranges[-1].end)
        return any(was - now.get(root, IntervalSet()) for root, was in table.lacks.items())

    def _outside(self, snapshot: Snapshot) -> IntervalSet:
        start, end = self.starts.get(snapshot.name, BEGINNING), snapshot.model.end_at(self.now)
        before = [Interval(BEGINNING, start)] if start > BEGINNING else []
        after = [Interval(end, FAR)] if end is not None and end < FAR else []
        return IntervalSet.of([*before, *after])

    def _is_static(self, snapshot: Snapshot) -> bool:
        if not snapshot.parents or not self._static.issuperset(snapshot.parents):
            return False
        return not snapshot.is_incremental and explain_not_repeatable(snapshot, {}) is None

    def _gaps(self, snapshot: Snapshot, until: datetime) -> ParentGaps:
        """Return the ranges before an instant that each ancestor of a model lacks."""
        found: dict[ModelName, IntervalSet] = {}
        before = IntervalSet((Interval(BEGINNING, until),))
        for parent in snapshot.parents:
            for root, ranges in self._missing.get(parent, NOTHING).items():
                part = ranges & before
                if part and root != snapshot.name:
                    found[root] = _coarse(found.get(root, IntervalSet()) | part)
        return found

    def _note_filled(self, snapshot: Snapshot, filled: IntervalSet) -> None:
        name, unit = snapshot.name, snapshot.cadence.unit
        outside = self._outside(snapshot)
        whole = snapshot.cadence.fully_filled(filled | outside, ALWAYS)
        if _reads_whole(snapshot):
            whole = filled | outside
        part = filled - whole
        if part:
            # What is filled at every tick may be read up to the present by any unit of time.
            known = IntervalUnit.FIVE_MINUTE if snapshot.cadence.until_now else unit
            self._parts[name] = known, part
        self._waits[name] = {name: ALWAYS - whole - outside}
        start = unit.floor(self.starts.get(name, BEGINNING))
        end = snapshot.model.end_at(self.now) or FAR
        reach = IntervalSet((Interval(start, end),)) if start < end else IntervalSet()
        missing = reach - whole
        self._missing[name] = {name: _coarse(missing)} if missing else NOTHING

    def _unmade(
        self, snapshot: Snapshot, table: PhysicalTable, intervals: IntervalSet
    ) -> ParentGaps:
        filled = table.intervals | intervals
        end = filled.ranges[-1].end if filled else BEGINNING
        gaps = self._gaps(snapshot, intervals.ranges[-1].end) if intervals else table.lacks
        return {snapshot.name: IntervalSet((Interval(end, FAR),)), **gaps}


def _reads_whole(snapshot: Snapshot) -> bool:
    # Other fills read only an interval.
    return snapshot.cadence.until_now and snapshot.model.kind.interval_column is None


def _coarse(ranges: IntervalSet) -> IntervalSet:
    if len(ranges) <= MOST_RANGES:
        return ranges
    first, *rest = ranges.ranges[: 1 - MOST_RANGES]
    return IntervalSet((Interval(first.start, rest[-1].end), *ranges.ranges[1 - MOST_RANGES :]))


def parent_gaps(plan: Plan, default_start: datetime | None) -> dict[str, ParentGaps]:
    """Map each full table of a plan to the parents' intervals that it will lack, by table id."""
    snapshots = sort_parents_first(plan.target)
    planned = {model.name: model for model in plan.models}
    starts = infer_starts(snapshots, Window(plan.created_at, default_start=default_start))
    coverage = ParentCoverage(starts, plan.created_at)
    found: dict[str, ParentGaps] = {}
    for name, snapshot in snapshots.items():
        model = planned.get(name)
        if model is None or not snapshot.model.kind.is_read:
            continue
        intervals = model.intervals if model.builds else IntervalSet()
        coverage.record_coverage(snapshot, model.table, intervals)
        if intervals and model.table is not None and not snapshot.is_incremental:
            gaps = (
                {}
                if meaning_of(snapshot.model.kind).filled_once
                else coverage.lacking_intervals(name)
            )
            if gaps:
                found.setdefault(model.table.id, gaps)
    return found


def due_intervals(plan: Plan, window: Window) -> Mapping[ModelName, IntervalSet]:
    """Return the intervals that a run of the plan's target would compute, parents first."""
    # They include the plan's own intervals. Of models that share a table, only the first is
    # returned.
    snapshots = sort_parents_first(plan.target)
    tables = {model.name: model.table for model in plan.models if model.table}
    starts = infer_starts(snapshots, window)
    found: dict[ModelName, IntervalSet] = {}
    seen: set[str] = set()
    coverage = ParentCoverage(starts, window.now)
    for name, snapshot in snapshots.items():
        table = tables.get(name)
        if table is None:
            coverage.record_coverage(snapshot, None, IntervalSet())
            continue
        missing = missing_intervals(
            snapshot,
            table.with_ranges_for_unit(snapshot.cadence.unit).available,
            window,
            starts,
            coverage.complete_parent_ranges(snapshot),
            catches_up=coverage.catches_up(snapshot, table),
        )
        coverage.record_coverage(snapshot, table, missing)
        if missing and table.id not in seen:
            found[name] = missing
        seen.add(table.id)
    return found
