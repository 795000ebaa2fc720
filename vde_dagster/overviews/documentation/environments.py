"""Environments, their publications and their differences, as values of a document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import permutations
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.execution.environments.compare import (
    Difference,
    VersionChange,
    changes_until,
    compare_data,
)
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.overviews.documentation import values
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    production_first,
)
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.compare_snapshots import ChangeReasons, classify_change
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts, missing_intervals
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_reason, describe_refresh
from vde_dagster.state.environments.pins import Pin, load_filled

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

MOST_ENVIRONMENTS = 12
"""Maximum number of environments that are compared in pairs.

If there are more, each environment is compared only with production.
"""

Pair = tuple[Entry | None, Entry | None]


def ranges(intervals: IntervalSet) -> tuple[values.Range, ...]:
    return tuple(values.Range(one.start, one.end) for one in intervals)


@dataclass(eq=False)
class EnvironmentContents:
    """Reads environments and their tables for a document, in a few queries.

    Args:
        shown: Current or earlier versions, one per environment.
        as_of: Instant (UTC). A range that is due then and not filled is missing.
        is_past: Whether tables are described as they were at each version, not as they are now.
        known: Snapshots already read, by id.
        publications: Maximum number of versions per history.
        compared: Versions that appear only in comparisons.
    """

    workspace: Workspace
    shown: Sequence[Environment]
    as_of: datetime
    is_past: bool
    known: Mapping[str, Snapshot]
    publications: int
    compared: Sequence[Environment] = ()
    snapshots: dict[str, Snapshot] = field(init=False)
    tables: dict[str, PhysicalTable] = field(init=False)

    def __post_init__(self) -> None:
        self.shown = sorted(self.shown, key=lambda one: production_first(one.name))
        store = self.workspace.store
        self._histories = {one.name: self._history(one) for one in self.shown}
        self._changed = {
            one.name: store.versions.entry_changes(
                one.name, history[-1].version.version, history[0].version.version
            )
            for one in self.shown
            if (history := self._histories[one.name])
        }
        every = (*self.shown, *self.compared)
        ids = {entry.snapshot_id for one in every for entry in one.entries.values()}
        for name, by_version in self._changed.items():
            told = {change.version.version: change for change in self._histories[name]}
            for version, changed in by_version.items():
                if version in told and not self._is_first(name, version):
                    pairs = changed.values()
                    ids |= {one.snapshot_id for pair in pairs for one in pair if one is not None}
        rest = store.snapshots.load(sorted(ids - self.known.keys()), unreadable=set())
        self.snapshots = {**self.known, **rest}
        self.tables = store.tables.load(sorted({id_ for one in self.shown for id_ in one.tables}))
        self._pins = {one.name: store.pins.at(one.name, one.version) for one in self.shown}

    def _history(self, one: Environment) -> list[VersionChange]:
        workspace = self.workspace
        until = one.version if self.is_past else None
        return changes_until(
            workspace.store, workspace.lakehouse, one.name, until, self.publications
        )

    def _is_first(self, name: str, version: int) -> bool:
        pairs = self._changed[name].get(version, {}).values()
        return version == 1 and not any(old for _, old in pairs)

    def documented(self) -> Iterator[values.DocumentedEnvironment]:
        production = next((one for one in self.shown if one.name == PRODUCTION), None)
        since = self.workspace.store.versions.entry_times
        for one in self.shown:
            snapshots = sort_parents_first(self._snapshots(one))
            window = Window(self.as_of, default_start=self.workspace.settings.start_time)
            starts = infer_starts(snapshots, window)
            begun = since(one.name, one.version)
            pins = self._pins[one.name]

            def cell(
                entry: Entry,
                one: Environment = one,
                window: Window = window,
                starts: Mapping[ModelName, datetime] = starts,
                begun: Mapping[ModelName, datetime] = begun,
                pins: Mapping[str, Pin] = pins,
            ) -> values.ShownModel:
                snapshot = self.snapshots[entry.snapshot_id]
                kind = snapshot.model.kind
                table = self.tables.get(entry.table_id or "")
                pin = pins.get(entry.table_id or "")
                filled = self._filled(entry, table, pin)
                missing = IntervalSet()
                if table is not None and entry.held is None:
                    missing = missing_intervals(snapshot, filled, window, starts, ALWAYS)
                change, category = self._against(entry, production)
                return values.ShownModel(
                    str(entry.name),
                    entry.snapshot_id,
                    snapshot.table_version,
                    str(one.views.ref(entry.name)) if kind.is_shown else None,
                    entry.table_id,
                    _table_origin(one, entry, snapshot, production),
                    change,
                    category,
                    ranges(filled),
                    ranges(missing),
                    pin.rows if pin is not None else None,
                    pin.snapshot_id if pin is not None else None,
                    begun.get(entry.name),
                )

            entries = (one.entries[name] for name in sorted(snapshots))
            yield values.DocumentedEnvironment(
                one.name,
                one.version,
                one.published_at,
                one.published_by,
                one.plan_id,
                one.note,
                one.frozen,
                one.expires_at,
                tuple(cell(entry) for entry in entries),
            )

    def _snapshots(self, one: Environment) -> dict[ModelName, Snapshot]:
        entries = one.entries.items()
        return {
            name: self.snapshots[entry.snapshot_id]
            for name, entry in entries
            if entry.snapshot_id in self.snapshots
        }

    def _filled(self, entry: Entry, table: PhysicalTable | None, pin: Pin | None) -> IntervalSet:
        if self.is_past or entry.held is not None:
            known = pin.filled if pin is not None else None
            return load_filled(known) if known is not None else IntervalSet()
        if table is None:
            return IntervalSet()
        unit = self.snapshots[entry.snapshot_id].cadence.unit
        return table.with_ranges_for_unit(unit).available

    def _against(
        self, entry: Entry, production: Environment | None
    ) -> tuple[str | None, str | None]:
        if production is None:
            return None, None
        old = production.entries.get(entry.name)
        before = self.snapshots.get(old.snapshot_id) if old is not None else None
        if old is not None and (before is None or old.snapshot_id == entry.snapshot_id):
            return None, None
        change, category = classify_change(self.snapshots[entry.snapshot_id], before)
        return change.value, category.value if category is not None else None

    def recent_publications(self) -> Iterator[values.Publication]:
        for one in self.shown:
            for change in self._histories[one.name]:
                version = change.version
                pairs = self._changed[one.name].get(version.version, {})
                told = {} if self._is_first(one.name, version.version) else pairs
                yield values.Publication(
                    one.name,
                    version.version,
                    change.what,
                    version.published_at,
                    version.published_by,
                    version.plan_id,
                    version.note,
                    version.dropped,
                    version.added,
                    version.changed,
                    version.removed,
                    tuple(self._differences(told)),
                    tuple(_rows_changed(change)),
                )

    def differences(self) -> Iterator[values.EnvironmentDifference]:
        # Pairs without differences are left out, unless one side is a version in `compared`.
        named = [(f"{one.name}@{one.version}" if self.is_past else one.name, one)
                 for one in self.shown]  # fmt: skip
        by_version = {f"{one.name}@{one.version}": one for one in self.compared}
        few = len(named) <= MOST_ENVIRONMENTS
        for (name, new), (other, old) in permutations({**dict(named), **by_version}.items(), 2):
            is_asked = name in by_version or other in by_version
            if not (few or is_asked or PRODUCTION in (name, other)):
                continue
            names = sorted({*new.entries, *old.entries})
            pairs = {name: (new.entries.get(name), old.entries.get(name)) for name in names}
            found = tuple(self._differences(pairs))
            tables = tuple(
                str(name)
                for name, (one, other) in pairs.items()
                if one is not None
                and other is not None
                and one.snapshot_id == other.snapshot_id
                and (one.table_id, one.held) != (other.table_id, other.held)
            )
            data = tuple(self._rows_differ(new, old))
            if found or tables or is_asked:
                yield values.EnvironmentDifference(name, other, found, tables, data)

    def _rows_differ(self, new: Environment, old: Environment) -> Iterator[values.RowsDiffer]:
        # If both sides show the current state of one table, its rows are equal.
        live = {id(one) for one in self.shown if not self.is_past}
        are_live = {id(new), id(old)} <= live
        for one in compare_data(self.workspace, new, old):
            held = (new.entries[one.name].held, old.entries[one.name].held)
            if not (are_live and one.same_table and held == (None, None)):
                yield values.RowsDiffer(
                    str(one.name), one.before, one.after, one.added, one.removed
                )

    def _differences(
        self, pairs: Mapping[ModelName, Pair]
    ) -> Iterator[values.DefinitionDifference]:
        ids = {
            name: (new.snapshot_id if new else None, old.snapshot_id if old else None)
            for name, (new, old) in pairs.items()
        }
        ids = {name: pair for name, pair in ids.items() if pair[0] != pair[1]}
        found = {
            name: (self.snapshots.get(new or ""), self.snapshots.get(old or ""))
            for name, (new, old) in ids.items()
        }
        both = {
            name: (new, old)
            for name, (new, old) in found.items()
            if new is not None and old is not None
        }
        changes = ChangeReasons(both)
        reasons = {
            name: changes.explain(*both[name])
            for name in sort_parents_first({name: new for name, (new, _) in both.items()})
        }
        for name in sorted(ids):
            new, old = found[name]
            if (new is None) is not (ids[name][0] is None) or (old is None) is not (
                ids[name][1] is None
            ):
                # One snapshot was deleted: the reasons are unknown.
                yield values.DefinitionDifference(
                    str(name), "modified", None, ids[name][1], ids[name][0], (), (), (), ()
                )
                continue
            change, category = classify_change(new, old)
            columns = Difference(name, change, category, new, old).columns if name in both else {}
            yield values.DefinitionDifference(
                str(name),
                change.value,
                category.value if category is not None else None,
                ids[name][1],
                ids[name][0],
                tuple(columns.get("added", ())),
                tuple(columns.get("removed", ())),
                tuple(columns.get("changed", ())),
                tuple(map(describe_reason, reasons.get(name, ()))),
            )

    def published_types(self, snapshot: Snapshot) -> dict[str, str]:
        """Return the known Spark SQL types of published columns, by the columns' versions."""
        # A type comes from the first environment that has a column of this version. A column has no
        # type if no environment has the column, or if the table cannot be read.
        found: dict[str, str] = {}
        for one in self.shown:
            entry = one.entries.get(snapshot.name)
            shown = self.snapshots.get(entry.snapshot_id) if entry is not None else None
            if entry is None or shown is None:
                continue
            new = [column for column in shown.columns if column.version not in found]
            types = self._types(one, entry) if new else {}
            for column in new:
                if column.name.lower() in types:
                    found.setdefault(column.version, types[column.name.lower()])
        return found

    def _types(self, one: Environment, entry: Entry) -> dict[str, str]:
        workspace, table = self.workspace, self.tables.get(entry.table_id or "")
        if table is None:
            stored = workspace.store.snapshots.view_types([entry.snapshot_id])
            return {name.lower(): type_ for name, type_ in stored.get(entry.snapshot_id, ())}
        pin = self._pins[one.name].get(table.id)
        try:
            metadata = workspace.lakehouse.table_metadata(table.ref)
        except VdeError:  # `vde fsck` reports it.
            return {}
        columns = columns_of(metadata, pin.schema_id if pin is not None else None)
        return {name.lower(): type_ for name, type_ in columns.items()}

    def failed_plans(self) -> Iterator[values.FailedPlan]:
        for one in () if self.is_past else self.shown:
            for record in self.workspace.store.plans.recent(one.name):
                at = record.finished_at or record.created_at
                if record.status == "failed" and at > one.published_at:
                    yield values.FailedPlan(one.name, record.id, at, record.message)

    def documented_tables(self, most_fills: int) -> list[values.DocumentedTable]:
        until = self.as_of if self.is_past else None
        fills = self.workspace.store.fills.recent(self.tables, most_fills, until)
        audits = self.workspace.store.audits.newest(self.tables, until)
        made = [
            values.DocumentedTable(
                table.id,
                str(table.ref),
                table.branch,
                table.snapshot_id,
                ranges(self._filled_by_then(table)),
                tuple(
                    values.FillCost(
                        values.Range(fill.interval.start, fill.interval.end),
                        fill.plan_id,
                        fill.recorded_at,
                        fill.rows,
                        fill.bytes,
                        fill.seconds,
                        fill.facts.skipped is not None,
                        fill.iceberg_snapshot_id,
                        fill.task_seconds,
                        fill.bytes_read,
                        describe_refresh(how, done=True) if how is not None else None,
                    )
                    for fill in fills.get(table.id, ())
                    for how in (fill.facts.refresh,)
                ),
                tuple(
                    values.AuditOutcome(
                        str(record.model),
                        record.audit,
                        record.blocking,
                        record.result.failed_rows,
                        values.Range(record.interval.start, record.interval.end),
                        record.plan_id,
                        record.recorded_at,
                    )
                    for record in sorted(
                        audits.get(table.id, ()), key=lambda one: (one.model, one.audit)
                    )
                ),
            )
            for table in self.tables.values()
        ]
        return sorted(made, key=lambda one: (one.name, one.branch or "", one.id))

    def _filled_by_then(self, table: PhysicalTable) -> IntervalSet:
        if not self.is_past:
            return table.intervals
        pins = (self._pins[one.name].get(table.id) for one in self.shown)
        return IntervalSet.union(load_filled(pin.filled) for pin in pins if pin and pin.filled)


def _table_origin(
    environment: Environment, entry: Entry, snapshot: Snapshot, production: Environment | None
) -> values.Whose:
    if snapshot.model.kind.is_external:
        return "external"
    if entry.table_id is None:
        return "view"
    if entry.held is not None:
        return "held"
    shared: Collection[str] = production.tables if production is not None else ()
    is_own = environment.name == PRODUCTION or entry.table_id not in shared
    return "own" if is_own else "shared"


def _rows_changed(change: VersionChange) -> Iterable[values.RowsChanged]:
    for one in change.data:
        what = "back" if one.is_back else "new" if one.is_new else "changed"
        models = tuple(map(str, one.models))
        yield values.RowsChanged(
            models, what, one.rows, one.added, one.removed, ranges(one.intervals)
        )
