"""What the models of a plan hold when it has run, told model by model, parents first.

A model that is made whole is made of whatever its parents hold when its turn comes. They need not
hold yet what its slot reaches over: a plan makes it while an interval of a parent is due, a
parent's cron ticks later, a signal holds a parent back, or only a part of a parent was asked for.
What is missing then is remembered with the fill, by the model whose rows are missing. As soon as
less of it is missing, the table is made again, into the slot that it has.

A model that keeps its rows by interval waits for its parents instead: an interval that was computed
before its parent's would be recorded as filled and stay wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.cadence import ALWAYS, BEGINNING, FAR
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import Lacks, PhysicalTable

NOTHING: Lacks = {}

MOST_RANGES = 30
"""Of more ranges than that the earlier ones are remembered as one."""


@dataclass(slots=True)
class Holdings:
    """What models hold, as far as they have been told of.

    Args:
        starts: First instant of data by model (UTC).
        now: The instant of the plan (UTC).
        ignore_cron: Whether what is complete is due before its cron has ticked.
    """

    starts: Mapping[ModelName, datetime]
    now: datetime
    ignore_cron: bool = False
    _missing: dict[ModelName, Lacks] = field(default_factory=dict)
    """What readers of a model do not find, by the model whose rows they are."""
    _due: dict[ModelName, datetime] = field(default_factory=dict)
    """Until when the rows of a model that has a table are due."""
    _complete: dict[ModelName, IntervalSet] = field(default_factory=dict)
    """Where readers of a model need not wait for rows of it; of one that is not named, nowhere."""

    def complete_for(self, snapshot: Snapshot) -> IntervalSet:
        """Return where the parents of a model have what is due, or will have it.

        Args:
            snapshot: The model; its parents have been told of.
        """
        out = ALWAYS
        for parent in snapshot.parents:
            known = self._complete.get(parent)
            out = out if known is None else out & known
        return out

    def note(self, snapshot: Snapshot, table: PhysicalTable | None, intervals: IntervalSet) -> None:
        """Say what becomes of a model.

        Args:
            snapshot: The model.
            table: Its table; None for a view.
            intervals: What the plan fills of it (UTC).
        """
        if table is None:
            self._missing[snapshot.name] = self._lacks(snapshot, FAR)
        elif snapshot.is_incremental:
            self._missing[snapshot.name] = self._unfilled(snapshot, table, intervals)
        elif not meaning_of(snapshot.model.kind).filled_once:
            self._missing[snapshot.name] = self._unmade(snapshot, table, intervals)
        complete = self._complete_in(snapshot, table, intervals)
        if complete is not ALWAYS:
            self._complete[snapshot.name] = complete | self._outside(snapshot)

    def lacks(self, name: ModelName) -> Lacks:
        """Return what a model that is made whole was, or is going to be, made without."""
        return {root: ranges for root, ranges in self._missing[name].items() if root != name}

    def catches_up(self, snapshot: Snapshot, table: PhysicalTable) -> bool:
        """Say whether a table was made without something that its parents hold by now.

        Args:
            snapshot: A model that is made whole; its parents have been told of.
            table: Its table.
        """
        if not table.lacks or not table.intervals:
            return False
        now = self._lacks(snapshot, table.intervals.ranges[-1].end)
        return any(was - now.get(root, IntervalSet()) for root, was in table.lacks.items())

    def _complete_in(
        self, snapshot: Snapshot, table: PhysicalTable | None, intervals: IntervalSet
    ) -> IntervalSet:
        if table is None:
            return self.complete_for(snapshot)
        if snapshot.is_incremental:
            return table.available | intervals
        owed = self._owed(snapshot.name)
        return ALWAYS - owed if owed else ALWAYS

    def _outside(self, snapshot: Snapshot) -> IntervalSet:
        """Return where a model has no rows by its definition, so that nobody waits for any."""
        start, end = self.starts.get(snapshot.name, BEGINNING), snapshot.model.end_at(self.now)
        before = [Interval(BEGINNING, start)] if start > BEGINNING else []
        after = [Interval(end, FAR)] if end is not None and end < FAR else []
        return IntervalSet.of([*before, *after])

    def _owed(self, name: ModelName) -> IntervalSet:
        """Return where what is due of a model that is made whole, or of its parents, is not there.

        Whoever keeps rows by interval waits for it: nobody would compute an interval again that
        was made of the earlier rows.
        """
        found = IntervalSet()
        for root, ranges in self._missing.get(name, NOTHING).items():
            due = self._due.get(root)
            if due is None or due <= BEGINNING:
                continue
            owed = ranges & IntervalSet((Interval(BEGINNING, due),))
            if owed and owed.ranges[-1].end == due:
                owed = owed | IntervalSet((Interval(owed.ranges[-1].start, FAR),))
            found = found | owed
        return found

    def _lacks(self, snapshot: Snapshot, until: datetime) -> Lacks:
        """Return what whoever reads the parents' rows before an instant does not find."""
        found: dict[ModelName, IntervalSet] = {}
        before = IntervalSet((Interval(BEGINNING, until),))
        for parent in snapshot.parents:
            for root, ranges in self._missing.get(parent, NOTHING).items():
                part = ranges & before
                if part and root != snapshot.name:
                    found[root] = _coarse(found.get(root, IntervalSet()) | part)
        return found

    def _unfilled(self, snapshot: Snapshot, table: PhysicalTable, intervals: IntervalSet) -> Lacks:
        unit, end = snapshot.cadence.unit, snapshot.model.end_at(self.now) or FAR
        due = snapshot.cadence.filled_until(self.now, ignore_cron=self.ignore_cron)
        self._due[snapshot.name] = min(due, end)
        start = unit.floor(self.starts.get(snapshot.name, BEGINNING))
        if start >= end:
            return NOTHING
        missing = IntervalSet((Interval(start, end),)) - (table.available | intervals)
        return {snapshot.name: _coarse(missing)}

    def _unmade(self, snapshot: Snapshot, table: PhysicalTable, intervals: IntervalSet) -> Lacks:
        slot = snapshot.cadence.latest_slot(self.now, ignore_cron=self.ignore_cron)
        self._due[snapshot.name] = slot.end
        filled = table.intervals | intervals
        end = filled.ranges[-1].end if filled else BEGINNING
        lacks = self._lacks(snapshot, intervals.ranges[-1].end) if intervals else table.lacks
        return {snapshot.name: IntervalSet((Interval(end, FAR),)), **lacks}


def _coarse(ranges: IntervalSet) -> IntervalSet:
    if len(ranges) <= MOST_RANGES:
        return ranges
    first, *rest = ranges.ranges[: 1 - MOST_RANGES]
    return IntervalSet((Interval(first.start, rest[-1].end), *ranges.ranges[1 - MOST_RANGES :]))
