"""Telling what others filled, interval by interval, with the figures that the state kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.events.figures import Log
from vde_dagster.orchestration.events.fill_events import Fill, FillEvents
from vde_dagster.orchestration.events.projection import Filled
from vde_dagster.orchestration.events.provenance import DATA_VERSION, data_version, newest_record
from vde_dagster.orchestration.events.reporter import Reporter
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import PLAN_TAG
from vde_dagster.planning.contents_codec import load_skipped
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.work import FillResult
from vde_dagster.state.instants import from_micros

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.table import PhysicalTable
    from vde_dagster.state.news import News

_CLOCKS_DIFFER = timedelta(days=1)
"""By how much at most the state's clock goes before Dagster's."""


@dataclass
class ToldFills:
    """Tells news of fills, each partition once.

    Args:
        workspace: The project.
        instance: The Dagster instance.
        load: Returns what the code location shows.
        log: Takes what could not be shown.
        reporter: Writes.
    """

    workspace: Workspace
    instance: dg.DagsterInstance
    load: Callable[[], AssetCatalog]
    log: Log
    reporter: Reporter
    _fills: dict[str, FillEvents] = field(default_factory=dict)
    _pointers: dict[tuple[str, str], int | None] = field(default_factory=dict)
    _logs: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = self.workspace.store

    def forget(self) -> None:
        """Read again what was read of the state: there may be more by now."""
        self._logs.clear()

    def tell(self, item: News, plan: Plan) -> None:
        """Tell of a range that counts as filled.

        Args:
            item: The news.
            plan: The plan that filled it.
        """
        subject = item.subject
        table = self.store.tables.load([subject["table"]]).get(subject["table"])
        if table is None:
            return
        interval = Interval(from_micros(subject["start"]), from_micros(subject["end"]))
        place = (plan.id, table.id)
        if place not in self._logs:
            self._logs[place] = self.store.fills.log(table.id, plan.id)
        own = self._logs[place]
        row = next((r for r in own if Interval(r.start_at, r.end_at) == interval), None)
        if row is None:
            return
        result = FillResult(row.row_count, row.iceberg_snapshot_id, row.seconds, row.byte_count)
        skipped = load_skipped(row.skipped)
        newest = max(other.end_at for other in own) == row.end_at
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
            return table.intervals - IntervalSet.of(Interval(r.start_at, r.end_at) for r in later)

        fill = Fill(table, interval, result, holds, newest, skipped=skipped)
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
        log = reversed(self.store.fills.log(table.id))
        order = {row.iceberg_snapshot_id: number for number, row in enumerate(log)}
        latest = order.get(int(versions[0].rpartition("@")[2]))
        own = order.get(filled.iceberg_snapshot_id)
        return latest is not None and own is not None and latest > own
