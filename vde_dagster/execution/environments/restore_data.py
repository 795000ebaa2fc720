"""Data of a rollback: tables moved back to a version's pins, and columns restored.

A rollback of production moves all tables back. Afterwards, the ranges that were filled at that
version count as filled. A rollback of another environment moves only tables that no other
environment contains. Inputs of these tables may keep newer rows. So a range of such a table counts
as filled only if it was filled at that version, is still filled, and was not computed again or
marked as outdated in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import listed
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.maintenance.fsck_files import check_snapshot
from vde_dagster.lakehouse.metadata.commit_summaries import INTERVAL_KEY, is_quiet
from vde_dagster.lakehouse.metadata.table_metadata import history
from vde_dagster.lakehouse.publishing.pins import read_heads
from vde_dagster.lakehouse.publishing.publication import Return
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, HeldState
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.affected_intervals import (
    EVERYTHING,
    RestatedRanges,
    affected_intervals,
)
from vde_dagster.state.environments.pins import Head, Pin, load_filled
from vde_dagster.state.tables.tables import filled_ranges

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.warehouse_state import WarehouseState
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.state.store import StateStore


@dataclass(frozen=True, slots=True)
class RestoredData:
    """Effects of a rollback on the tables of the old version, by table id.

    Args:
        returns: Tables whose rows or filled ranges go back to the old version.
        changed: Ranges (UTC) whose rows change for readers.
        rows: Number of rows in moved tables now and afterwards, if known.
        models: Models that the tables serve.
        held: Tables that stay because other environments use them, each with the Iceberg snapshot
            of the old version, which the environment pins.
        others: Current Iceberg snapshots to pin in each other environment that uses a moved table.
    """

    returns: Mapping[str, Return] = field(default_factory=dict)
    changed: Mapping[str, IntervalSet] = field(default_factory=dict)
    rows: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    models: Mapping[str, tuple[ModelName, ...]] = field(default_factory=dict)
    held: Mapping[str, HeldState] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, HeldState]] = field(default_factory=dict)

    @property
    def names(self) -> set[ModelName]:
        """Models with changed rows or changed filled ranges."""
        return {name for table_id in self.returns for name in self.models[table_id]}

    @property
    def moved(self) -> set[ModelName]:
        """Models whose rows change."""
        moving = (one.table_id for one in self.returns.values() if one.moves)
        return {name for table_id in moving for name in self.models[table_id]}

    def model_rows(self) -> dict[ModelName, tuple[int | None, int | None]]:
        """Return each changed model's row counts before and after the rollback, None if unknown."""
        return {
            name: self.rows[table_id]
            for table_id, one in self.returns.items()
            if one.moves
            for name in self.models[table_id]
        }

    def as_change(self) -> RestatedRanges | None:
        """Return the ranges that the rollback changes, or None if it moves no table."""
        if not any(one.moves for one in self.returns.values()):
            return None
        names: dict[ModelName, IntervalSet] = {}
        for table_id, ranges in self.changed.items():
            for name in self.models[table_id]:
                names[name] = names.get(name, IntervalSet()) | ranges
        return RestatedRanges(
            self.changed, {}, {name: ranges for name, ranges in names.items() if ranges}
        )


def find_restored_data(handles: Handles, current: Environment, old: Environment) -> RestoredData:
    """Determine which tables a rollback moves to earlier Iceberg snapshots, without moving them."""
    return _RestoreFinder(handles, current, old).all()


