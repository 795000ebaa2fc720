"""Fills as events: one per partition that a fill wrote or completed, with the fill's figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from vde_dagster.orchestration.dagster_private import (
    DATA_VERSION_TAG,
    get_tags_from_multi_partition_key,
)
from vde_dagster.orchestration.events.provenance import (
    ProjectionContext,
    data_version,
    provenance_tags,
)
from vde_dagster.orchestration.events.records import all_materializations
from vde_dagster.orchestration.models.catalog import partition_keys, time_unit, touched_keys
from vde_dagster.orchestration.models.live import Combination
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, without_nones
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.engine_tasks import notebook_path
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_refresh, describe_skip
from vde_dagster.state.fills.fills import FillRecord


@dataclass(frozen=True, slots=True)
class FilledPartition:
    """A filled partition of a model's version, and the latest fill of the partition.

    Args:
        fill: Latest fill of the partition; if unknown, a record without a plan and a commit.
        rows: Number of rows, if known for this partition alone.
        bytes: Bytes of the partition's files; None if unknown, or if one of the files also has rows
            of another partition.
    """

    partition: str
    interval: Interval
    fill: FillRecord
    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model's version with its table, and the environments that show it."""

    snapshot: Snapshot
    table: PhysicalTable
    combination: Combination
    environments: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.table.version


@dataclass
class HeldRanges:
    """Computes the time ranges with data in a table after each fill of a plan.

    Args:
        read_log: Returns the plan's fills, newest first.
    """

    table: PhysicalTable
    read_log: Callable[[], Sequence[FillRecord]]
    _later: list[Interval] | None = None
    _held: IntervalSet = field(default_factory=IntervalSet)

    def after(self, fill: FillRecord) -> IntervalSet:
        """Return the time ranges with data in the table after a fill. Pass fills oldest first."""
        if self._later is None:
            self._later = [record.interval for record in self.read_log()]
            self._held = self.table.intervals - IntervalSet.of(self._later)
        while self._later and not self._held.contains(fill.interval):
            self._held |= IntervalSet((self._later.pop(),))
        return self._held & self.table.intervals


def fill_events(
    context: ProjectionContext,
    served: ServedModel,
    fill: FillRecord,
    inputs: Mapping[str, str],
    *,
    holds: Callable[[], IntervalSet],
    newest: bool,
    only: Collection[str] | None = None,
    **facts: Any,
) -> Iterator[dg.AssetMaterialization]:
    """Yield the events of the partitions that a fill wrote or completed.

    Args:
        holds: Returns the intervals that the table holds after the fill.
        newest: Whether this is the table's last fill in the plan. If so, the event of the newest
            partition shows rows of that partition.
        only: Partitions to yield; all by default.
        facts: Additional metadata, by name without the prefix `vde/`.
    """
    from vde_dagster.lakehouse.commit_rows import has_bounds

    snapshot, interval, skipped = served.snapshot, fill.interval, fill.facts.skipped
    refresh = fill.facts.refresh
    found, column = _filled_by(context, served, fill, holds), _time_column(served)
    # Without a filter by time, the rows could belong to another partition.
    is_readable = len(found) == 1 or column is None or has_bounds(column.type)
    shared = without_nones(
        {
            "vde/table": str(served.table.ref),
            "vde/environments": ", ".join(served.environments),
            "vde/fill_intervals": snapshot.cadence.unit.count(interval)
            if snapshot.is_incremental
            else 1,
            **{f"vde/{name}": value for name, value in facts.items()},
            "vde/plan": fill.plan_id or None,
            "vde/skipped": skipped and describe_skip(skipped),
            "vde/saved_seconds": skipped and skipped.seconds,
            "vde/saved_bytes": skipped and skipped.bytes,
            "vde/refresh": refresh and describe_refresh(refresh, done=True),
            "vde/unread_bytes": (refresh and refresh.unread_bytes(fill.bytes_read)) or None,
            "vde/unspent_seconds": (refresh and refresh.saved_seconds(fill.seconds)) or None,
        }
    )
    tags = {ENVIRONMENT_TAG: served.environments[0]}
    if fill.plan_id:
        tags[PLAN_TAG] = fill.plan_id
    for filled in found:
        if only is not None and filled.partition not in only:
            continue
        own: dict[str, Any] = {}
        # A sum over the partitions has to contain the figures of the whole fill only once.
        if filled == found[-1]:
            several = len(found) > 1
            own = without_nones(
                {
                    "vde/fill_seconds": fill.seconds,
                    "vde/fill_task_seconds": fill.task_seconds,
                    "vde/fill_bytes_read": fill.bytes_read,
                    "vde/fill_rows": fill.rows if several else None,
                    "vde/fill_bytes": fill.bytes if several else None,
                }
            )
            if newest and is_readable:
                commit, part = fill.iceberg_snapshot_id, filled.interval
                own |= preview(context.workspace, context.log, snapshot, served.table, commit, part)
            own |= _page(context, fill)
        yield filled_event(context, served, filled, inputs, metadata={**shared, **own}, tags=tags)


