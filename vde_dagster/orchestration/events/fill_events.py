"""Events of filled partitions with figures: as it happens, or replayed from the state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.events.projection import (
    DATA_VERSION,
    Combination,
    Filled,
    data_version,
    filled_event,
    newest_record,
)
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.models.catalog import AssetCatalog, touched_keys
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.engine_tasks import FillResult
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.rows import from_micros

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.outbox import News
    from vde_dagster.state.fills.fills import FillRecord


@dataclass(frozen=True, slots=True)
class Fill:
    """One fill of a table.

    Args:
        interval: What was filled (UTC).
        holds: Returns what the table holds with this fill, without what its plan fills later.
        newest: Whether its plan filled nothing later: then the newest rows are shown.
        recovered: Whether a process that died had written it.
        skipped: Set where nothing was computed: the result is that of an earlier fill.
    """

    table: PhysicalTable
    interval: Interval
    result: FillResult
    holds: Callable[[], IntervalSet]
    newest: bool = False
    recovered: bool = False
    skipped: Skipped | None = None


@dataclass(frozen=True, slots=True)
class FilledPartition:
    """A partition that a fill filled, of one of the models that its table serves.

    Args:
        key: The version's partition key.
        facts: What its event says beside its own figures.
    """

    snapshot: Snapshot
    key: str
    filled: Filled
    facts: Mapping[str, Any]


@dataclass
class FillEvents:
    """Makes events of one plan's fills.

    Args:
        catalog: The code location's models.
        log: Takes what could not be shown.
    """

    catalog: AssetCatalog
    workspace: Workspace
    instance: dg.DagsterInstance
    log: Log
    plan: Plan
    combination: Combination = field(init=False)

    def __post_init__(self) -> None:
        tables = {model.table.id: model.table for model in self.plan.models if model.table}
        self.combination = Combination(self.plan.entries, self.plan.snapshots, tables)

    def partitions(self, fill: Fill) -> Iterator[FilledPartition]:
        """Yield what a fill filled, of every model of the plan that its table serves."""
        table = fill.table
        for planned in self.plan.models:
            if planned.table is None or planned.snapshot_id is None:
                continue
            # A plan that found its table made by somebody else fills that one.
            if planned.table.version != table.version:
                continue
            snapshot = self.plan.snapshots[planned.snapshot_id]
            partitions = self.catalog.partitions_of(snapshot)
            found = filled_by(
                self.workspace,
                self.log,
                snapshot,
                table,
                partitions,
                fill.interval,
                fill.result,
                fill.holds,
            )
            for filled in found:
                facts = self._facts(fill, snapshot, found, filled)
                rows: dict[str, Any] = {}
                if fill.newest and filled == found[-1]:
                    commit, ranges = filled.iceberg_snapshot_id, (filled.interval, fill.interval)
                    rows = preview(self.workspace, self.log, snapshot, table, commit, ranges)
                yield FilledPartition(snapshot, table.version, filled, {**facts, **rows})

    def event(self, found: FilledPartition, pointer: int | None) -> dg.AssetMaterialization:
        """Return the event of a filled partition.

        Args:
            pointer: The event log's newest record before the model ran.
        """
        inputs = self.combination.inputs(self.instance, self.catalog, found.snapshot, pointer)
        return filled_event(
            self.catalog,
            found.snapshot,
            found.key,
            found.filled,
            inputs,
            metadata=found.facts,
            tags=self.tags,
        )

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every event of the plan."""
        return {PLAN_TAG: self.plan.id, ENVIRONMENT_TAG: self.plan.environment}

    def _facts(
        self, fill: Fill, snapshot: Snapshot, found: list[Filled], filled: Filled
    ) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "vde/plan": self.plan.id,
            "vde/table": str(fill.table.ref),
            "vde/environments": self.plan.environment,
            **fill_facts(snapshot, fill.interval, fill.result, found, filled),
        }
        if fill.recovered:
            facts["vde/recovered"] = True
        if fill.skipped is not None:
            facts |= skipped_facts(fill.skipped)
        return facts


_CLOCKS_DIFFER = timedelta(days=1)
"""By how much at most the state's clock goes before Dagster's."""


