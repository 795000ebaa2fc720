"""Intervals that a restatement affects, in dependent tables and in other environments.

Tables are shared by content, so a table that production restates may also serve other environments,
versions kept for a rollback, and plans that are not applied yet. Tables computed from the old rows
become outdated, and so do branches of the table that preview a change in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import Entry
from vde_dagster.planning.intervals.cadence import EPOCH, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.missing_intervals import last_slot
from vde_dagster.planning.plan.plan import Outdated, Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.planning.tables.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class EnvironmentScope:
    """The models that a version of an environment shows, or that a plan would show.

    Args:
        environment: The environment's name if the scope is its current version.
    """

    entries: Mapping[ModelName, Entry]
    # The models read each other.
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class RestatedRanges:
    """The time ranges (UTC) whose rows a restatement changes.

    Args:
        tables: Changed ranges of the tables that the restatement computes again, by table id.
        external: Changed ranges of the external models that the user selected.
        names: Changed ranges by model, for readers whose input tables are unknown.
        previews: Ids of the previews of the tables in `tables`.
    """

    tables: Mapping[str, IntervalSet]
    external: Mapping[ModelName, IntervalSet]
    names: Mapping[ModelName, IntervalSet]
    # The branches of previews have the old rows.
    previews: Set[str] = frozenset()

    def reaches(self, entry: Entry) -> bool:
        """Return whether a model's entry shows rows that the restatement changes."""
        if entry.table_id is None:
            return entry.name in self.external
        return entry.table_id in self.tables or entry.table_id in self.previews

    def with_previews(self, tables: Iterable[PhysicalTable]) -> RestatedRanges:
        """Return these ranges together with the ids of previews of the restated tables."""
        found = (t.id for t in tables if t.preview is not None and t.preview.of in self.tables)
        return replace(self, previews=frozenset(found))

    @classmethod
    def from_plan(cls, plan: Plan) -> RestatedRanges:
        """Return the ranges whose rows a plan's restatement changes."""
        tables = {
            model.table.id: plan.restates[model.name]
            for model in plan.models
            if model.table is not None and model.name in plan.restates
        }
        external = {
            name: ranges
            for name, ranges in plan.restates.items()
            if plan.snapshots[plan.entries[name].snapshot_id].model.kind.is_external
        }
        return cls(tables, external, plan.restates)


@dataclass(frozen=True, slots=True)
class ExistingTables:
    """All tables, and the versions of environments that show them.

    Args:
        scopes: Current, restorable and planned versions of environments.
        snapshots: Snapshots of scopes and tables, by id.
        tables: All existing tables, by id.
        covered: Ids of the tables whose inputs are in a scope.
        production: Ids of production's tables.
    """

    # Each version has at least the models that a change affects.
    scopes: tuple[EnvironmentScope, ...]
    snapshots: Mapping[str, Snapshot]
    tables: Mapping[str, PhysicalTable]
    covered: Set[str]
    production: Set[str]


def find_outdated(changed: RestatedRanges, made: ExistingTables) -> tuple[Outdated, ...]:
    """Find the tables with rows computed from restated rows, and their outdated ranges."""
    found = _OutdatedRanges(made, changed)
    names = dict(changed.names)
    for scope in made.scopes:
        for name, ranges in found.follow_scope(scope, changed).items():
            names[name] = names.get(name, IntervalSet()) | ranges
    found.follow_names(names, made.tables.keys() - made.covered)
    return found.all()


def find_reached_models(
    entries: Iterable[Entry], snapshots: Mapping[str, Snapshot], changed: RestatedRanges
) -> set[ModelName]:
    """Return the models that show or read restated rows, directly or through other models."""
    readers: dict[ModelName, set[ModelName]] = {}
    found: set[ModelName] = set()
    for entry in entries:
        if changed.reaches(entry):
            found.add(entry.name)
        snapshot = snapshots.get(entry.snapshot_id)
        for parent in snapshot.parents if snapshot else ():
            readers.setdefault(parent, set()).add(entry.name)
    waiting = list(found)
    while waiting:
        new = readers.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


