"""Catalog of a code location: live models with their asset keys, partitions and checks."""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.models.live import LiveModel, LiveProject, LiveVersion, load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SNAPSHOT, TIME, Names, safe_name
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.project.model import Audit


@dataclass(frozen=True)
class AssetCatalog:
    """The asset keys, specs and partitions of all models in a code location.

    Args:
        specs: The translator's spec of each model.
        partitions: Partitions by model; None for models that are never filled.
        translator: Translator that names the tables that are not models.
        recording: Markdown with the number of filled partitions that Dagster has recorded; empty if
            it has recorded all.
    """

    live: LiveProject
    specs: Mapping[ModelName, dg.AssetSpec]
    partitions: Mapping[ModelName, dg.PartitionsDefinition | None]
    translator: VdeTranslator
    recording: str = ""
    _more: dict[str, dg.PartitionsDefinition | None] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return self.translator.names

    @property
    def time_units(self) -> dict[str, str]:
        """Name of the time unit of each incremental model's partitions, by model name."""
        found = {str(name): time_unit(own) for name, own in self.partitions.items()}
        return {name: unit.name for name, unit in found.items() if unit is not None}

    def key(self, name: ModelName) -> dg.AssetKey:
        """Return the asset key of a model or of a table that models read."""
        spec = self.specs.get(name)
        return spec.key if spec is not None else self.translator.get_asset_key(name)

    def partitions_of(self, snapshot: Snapshot) -> dg.PartitionsDefinition | None:
        known = self.partitions.get(snapshot.name)
        has_times = isinstance(known, dg.MultiPartitionsDefinition)
        if snapshot.name in self.partitions and has_times == snapshot.is_incremental:
            return known
        # The location lacks the model, or has it with another kind.
        if snapshot.id not in self._more:
            version = LiveVersion(snapshot.table_version, snapshot, None, (), {})
            model = LiveModel(snapshot.name, snapshot, (version,))
            now = datetime.now(timezone.utc)
            self._more[snapshot.id] = model_partitions(model, snapshot.model.start_at(now), now)
        return self._more[snapshot.id]


def load_catalog(workspace: Workspace, translator: VdeTranslator) -> AssetCatalog:
    now, names = datetime.now(timezone.utc), Names.from_settings(workspace.settings)
    looks = translator.with_names(names, workspace.settings.docs_url)
    with paused_garbage_collection():
        return build_catalog(load_live(workspace, now), looks, now)


_RECENT: dict[Path, tuple[VdeTranslator, tuple[object, ...], datetime, AssetCatalog]] = {}
_MOST_RECENT = timedelta(minutes=10)


def recent_catalog(workspace: Workspace, translator: VdeTranslator) -> AssetCatalog:
    """Return the catalog of the last call, or load it again if files or state changed."""
    # Every change of the state adds a record to the outbox, except the expiry of an environment.
    store, now = workspace.store, datetime.now(timezone.utc)
    known, expired = store.outbox.number(), sorted(store.environments.expired())
    state = known.store, known.newest, project_hash(workspace.root), *expired
    used, then, at, found = _RECENT.get(workspace.root, (None, (), now, None))
    if found is None or used is not translator or then != state or now - at > _MOST_RECENT:
        found = load_catalog(workspace, translator)
        _RECENT[workspace.root] = translator, state, now, found
    return found


def build_catalog(live: LiveProject, translator: VdeTranslator, now: datetime) -> AssetCatalog:
    translator = translator.with_model_keys(live.models, live.readers)
    specs = {name: translator.get_asset_spec(model) for name, model in live.models.items()}
    partitions = {
        name: model_partitions(model, live.starts.get(name), now)
        for name, model in live.models.items()
    }
    return AssetCatalog(live, specs, partitions, translator)


def check_names(audits: Iterable[Audit]) -> dict[str, str]:
    """Return the name of each audit's check, by the audit's label.

    Names consist of letters, digits and `_`, and are unique in the model.
    """
    names: dict[str, str] = {}
    for audit in audits:
        name = re.sub("_+", "_", safe_name(audit.label)).strip("_")[:80] or "audit"
        if name in names.values() and audit.label not in names:
            name = f"{name}_{digest(audit.label)[:6]}"
        names[audit.label] = name
    return names