class _RestoreFinder:
    def __init__(self, handles: Handles, current: Environment, old: Environment) -> None:
        self.handles, self.store, self.old = handles, handles.store, old
        self.current = current
        self.models: dict[str, list[ModelName]] = {}
        for name, entry in old.entries.items():
            if entry.table_id is not None and entry.held is None:
                self.models.setdefault(entry.table_id, []).append(name)
        self.pins = self._pins()
        with self.store.database.reading() as conn:
            self.places = self.store.pins.places(conn, self.pins)
            known = self.store.pins.heads(conn, self.pins)
            refs = [ref for ref, _ in self.places.values()]
            pointers = handles.lakehouse.catalog.pointers(refs, conn)
            self.filled = filled_ranges(conn, self.pins)
        self.heads = read_heads(handles.lakehouse, self.places, pointers, known)
        gone = self.pins.keys() - self.heads.keys()
        for table_id in gone:
            ref, _ = self.places[table_id]
            if ref in pointers:  # its file is lost, which this reports
                read_metadata(handles.lakehouse.files, pointers[ref].location, str(ref))
        if gone:
            raise self._cannot_restore(gone, "the catalog no longer has tables for {models}")

    def all(self) -> RestoredData:
        production = self.old.name == PRODUCTION
        moving = {one for one in self.pins if self._has_moved(one)}
        metadata = self.handles.lakehouse.files.each(self._read_metadata, sorted(moving))
        lines = {one: self._compare_commits(one, found) for one, found in metadata}
        shown = self.store.shown.other_environments(self.old.name, moving) if moving else {}
        held = {} if production else {one: self.pins[one].state_to_hold for one in shown}
        own = {one: line for one, line in lines.items() if one not in held}
        if production:
            returns = {
                one: self._define_return(
                    one, self._was_filled(one), lines.get(one, _NO_DIFFERENCE), exactly=True
                )
                for one in self.pins
                if self._differs(one)
            }
        else:
            returns = self._restored_tables(own)
        others: dict[str, dict[str, HeldState]] = {}
        for table_id, names in shown.items() if production else ():
            head = self.heads[table_id]
            for name in names:
                held_there = HeldState(head.snapshot_id, head.schema_id, head.rows)
                others.setdefault(name, {})[table_id] = held_there
        unmoved = dict.fromkeys(self.pins.keys() - held.keys(), IntervalSet())
        return RestoredData(
            returns,
            {**unmoved, **{one: line.ranges for one, line in own.items()}},
            {one: (self.heads[one].rows, self.pins[one].rows) for one in moving},
            {one: tuple(sorted(names)) for one, names in self.models.items()},
            held,
            others,
        )

    def _pins(self) -> dict[str, Pin]:
        if self.models and self.store.versions.is_before_end(self.old.name, self.old.version):
            raise self._cannot_restore(
                (), "the environment was dropped, and its data is being deleted"
            )
        pins = self.store.pins.at(self.old.name, self.old.version)
        unknown = {one for one in self.models if one not in pins or pins[one].filled is None}
        if unknown:
            raise self._cannot_restore(
                unknown, "the data of {models} at that time was not recorded"
            )
        return {one: pins[one] for one in self.models}

    def _has_moved(self, table_id: str) -> bool:
        return self.heads[table_id].snapshot_id != self.pins[table_id].snapshot_id

    def _was_filled(self, table_id: str) -> IntervalSet:
        return load_filled(self.pins[table_id].filled or "")

    def _differs(self, table_id: str) -> bool:
        now = self.filled.get(table_id, IntervalSet())
        return self._has_moved(table_id) or now != self._was_filled(table_id)

    def _define_return(
        self, table_id: str, filled: IntervalSet, lines: _CommitDifference, *, exactly: bool
    ) -> Return:
        ref, branch = self.places[table_id]
        return Return(
            ref,
            table_id,
            self.pins[table_id].snapshot_id,
            filled,
            self.heads[table_id].snapshot_id,
            branch,
            self.old.published_at if exactly else None,
            lines.commits_left,
            lines.commits_found,
        )

    def _restored_tables(self, lines: Mapping[str, _CommitDifference]) -> dict[str, Return]:
        ids = {self.old.entries[self.models[one][0]].snapshot_id for one in lines}
        fillers = self.store.snapshots.load(sorted(ids))
        given_up = self.store.outdated.ranges_by_table(lines)
        found = {}
        for table_id, line in lines.items():
            snapshot = fillers[self.old.entries[self.models[table_id][0]].snapshot_id]
            was, now = self._was_filled(table_id), self.filled.get(table_id, IntervalSet())
            kept = (was & now) - line.left - given_up.get(table_id, IntervalSet())
            filled = was - _recomputed_ranges(snapshot, was, was - kept)
            found[table_id] = self._define_return(table_id, filled, line, exactly=False)
        return found

    def _read_metadata(self, table_id: str) -> tuple[str, dict[str, Any]]:
        head, (ref, _) = self.heads[table_id], self.places[table_id]
        files = self.handles.lakehouse.files
        metadata = read_metadata(files, head.location, str(ref), table_id)
        # The earlier state may have been damaged since it was last read.
        check_snapshot(files, metadata, self.pins[table_id].snapshot_id, str(ref))
        return table_id, metadata

    def _compare_commits(self, table_id: str, metadata: dict[str, Any]) -> _CommitDifference:
        pin, head = self.pins[table_id], self.heads[table_id]
        kept = {int(item["snapshot-id"]) for item in metadata.get("snapshots", [])}
        if pin.snapshot_id is not None and pin.snapshot_id not in kept:
            raise self._cannot_restore(
                [table_id], "the snapshots of {models} at that time were expired"
            )
        return _CommitDifference.between(metadata, pin, head)

    def _cannot_restore(self, table_ids: Collection[str], why: str) -> UsageError:
        names = sorted(str(name) for one in table_ids for name in self.models[one])
        why, old = why.format(models=listed(names, 5)), self.old
        return UsageError(
            f"the data of version {old.version} of '{old.name}' cannot be restored: {why}",
            hint="to restore only its definitions over current data, run: "
            f"vde rollback {old.name} --to {old.version} --definitions-only",
        )