def _page(context: ProjectionContext, fill: FillRecord) -> dict[str, Any]:
    page = context.workspace.root / notebook_path(fill.plan_id, fill.table_id, fill.interval)
    return {"vde/page": dg.MetadataValue.notebook(str(page))} if page.is_file() else {}


def filled_event(
    context: ProjectionContext,
    served: ServedModel,
    filled: FilledPartition,
    inputs: Mapping[str, str],
    *,
    metadata: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.AssetMaterialization:
    commit = filled.fill.iceberg_snapshot_id
    scope = "partition_" if served.snapshot.is_incremental else ""
    facts = {
        "vde/version": served.key,
        "vde/interval": str(filled.interval),
        "vde/iceberg_snapshot_id": None if commit is None else str(commit),
        f"dagster/{scope}row_count": filled.rows,
        "vde/bytes": filled.bytes,
    }
    version, dimensions = data_version(served.key, commit), dict[str, str]()
    if isinstance(filled.partition, dg.MultiPartitionKey):
        # Dagster finds the dimensions of a partition by these tags.
        dimensions |= get_tags_from_multi_partition_key(filled.partition)
    return dg.AssetMaterialization(
        asset_key=context.catalog.key(served.snapshot.name),
        partition=filled.partition,
        metadata={**without_nones(facts), **(metadata or {})},
        tags={**provenance_tags(served.key, version, inputs), **dimensions, **(tags or {})},
    )


def recorded_events(
    context: ProjectionContext,
    served: ServedModel,
    filled: Sequence[FilledPartition],
    inputs: Mapping[str, str],
    *,
    newest: str | None = None,
    **facts: Any,
) -> Iterator[dg.AssetMaterialization]:
    """Yield the materialization events of filled partitions, with the figures of the fills.

    Args:
        newest: Partition whose event shows rows.
        facts: Additional metadata, by name without the prefix `vde/`.
    """
    by_fill: dict[tuple[Interval, datetime], tuple[FillRecord, set[str]]] = {}
    for item in filled:
        key = item.fill.interval, item.fill.recorded_at
        by_fill.setdefault(key, (item.fill, set()))[1].add(item.partition)
    for fill, only in by_fill.values():
        yield from fill_events(
            context,
            served,
            fill,
            inputs,
            holds=lambda: served.table.intervals,
            newest=newest in only,
            only=only,
            **facts,
        )


def filled_partitions(context: ProjectionContext, served: ServedModel) -> list[FilledPartition]:
    """Return the filled partitions of a table, each with its latest fill."""
    table, found = served.table, dict[str, FilledPartition]()
    for fill in context.store.fills.log(table.id):
        for filled in _touched(context, served, fill, lambda: table.intervals):
            found.setdefault(filled.partition, filled)
    partitions = context.catalog.partitions_of(served.snapshot)
    return [
        found.get(partition)
        or FilledPartition(partition, interval, FillRecord(table.id, interval, ""))
        for partition, interval in partition_keys(partitions, served.key, table.intervals)
    ]


def _touched(
    context: ProjectionContext,
    served: ServedModel,
    fill: FillRecord,
    holds: Callable[[], IntervalSet],
) -> list[FilledPartition]:
    partitions = context.catalog.partitions_of(served.snapshot)
    found = [
        FilledPartition(partition, covered, fill)
        for partition, covered in touched_keys(partitions, served.key, fill.interval, holds)
    ]
    # The figures of the fill belong to its only partition.
    if len(found) == 1 and (found[0].interval == fill.interval or time_unit(partitions) is None):
        return [replace(found[0], rows=fill.rows, bytes=fill.bytes)]
    return found


def _filled_by(
    context: ProjectionContext,
    served: ServedModel,
    fill: FillRecord,
    holds: Callable[[], IntervalSet],
) -> list[FilledPartition]:
    commit, interval, snapshot = fill.iceberg_snapshot_id, fill.interval, served.snapshot
    found = _touched(context, served, fill, holds)
    column = _time_column(served)
    if not found or found[0].rows is not None or commit is None or column is None:
        return found
    from vde_dagster.lakehouse.commit_rows import interval_figures

    # A partition that several fills wrote has only a part of its rows in this commit.
    own = [
        f for f in found if interval.start <= f.interval.start and f.interval.end <= interval.end
    ]
    ranges = [filled.interval for filled in own]
    lakehouse = context.workspace.lakehouse
    try:
        # The commit's files show the rows and bytes of each partition. Bytes are unknown for
        # partitions that share a file.
        figures = interval_figures(lakehouse, served.table.ref, commit, column, ranges)
    except Exception as error:
        # Missing figures must never fail the fill.
        context.log.warning(
            f"{snapshot.name}: rows were not counted: {type(error).__name__}: {error}"
        )
        return found
    counted = {
        filled.partition: replace(filled, rows=known.rows, bytes=known.bytes)
        for filled, known in zip(own, figures or (), strict=figures is not None)
    }
    return [counted.get(filled.partition, filled) for filled in found]


def _time_column(served: ServedModel) -> TimeColumn | None:
    apart = served.snapshot.model.kind.interval_column
    if apart is None:
        return None
    named = {name.lower(): physical for name, physical in column_map(served.snapshot, served.table)}
    physical = named[apart.name.lower()]
    type_ = next(column.type for column in served.table.columns if column.name == physical)
    if type_ is None:
        return None
    return TimeColumn(physical, type_, apart.format, served.snapshot.model.allow_partials)


_CLOCKS_DIFFER = timedelta(days=1)
"""Maximum time by which the state's clock may be ahead of Dagster's clock."""


def missing_fill_events(
    context: ProjectionContext, fill: FillRecord, events: Sequence[dg.AssetMaterialization]
) -> Iterator[dg.AssetMaterialization]:
    since = (fill.recorded_at - _CLOCKS_DIFFER).timestamp()
    known: dict[str, list[Mapping[str, str]]] = {}
    for start in range(0, len(events), 100):
        part = events[start : start + 100]
        wanted = dg.AssetRecordsFilter(
            part[0].asset_key,
            asset_partitions=[str(event.partition) for event in part],
            after_timestamp=since,
        )
        for record in all_materializations(context.instance, wanted):
            if record.partition_key is not None:
                tags = record.event_log_entry.tags or {}
                known.setdefault(record.partition_key, []).append(tags)
    order: dict[str, int] = {}
    if known:
        log = context.store.fills.log(fill.table_id)
        order = {str(row.iceberg_snapshot_id): age for age, row in reversed([*enumerate(log)])}
    for event in events:
        own, shown = event.tags or {}, known.get(str(event.partition), [])
        same = [tags for tags in shown if tags.get(DATA_VERSION_TAG) == own[DATA_VERSION_TAG]]
        if fill.facts.skipped is not None:  # a skipped fill keeps the data version
            same = [tags for tags in same if tags.get(PLAN_TAG) == fill.plan_id]
        if same:
            continue
        latest = next((tags[DATA_VERSION_TAG] for tags_ in shown if DATA_VERSION_TAG in tags), "")
        age, age_of_latest = (
            order.get(version.rpartition("@")[2]) for version in (own[DATA_VERSION_TAG], latest)
        )
        if age is None or age_of_latest is None or age_of_latest >= age:
            yield event