@dataclass
class ToldFills:
    """Tells news of fills, each partition once.

    Args:
        load: Returns what the code location shows.
        log: Takes what could not be shown.
    """

    workspace: Workspace
    instance: dg.DagsterInstance
    load: Callable[[], AssetCatalog]
    log: Log
    reporter: Reporter
    _fills: dict[str, FillEvents] = field(default_factory=dict)
    _pointers: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _logs: dict[tuple[str, str], list[FillRecord]] = field(default_factory=dict)
    _orders: dict[str, dict[int | None, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = self.workspace.store

    def forget(self) -> None:
        """Read again what was read of the state: there may be more by now."""
        self._logs.clear()
        self._orders.clear()

    def tell(self, item: News, plan: Plan) -> None:
        """Tell of a range that counts as filled."""
        subject = item.subject
        table = self.store.tables.load([subject["table"]]).get(subject["table"])
        if table is None:
            return
        interval = Interval(from_micros(subject["start"]), from_micros(subject["end"]))
        place = (plan.id, table.id)
        if place not in self._logs:
            self._logs[place] = self.store.fills.log(table.id, plan.id)
        own = self._logs[place]
        row = next((one for one in own if one.interval == interval), None)
        if row is None:
            return
        skipped = row.facts.skipped
        newest = max(other.interval.end for other in own) == interval.end
        catalog = self.load()
        events = self._fills.get(plan.id)
        if events is None:
            events = FillEvents(catalog, self.workspace, self.instance, self.log, plan)
            self._fills[plan.id] = events
        if place not in self._pointers:
            self._pointers[place] = newest_record(self.instance)

        def holds() -> IntervalSet:
            # The log begins with the newest: what those fill later is not there yet.
            later = own[: own.index(row)]
            return table.intervals - IntervalSet.of(one.interval for one in later)

        fill = Fill(table, interval, row.result, holds, newest, skipped=skipped)
        found = list(events.partitions(fill))
        known: dict[tuple[dg.AssetKey, str], list[str]] = {}
        for one in found:
            key, partition = catalog.key(one.snapshot.name), one.filled.partition
            if (key, partition) not in known:
                same = [f for f in found if catalog.key(f.snapshot.name) == key]
                known |= self._known(key, [f.filled.partition for f in same], item)
            versions = known[key, partition]
            mine = data_version(one.key, one.filled.iceberg_snapshot_id)
            told = (
                mine in versions if skipped is None else self._has_event_of(key, partition, plan.id)
            )
            if told or self._is_overtaken(versions, table, one.filled):
                continue
            self.reporter.report(events.event(one, self._pointers[place]))

    def _has_event_of(self, key: dg.AssetKey, partition: str, plan_id: str) -> bool:
        """Say whether a partition's latest event is a plan's; a skip has its data version again."""
        wanted = dg.AssetRecordsFilter(key, asset_partitions=[str(partition)])
        page = self.instance.fetch_materializations(wanted, limit=1)
        return any(
            (one.event_log_entry.tags or {}).get(PLAN_TAG) == plan_id for one in page.records
        )

    def _known(
        self, key: dg.AssetKey, partitions: Sequence[str], item: News
    ) -> dict[tuple[dg.AssetKey, str], list[str]]:
        """Return the data versions that partitions had since a fill, newest first."""
        since = (item.at - _CLOCKS_DIFFER).timestamp()
        found: dict[tuple[dg.AssetKey, str], list[str]] = {(key, one): [] for one in partitions}
        for start in range(0, len(partitions), 100):
            part = [str(one) for one in partitions[start : start + 100]]
            wanted = dg.AssetRecordsFilter(key, asset_partitions=part, after_timestamp=since)
            cursor: str | None = None
            while True:
                page = self.instance.fetch_materializations(wanted, limit=1000, cursor=cursor)
                for record in page.records:
                    version = (record.event_log_entry.tags or {}).get(DATA_VERSION)
                    if version is not None and record.partition_key is not None:
                        found[key, record.partition_key].append(version)
                if not page.has_more:
                    break
                cursor = page.cursor
        return found

    def _is_overtaken(self, versions: Sequence[str], table: PhysicalTable, filled: Filled) -> bool:
        """Say whether a later fill of a partition is known: the latest event stays the latest."""
        if not versions or "@" not in versions[0]:
            return False
        order = self._orders.get(table.id)
        if order is None:
            log = reversed(self.store.fills.log(table.id))
            order = {row.iceberg_snapshot_id: number for number, row in enumerate(log)}
            self._orders[table.id] = order
        latest = order.get(int(versions[0].rpartition("@")[2]))
        own = order.get(filled.iceberg_snapshot_id)
        return latest is not None and own is not None and latest > own


Log = logging.Logger | dg.DagsterLogManager


def filled_by(
    workspace: Workspace,
    log: Log,
    snapshot: Snapshot,
    table: PhysicalTable,
    partitions: dg.PartitionsDefinition | None,
    interval: Interval,
    result: FillResult,
    holds: Callable[[], IntervalSet],
) -> list[Filled]:
    """Return the partitions that a fill filled or completed, with the rows and bytes of each.

    A fill of one partition has its commit's figures. Those of one that filled several are counted
    from the commit's files, without an engine; what cannot be told apart is left out.

    Args:
        log: Takes why nothing could be counted.
        partitions: The model's partitions.
        interval: What was filled (UTC).
        holds: Returns what the table holds with the fill.
    """
    commit = result.iceberg_snapshot_id
    found = [
        Filled(partition, covered, commit, None)
        for partition, covered in touched_keys(partitions, table.version, interval, holds)
    ]
    if len(found) == 1 and (found[0].interval == interval or not snapshot.is_incremental):
        return [replace(found[0], rows=result.rows, bytes=result.bytes)]
    column = _time_column(snapshot, table)
    if not found or commit is None or column is None:
        return found
    from vde_dagster.lakehouse.commit_rows import interval_figures

    # Of a partition that several fills filled, the commit has a part of the rows only.
    own = [
        f for f in found if interval.start <= f.interval.start and f.interval.end <= interval.end
    ]
    ranges = [filled.interval for filled in own]
    try:
        figures = interval_figures(workspace.lakehouse, table.ref, commit, column, ranges)
    except Exception as error:
        # What is shown beside the data must never stop the work on the data.
        log.warning(f"{snapshot.name}: rows were not counted: {type(error).__name__}: {error}")
        return found
    if figures is None:
        return found
    counted = {
        filled.partition: replace(filled, rows=known.rows, bytes=known.bytes)
        for filled, known in zip(own, figures, strict=True)
    }
    return [counted.get(filled.partition, filled) for filled in found]


def fill_facts(
    snapshot: Snapshot,
    interval: Interval,
    result: FillResult,
    found: Sequence[Filled],
    filled: Filled,
) -> dict[str, Any]:
    """Return what is to be said of the fill itself on one partition's event.

    Its own figures stand at its newest partition alone, so that a sum over partitions is true.

    Args:
        interval: What was filled (UTC).
        found: The partitions that it filled, in order of time.
        filled: The one of them that the event is about.
    """
    count = snapshot.cadence.unit.count(interval) if snapshot.is_incremental else 1
    facts: dict[str, Any] = {"vde/fill_intervals": count}
    if filled != found[-1]:
        return facts
    if result.seconds is not None:
        facts["vde/fill_seconds"] = result.seconds
    if len(found) > 1:
        if result.rows is not None:
            facts["vde/fill_rows"] = result.rows
        if result.bytes is not None:
            facts["vde/fill_bytes"] = result.bytes
    return facts


def skipped_facts(skipped: Skipped) -> dict[str, Any]:
    """Return what is to be said of a slot that was skipped: why, and what that saved."""
    facts: dict[str, Any] = {"vde/skipped": skipped.why}
    if skipped.seconds is not None:
        facts["vde/saved_seconds"] = skipped.seconds
    if skipped.bytes is not None:
        facts["vde/saved_bytes"] = skipped.bytes
    return facts


def _time_column(snapshot: Snapshot, table: PhysicalTable) -> TimeColumn | None:
    apart = snapshot.model.kind.interval_column
    if apart is None:
        return None
    named = {name.lower(): physical for name, physical in column_map(snapshot, table)}
    physical = named[apart.name.lower()]
    type_ = next(column.type for column in table.columns if column.name == physical)
    if type_ is None:
        return None
    return TimeColumn(physical, type_, apart.format, snapshot.model.allow_partials)