@dataclass(frozen=True, slots=True)
class _CommitDifference:
    left: IntervalSet  # Ranges (UTC) that only the table before a rollback has.
    found: IntervalSet  # Ranges (UTC) that only the table after it has.
    commits_left: frozenset[int]
    commits_found: frozenset[int]

    @property
    def ranges(self) -> IntervalSet:
        return self.left | self.found

    @classmethod
    def between(cls, metadata: dict[str, Any], pin: Pin, head: Head) -> _CommitDifference:
        before = list(history(metadata, pin.snapshot_id))
        after = list(history(metadata, head.snapshot_id))
        then = frozenset(int(one["snapshot-id"]) for one in before)
        now = frozenset(int(one["snapshot-id"]) for one in after)
        both = then & now
        if not both and then and now:
            # They have no kept commit in common: anything may differ.
            return cls(EVERYTHING, EVERYTHING, now, then)
        return cls(
            _written_ranges(after, both), _written_ranges(before, both), now - both, then - both
        )


_NO_DIFFERENCE = _CommitDifference(IntervalSet(), IntervalSet(), frozenset(), frozenset())


def _written_ranges(line: Collection[dict[str, Any]], without: Collection[int]) -> IntervalSet:
    ranges: list[Interval] = []
    for snapshot in line:
        summary = snapshot.get("summary", {})
        if snapshot["snapshot-id"] in without or is_quiet(summary):
            continue
        if INTERVAL_KEY not in summary:
            return EVERYTHING
        ranges.append(Interval.parse(summary[INTERVAL_KEY]))
    return IntervalSet.of(ranges)


def _recomputed_ranges(snapshot: Snapshot, filled: IntervalSet, lost: IntervalSet) -> IntervalSet:
    kind = snapshot.model.kind
    if kind.disable_restatement or meaning_of(kind).filled_once:
        return IntervalSet()
    if snapshot.is_incremental and kind.restates_whole and lost:
        return filled
    return affected_intervals(snapshot, filled, lost).intervals


@dataclass(frozen=True, slots=True)
class RevertedModel:
    """A model that a rollback restores, over a table that several definitions filled.

    Args:
        again: Columns that are visible again. They are NULL in the rows filled since.
        gone: Columns that become invisible. The table keeps them.
        filled: Ranges that other definitions filled since (UTC). Their rows stay.
    """

    name: ModelName
    again: tuple[str, ...]
    gone: tuple[str, ...]
    filled: IntervalSet

    def sentences(self) -> tuple[str, ...]:
        """Describe the effects of the rollback on the model's view, in sentences."""
        out = []
        if self.gone:
            out.append(f"no longer shows {', '.join(self.gone)}")
        if self.again:
            out.append(f"shows {', '.join(self.again)} again")
        if self.filled:
            nulls = f", NULL in {', '.join(self.again)}" if self.again else ""
            since = f"({self.filled.text}){nulls}"
            out.append(f"keeps the rows that other definitions filled since {since}")
        return tuple(out) or ("keeps its table, which nothing filled since",)

    def to_json(self) -> dict[str, Any]:
        return {
            "columns_again": list(self.again),
            "columns_gone": list(self.gone),
            "filled_since": self.filled.to_json(),
        }


def reverted(
    store: StateStore,
    current: Environment,
    old: Environment,
    state: WarehouseState,
    among: Iterable[ModelName],
    moved: Collection[ModelName] = (),
) -> tuple[RevertedModel, ...]:
    """Return the models of an old version with tables that later definitions changed in place.

    Args:
        state: Snapshots and tables of the old version.
        moved: Models whose tables move back, which removes the ranges that were filled later.
    """
    found = []
    for name in sorted(among):
        before, now = old.entries[name], current.entries.get(name)
        if now is None or before.table_id is None or now.table_id != before.table_id:
            continue
        if not state.tables[before.table_id].mixed:
            continue
        was = state.snapshots[before.snapshot_id]
        shown = store.snapshots.load([now.snapshot_id])[now.snapshot_id]
        had, has = {c.version for c in was.columns}, {c.version for c in shown.columns}
        again = tuple(column.name for column in was.columns if column.version not in has)
        gone = tuple(column.name for column in shown.columns if column.version not in had)
        kept = name not in moved
        filled = _filled_since(store, old, name, before.table_id) if kept else IntervalSet()
        found.append(RevertedModel(name, again, gone, filled))
    return tuple(found)


def _filled_since(
    store: StateStore, old: Environment, name: ModelName, table_id: str
) -> IntervalSet:
    changed = store.versions.first_change(old.name, old.version, name)
    if changed is None:
        return IntervalSet()
    at, plan_id = changed
    return IntervalSet.of(
        fill.interval
        for fill in store.fills.log(table_id)
        if fill.recorded_at >= at or fill.plan_id == plan_id
    )