MAX_TIMES = 50_000
"""Dagster recommends at most 100,000 partitions per asset: finer cadences use coarser units."""
MAX_LISTED = 100
"""Maximum number of a partition's parents that Dagster checks for staleness."""

_FORMATS = {
    IntervalUnit.FIVE_MINUTE: ("*/5 * * * *", "%Y-%m-%d-%H:%M"),
    IntervalUnit.QUARTER_HOUR: ("*/15 * * * *", "%Y-%m-%d-%H:%M"),
    IntervalUnit.HALF_HOUR: ("*/30 * * * *", "%Y-%m-%d-%H:%M"),
    IntervalUnit.HOUR: ("0 * * * *", "%Y-%m-%d-%H:%M"),
    IntervalUnit.DAY: ("0 0 * * *", "%Y-%m-%d"),
    IntervalUnit.MONTH: ("0 0 1 * *", "%Y-%m"),
    IntervalUnit.YEAR: ("0 0 1 1 *", "%Y"),
}
_UNITS = {cron: unit for unit, (cron, _) in _FORMATS.items()}


def display_unit(snapshot: Snapshot, start: datetime, now: datetime) -> IntervalUnit:
    """Return the model's interval unit, or a coarser unit if `start` to `now` (UTC) is long."""
    units = list(IntervalUnit)
    index = units.index(snapshot.cadence.unit)
    while index < len(units) - 1:
        first = units[index].floor(start)
        if first >= now or units[index].count(Interval(first, now)) <= MAX_TIMES:
            break
        index += 1
    return units[index]


@lru_cache(maxsize=4096)
def time_partitions(
    unit: IntervalUnit, start: datetime, end: datetime | None
) -> dg.TimeWindowPartitionsDefinition:
    """Return the time dimension of partitions, from a start (UTC) to an end or to the present."""
    cron, fmt = _FORMATS[unit]
    return dg.TimeWindowPartitionsDefinition(
        start=unit.floor(start),
        end=unit.ceil(end) if end is not None else None,
        cron_schedule=cron,
        fmt=fmt,
        timezone="UTC",
    )


def model_partitions(
    model: LiveModel, start: datetime | None, now: datetime
) -> dg.PartitionsDefinition | None:
    """Return a model's partitions by version, and also by time if the model has intervals.

    Returns None for a model that is never filled (external, embedded).

    Args:
        start: First instant of the data (UTC); by default, the start of the latest interval.
    """
    shape = model.shape
    if not model.versions or not shape.model.kind.is_shown:
        return None
    versions = dg.StaticPartitionsDefinition([version.key for version in model.listed])
    if not shape.is_incremental:
        return versions
    first = start or shape.cadence.latest_slot(now).start
    if shape.model.start_at(now) is None:
        # Without a start, planning begins with the latest interval; tables keep earlier ones.
        tables = (version.table for version in model.listed)
        held = [table.intervals.ranges[0].start for table in tables if table and table.intervals]
        first = min([first, *held])
    end = shape.model.end_at(now)
    unit = display_unit(shape, first, min(now, end) if end else now)
    times = time_partitions(unit, first, end)
    return dg.MultiPartitionsDefinition({SNAPSHOT: versions, TIME: times})


def partition_keys(
    partitions: dg.PartitionsDefinition | None, version: str, intervals: Iterable[Interval]
) -> Iterator[tuple[str, Interval]]:
    """Yield (partition key, range) of a version's partitions completely within given ranges.

    Without a time dimension, yields one pair with the last range.
    """
    unit = time_unit(partitions)
    if unit is not None:
        # Dagster's own search takes a hundred times as long for the same result.
        form = _FORMATS[unit][1]
        for interval in intervals:
            start, end = unit.ceil(interval.start), unit.floor(interval.end)
            while start < end:
                after = unit.shift(start, 1)
                times = {SNAPSHOT: version, TIME: start.strftime(form)}
                yield dg.MultiPartitionKey(times), Interval(start, after)
                start = after
    elif partitions is not None:
        last = list(intervals)[-1:]
        yield from ((version, interval) for interval in last)


def count_partitions(
    partitions: dg.PartitionsDefinition | None, intervals: Iterable[Interval]
) -> int:
    """Count the partitions that lie completely within ranges, see `partition_keys`."""
    unit = time_unit(partitions)
    if unit is None:
        return int(partitions is not None and any(True for _ in intervals))
    ends = ((unit.ceil(found.start), unit.floor(found.end)) for found in intervals)
    return sum(unit.count(Interval(start, end)) for start, end in ends if start < end)