class _OutdatedRanges:
    def __init__(self, made: ExistingTables, changed: RestatedRanges) -> None:
        self.made, self.changed = made, changed
        self.kept = changed.tables.keys() | made.production
        self.ranges: dict[str, IntervalSet] = {}
        self.names: dict[str, ModelName] = {}
        self.environments: dict[str, set[str]] = {}
        self.whole: set[str] = set()

    def follow_scope(
        self, scope: EnvironmentScope, changed: RestatedRanges
    ) -> dict[ModelName, IntervalSet]:
        snapshots = {
            name: self.made.snapshots[entry.snapshot_id]
            for name, entry in scope.entries.items()
            if entry.snapshot_id in self.made.snapshots
        }
        shown: dict[ModelName, IntervalSet] = {}
        for name, snapshot in sort_parents_first(snapshots).items():
            table_id = scope.entries[name].table_id
            if table_id is None:
                ranges = changed_parent_ranges(snapshot, shown) | changed.external.get(
                    name, IntervalSet()
                )
            elif table_id in changed.tables:
                ranges = changed.tables[table_id]
            else:
                ranges = self._put(
                    table_id, snapshot, changed_parent_ranges(snapshot, shown), scope.environment
                )
            if ranges:
                shown[name] = ranges
        return shown

    def follow_names(self, names: dict[ModelName, IntervalSet], ids: Set[str]) -> None:
        """Find outdated ranges of tables that no version shows, by the names of their parents."""
        # It is unknown which version of a model such a table read, so changes of all versions
        # count.
        waiting = [
            table
            for key, table in self.made.tables.items()
            if key in ids and table.snapshot_id in self.made.snapshots and table.available
        ]
        moved = True
        while moved:
            moved = False
            for table in waiting:
                snapshot = self.made.snapshots[table.snapshot_id]
                before = self.ranges.get(table.id)
                ranges = self._put(table.id, snapshot, changed_parent_ranges(snapshot, names), None)
                if self.ranges.get(table.id) != before:
                    names[snapshot.name] = names.get(snapshot.name, IntervalSet()) | ranges
                    moved = True

    def _put(
        self, table_id: str, snapshot: Snapshot, change: IntervalSet, environment: str | None
    ) -> IntervalSet:
        """Record a table's outdated ranges, and return the ranges that change for its readers."""
        table = self.made.tables.get(table_id)
        if table is None or table_id in self.kept or snapshot.model.kind.disable_restatement:
            return IntervalSet()
        own = affected_intervals(snapshot, table.intervals, change)
        old = affected_intervals(snapshot, table.available, self._inherited(table))
        if not own.intervals and not old.intervals:
            return IntervalSet()
        # A table that is made whole has nothing that is true any more.
        whole = not snapshot.is_incremental or snapshot.model.kind.restates_whole
        ranges = table.available if whole else own.intervals | old.intervals
        if whole:
            self.whole.add(table_id)
        self.ranges[table_id] = self.ranges.get(table_id, IntervalSet()) | ranges
        self.names.setdefault(table_id, snapshot.name)
        if environment is not None:
            self.environments.setdefault(table_id, set()).add(environment)
            self.names[table_id] = snapshot.name
        return own.changed | old.changed

    def _inherited(self, table: PhysicalTable) -> IntervalSet:
        if table.preview is None:
            return IntervalSet()
        changed = self.changed.tables.get(table.preview.of, IntervalSet())
        return (changed & table.preview.inherited) - table.intervals

    def all(self) -> tuple[Outdated, ...]:
        found = (
            Outdated(
                self.names[key],
                tuple(sorted(self.environments.get(key, ()))),
                key,
                ranges,
                key in self.whole,
            )
            for key, ranges in self.ranges.items()
        )
        return tuple(sorted(found, key=lambda one: (one.name, one.table_id)))


def changed_parent_ranges(
    snapshot: Snapshot, shown: Mapping[ModelName, IntervalSet]
) -> IntervalSet:
    """Return all ranges with changed rows in a model's parents."""
    return IntervalSet.union(shown[parent] for parent in snapshot.parents if parent in shown)


EVERYTHING = IntervalSet((Interval(EPOCH, FAR),))


class Widening(str, Enum):
    """Reasons for computing a model again for more than the changed intervals."""

    FROM_BEGINNING = "from_beginning"
    IN_ORDER = "in_order"


class AffectedIntervals(NamedTuple):
    """The ranges of a table to fill again after rows of its inputs changed.

    Args:
        changed: Ranges (UTC) where the table's readers see changed rows.
        widened: Reason for filling more than the intervals of the change, if more is filled.
    """

    intervals: IntervalSet
    changed: IntervalSet
    widened: Widening | None = None


NOTHING = AffectedIntervals(IntervalSet(), IntervalSet())


def affected_intervals(
    snapshot: Snapshot, filled: IntervalSet, changed: IntervalSet
) -> AffectedIntervals:
    """Return the filled ranges of a table that a change of its inputs affects.

    Args:
        changed: Ranges (UTC) with changed rows of the table or of its parents.
    """
    # A table that is written as a whole is computed again for its last slot, but its readers see
    # changes only in the changed ranges. A table whose rows build on its earlier rows is affected
    # from the change to its end. A table that does not keep rows by interval can only be computed
    # again from its beginning.
    kind = snapshot.model.kind
    if not changed or not filled or meaning_of(kind).filled_once:
        return NOTHING
    cadence = snapshot.cadence
    if not snapshot.is_incremental:
        return AffectedIntervals(IntervalSet((last_slot(snapshot, filled),)), changed)
    # Avoid aligning years far from the filled ranges.
    hull = IntervalSet((Interval(filled.ranges[0].start, filled.ranges[-1].end),))
    near = changed & cadence.unit.align_outward(hull)
    whole = cadence.unit.align_outward(near) & filled
    if not whole:
        return NOTHING
    if kind.restates_whole:
        return AffectedIntervals(filled, whole, Widening.FROM_BEGINNING if filled - whole else None)
    if snapshot.in_order:
        rest = IntervalSet((Interval(whole.ranges[0].start, FAR),))
        after = rest & filled
        return AffectedIntervals(after, rest, Widening.IN_ORDER if after - whole else None)
    return AffectedIntervals(whole, whole)
