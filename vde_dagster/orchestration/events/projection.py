"""The state's facts as Dagster's events, with the tags that make its staleness exact.

An event with a code version but without its inputs' tags marks everything below it stale
(`dagster._core.definitions.data_version.CachingStaleStatusResolver`), so an event carries all
of them or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.catalog import (
    AssetCatalog,
    partition_keys,
    time_unit,
    touched_keys,
)
from vde_dagster.orchestration.models.live import behind_views, version_key
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, SHORT, Names
from vde_dagster.orchestration.pages.environment_page import ShownModel, environment_metadata
from vde_dagster.planning.environments.environment import PRODUCTION, Entry, Environment
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable

if TYPE_CHECKING:
    from vde_dagster.execution.environments.version_changes import VersionChange
    from vde_dagster.state import StateStore
    from vde_dagster.state.environments.mirror import MirrorStanding


@dataclass(frozen=True, slots=True)
class Filled:
    """One partition of a version that holds rows.

    Args:
        partition: Its partition key.
        interval: Its range (UTC).
        iceberg_snapshot_id: The commit that wrote it last, when known.
        rows: Its rows, when they are known to be its own.
        bytes: Bytes of the files that hold them and nothing else, when there are such.
    """

    partition: str
    interval: Interval
    iceberg_snapshot_id: int | None
    rows: int | None
    bytes: int | None = None


def filled_partitions(
    store: StateStore, table: PhysicalTable, key: str, partitions: dg.PartitionsDefinition | None
) -> list[Filled]:
    """List what a table holds by partition, each with its latest fill.

    Args:
        key: Its version's partition key.
        partitions: The model's partitions.
    """
    found: dict[str, Filled] = {}
    for fill in store.fills.log(table.id):
        keys = touched_keys(partitions, key, fill.interval, lambda: table.intervals)
        alone = len(keys) == 1 and (keys[0][1] == fill.interval or time_unit(partitions) is None)
        own = (fill.rows, fill.bytes) if alone else (None, None)
        for partition, interval in keys:
            if partition not in found:
                found[partition] = Filled(partition, interval, fill.iceberg_snapshot_id, *own)
    out = []
    for partition, interval in partition_keys(partitions, key, table.intervals):
        out.append(found.get(partition) or Filled(partition, interval, None, None))
    return out


@dataclass(frozen=True)
class Combination:
    """What a version of a model is combined with: the inputs of its events.

    Args:
        entries: The environment's (or plan's) entries.
        snapshots: Their snapshots, by id.
        tables: Their tables, by id.
    """

    entries: Mapping[ModelName, Entry]
    snapshots: Mapping[str, Snapshot]
    tables: Mapping[str, PhysicalTable]

    def key(self, name: ModelName) -> str | None:
        """Return the partition key of a model's version here; None when it has none."""
        entry = self.entries.get(name)
        if entry is None or entry.snapshot_id not in self.snapshots:
            return None
        snapshot = self.snapshots[entry.snapshot_id]
        table = self.tables.get(entry.table_id) if entry.table_id else None
        return version_key(snapshot, table)

    def definition(self, name: ModelName) -> Snapshot | None:
        """Return a model's definition here."""
        entry = self.entries.get(name)
        return self.snapshots.get(entry.snapshot_id) if entry is not None else None

    def behind(self, snapshot: Snapshot) -> tuple[ModelName, ...]:
        """Return the tables that a model reads through the views that are here."""
        return behind_views(snapshot, self.definition)

    def inputs(
        self,
        instance: dg.DagsterInstance,
        catalog: AssetCatalog,
        snapshot: Snapshot,
        pointer: int | None,
    ) -> list[Input]:
        """Return the inputs of a model's event: what it reads, and the tables behind views.

        Args:
            instance: Knows the versions of external assets.
            catalog: Asset keys.
            pointer: The event log's newest record before the model runs.
        """
        out = []
        for parent in (*snapshot.model.depends_on, *self.behind(snapshot)):
            asset = catalog.key(parent)
            known = self.definition(parent)
            if known is None or not known.model.kind.is_shown:
                version = external_version(instance, asset)
                out.append(Input(asset, version, pointer))
            elif known.has_table:
                # Dagster compares partitioned parents by the pointer, never by this version.
                out.append(Input(asset, self.key(parent) or known.table_version, pointer))
            else:
                out.append(Input(asset, self.key(parent) or known.table_version, None))
        return out