def time_unit(partitions: dg.PartitionsDefinition | None) -> IntervalUnit | None:
    if not isinstance(partitions, dg.MultiPartitionsDefinition):
        return None
    times = partitions.get_partitions_def_for_dimension(TIME)
    assert isinstance(times, dg.TimeWindowPartitionsDefinition)
    return _UNITS[str(times.cron_schedule)]


def touched_keys(
    partitions: dg.PartitionsDefinition | None,
    version: str,
    interval: Interval,
    holds: Callable[[], IntervalSet],
) -> list[tuple[str, Interval]]:
    """Return (partition key, range) of the partitions that a fill completes.

    `holds` returns the intervals that the table holds after the fill.
    """
    unit = time_unit(partitions)
    ranges: Iterable[Interval] = (interval,)
    if unit is not None:
        around = Interval(unit.floor(interval.start), unit.ceil(interval.end))
        # A fill may write only a part of a coarse partition. The partition counts as filled when
        # the table holds all of it.
        if around != interval:
            ranges = IntervalSet((around,)) & holds()
    return list(partition_keys(partitions, version, ranges))


def requested_ranges(
    partitions: dg.PartitionsDefinition, keys: Iterable[str]
) -> dict[str, IntervalSet]:
    """Return the time ranges of a run's selected partitions, by version."""
    ranges: dict[str, list[Interval]] = {}
    for key in keys:
        if isinstance(partitions, dg.MultiPartitionsDefinition):
            times = partitions.get_partitions_def_for_dimension(TIME)
            assert isinstance(times, dg.TimeWindowPartitionsDefinition)
            parts = partitions.get_partition_key_from_str(key).keys_by_dimension
            window = times.time_window_for_partition_key(parts[TIME])
            interval = Interval(*(end.astimezone(timezone.utc) for end in window))
            ranges.setdefault(parts[SNAPSHOT], []).append(interval)
        else:
            ranges.setdefault(key, [])
    return {version: IntervalSet.of(found) for version, found in ranges.items()}


@lru_cache(maxsize=4096)
def _count_times(times: dg.PartitionsDefinition) -> int:
    # Counting takes long, so it is done once for all models with the same dimension.
    return times.get_num_partitions()


def partition_mapping(
    child: LiveModel,
    parent: LiveModel,
    partitions: Mapping[ModelName, dg.PartitionsDefinition | None],
) -> dg.PartitionMapping | None:
    """Return Dagster's mapping from a child's partitions to the parent partitions they read."""
    upstream, downstream = partitions.get(parent.name), partitions.get(child.name)
    if upstream is None or downstream is None:
        return None
    pairs: dict[str, set[str]] = {}
    listed = {version.key for version in parent.listed}
    for version in child.listed:
        read = version.parents.get(parent.name)
        if read in listed:
            pairs.setdefault(read, set()).add(version.key)
    versions = dg.StaticPartitionMapping({read: sorted(keys) for read, keys in pairs.items()})
    with_times = isinstance(downstream, dg.MultiPartitionsDefinition)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Dagster has no mapping of chosen keys between one and two dimensions. The mapping lists
        # the versions of the parent that live versions of the child read.
        if not isinstance(upstream, dg.MultiPartitionsDefinition):
            found = dg.SpecificPartitionsPartitionMapping(sorted(pairs))
            return found if with_times else versions
        if with_times:
            same = dg.TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)
            return dg.MultiPartitionMapping(
                {
                    SNAPSHOT: dg.DimensionPartitionMapping(SNAPSHOT, versions),
                    TIME: dg.DimensionPartitionMapping(TIME, same),
                }
            )
        times = upstream.get_partitions_def_for_dimension(TIME)
        if not pairs or _count_times(times) * len(pairs) >= MAX_LISTED:
            return dg.AllPartitionMapping()
        return dg.SpecificPartitionsPartitionMapping(
            [
                dg.MultiPartitionKey({SNAPSHOT: version, TIME: time})
                for version in sorted(pairs)
                for time in times.get_partition_keys()
            ]
        )


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Pause Python's garbage collector while many lasting objects are created."""
    if not gc.isenabled():
        yield
        return
    # Otherwise the collector visits the objects again and again, which takes half of the time to
    # load 5,000 models.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