def filled_event(
    catalog: AssetCatalog,
    snapshot: Snapshot,
    key: str,
    filled: Filled,
    inputs: Sequence[Input],
    *,
    metadata: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.AssetMaterialization:
    """Return the event of one filled partition.

    Args:
        catalog: Asset keys.
        key: The version's partition key.
        inputs: The parents as they were read.
    """
    facts: dict[str, Any] = {"vde/version": key, "vde/interval": str(filled.interval)}
    if filled.iceberg_snapshot_id is not None:
        facts["vde/iceberg_snapshot_id"] = str(filled.iceberg_snapshot_id)
    if filled.rows is not None:
        name = "partition_row_count" if snapshot.is_incremental else "row_count"
        facts[f"dagster/{name}"] = filled.rows
    if filled.bytes is not None:
        facts["vde/bytes"] = filled.bytes
    facts.update(metadata or {})
    version = data_version(key, filled.iceberg_snapshot_id)
    return dg.AssetMaterialization(
        asset_key=catalog.key(snapshot.name),
        partition=filled.partition,
        metadata=facts,
        tags={**provenance_tags(key, version, inputs), **partition_tags(filled), **(tags or {})},
    )


def partition_tags(filled: Filled) -> dict[str, str]:
    """Return the tags by which Dagster finds the dimensions of a partition."""
    if not isinstance(filled.partition, dg.MultiPartitionKey):
        return {}
    keys = filled.partition.keys_by_dimension
    return {f"dagster/partition/{name}": value for name, value in keys.items()}


def view_event(
    catalog: AssetCatalog,
    snapshot: Snapshot,
    inputs: Sequence[Input],
    tags: Mapping[str, str],
    rows: Mapping[str, Any] | None = None,
) -> dg.AssetMaterialization:
    """Return the event of a published VIEW model, which holds no rows of its own.

    Args:
        catalog: Asset keys.
        rows: Metadata that shows some of its rows.
    """
    key = snapshot.table_version
    return dg.AssetMaterialization(
        asset_key=catalog.key(snapshot.name),
        partition=key,
        metadata={"vde/version": key, **(rows or {})},
        tags={**provenance_tags(key, key, inputs), **tags},
    )


def environment_event(
    environment: Environment,
    combination: Combination,
    since: Mapping[ModelName, datetime],
    production: Environment | None,
    before: Combination | None = None,
    names: Names = SHORT,
    changes: Sequence[VersionChange] = (),
    mirror: MirrorStanding | None = None,
) -> dg.AssetMaterialization:
    """Return the event of a published environment: which view shows which version, since when.

    Args:
        environment: The environment's new version.
        since: When (UTC) each model's entry was published first, as far as it is known.
        production: Production as it is now, to tell shared tables from own ones.
        before: The snapshots and tables of the version before, when it is known.
        names: The project's names.
        changes: What this version changed, and those before it, newest first.
        mirror: How its mirrored views stand, if it has any.
    """
    tags = {ENVIRONMENT_TAG: environment.name}
    if environment.plan_id:
        tags[PLAN_TAG] = environment.plan_id
    shared = production.tables if production else frozenset[str]()
    shown = {
        name: replace(
            model,
            whose=_whose(environment, name, model.table, shared),
            since=since.get(name),
        )
        for name, model in _shown(combination).items()
    }
    earlier = _shown(before) if before is not None else None
    return dg.AssetMaterialization(
        asset_key=names.environment_key,
        partition=environment.name,
        description=f"version {environment.version}",
        metadata=environment_metadata(environment, shown, earlier, names, changes, mirror),
        tags={"dagster/data_version": environment.publication_id, **tags},
    )


def _shown(combination: Combination) -> dict[ModelName, ShownModel]:
    """Return what a combination shows, without external tables."""
    found: dict[ModelName, ShownModel] = {}
    for name, entry in combination.entries.items():
        snapshot = combination.snapshots.get(entry.snapshot_id)
        if snapshot is None or snapshot.model.kind.is_external:
            continue
        table = combination.tables.get(entry.table_id) if entry.table_id else None
        found[name] = ShownModel(version_key(snapshot, table), entry.snapshot_id, table)
    return found


def _whose(
    environment: Environment, name: ModelName, table: PhysicalTable | None, shared: Set[str]
) -> str:
    if table is None:
        return ""
    if environment.entries[name].held is not None:
        return "held"
    return "own" if environment.name == PRODUCTION or table.id not in shared else "shared"


CODE_VERSION = "dagster/code_version"
DATA_VERSION = "dagster/data_version"
USER_PROVIDED = "dagster/data_version_is_user_provided"
INPUT_DATA_VERSION = "dagster/input_data_version"
INPUT_POINTER = "dagster/input_event_pointer"

UNTRACKED = "INITIAL"
"""The data version that Dagster gives to an external table of which it has no event."""
NO_POINTER = "NULL"


@dataclass(frozen=True, slots=True)
class Input:
    """A parent as it was when a model read it.

    Args:
        key: The parent's asset key.
        pointer: The newest record of the event log then; None never compares as changed, which
            is right for views: they show their parents' changes at once.
    """

    key: dg.AssetKey
    data_version: str
    pointer: int | None


def provenance_tags(
    code_version: str, data_version: str, inputs: Iterable[Input]
) -> dict[str, str]:
    """Return the tags of an event.

    Args:
        code_version: The version of the model, its partition key.
    """
    tags = {CODE_VERSION: code_version, DATA_VERSION: data_version, USER_PROVIDED: "true"}
    for item in inputs:
        name = item.key.to_user_string()
        tags[f"{INPUT_DATA_VERSION}/{name}"] = item.data_version
        tags[f"{INPUT_POINTER}/{name}"] = NO_POINTER if item.pointer is None else str(item.pointer)
    return tags


def data_version(key: str, iceberg_snapshot_id: int | None) -> str:
    """Return what a filled interval holds: its version and the Iceberg commit of its rows."""
    return key if iceberg_snapshot_id is None else f"{key}@{iceberg_snapshot_id}"


def newest_record(instance: dg.DagsterInstance) -> int | None:
    """Return the id of the newest record in the event log."""
    return instance.event_log_storage.get_maximum_record_id()


def external_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str:
    """Return the data version that Dagster knows of an unpartitioned external asset."""
    record = instance.get_latest_data_version_record(key, True)
    if record is None:
        return UNTRACKED
    tags = record.event_log_entry.tags or {}
    return tags.get(DATA_VERSION, UNTRACKED)


def latest_tags(
    instance: dg.DagsterInstance, catalog: AssetCatalog, snapshot: Snapshot, partition: str
) -> Mapping[str, str] | None:
    """Return the tags of the latest event of a partition, or None when there is none.

    Args:
        catalog: Asset keys.
        partition: The partition's key.
    """
    wanted = dg.AssetRecordsFilter(catalog.key(snapshot.name), asset_partitions=[partition])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        return record.event_log_entry.tags or {}
    return None


def moved_inputs(
    catalog: AssetCatalog,
    combination: Combination,
    snapshot: Snapshot,
    inputs: Sequence[Input],
    latest: Mapping[str, str],
) -> bool:
    """Say whether a version now reads other tables than its event says, or other versions.

    Args:
        catalog: Asset keys.
        combination: What the version is combined with now.
        snapshot: The version's definition.
        latest: The tags of its latest event.
    """
    read = (*snapshot.parents, *combination.behind(snapshot))
    own = {catalog.key(name) for name in read if combination.key(name) is not None}
    said = {f"{INPUT_DATA_VERSION}/{item.key.to_user_string()}": item for item in inputs}
    told = {tag for tag in latest if tag.startswith(f"{INPUT_DATA_VERSION}/")}
    return told != said.keys() or any(
        latest[tag] != item.data_version for tag, item in said.items() if item.key in own
    )
