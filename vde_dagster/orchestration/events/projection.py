"""The state store's facts as Dagster's events; shared by applies, rollbacks and `vde sync`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.events.provenance import (
    Input,
    data_version,
    external_version,
    provenance_tags,
)
from vde_dagster.orchestration.models.behind_views import behind_views
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import version_key
from vde_dagster.orchestration.models.partitions import partition_keys, time_unit, touched_keys
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, SHORT, Names
from vde_dagster.orchestration.pages.environment_page import ShownModel, environment_metadata
from vde_dagster.planning.environment import PRODUCTION, Entry, Environment
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable

if TYPE_CHECKING:
    from vde_dagster.execution.version_changes import VersionChange
    from vde_dagster.state import StateStore
    from vde_dagster.state.mirror import MirrorStanding


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
        store: The state store.
        table: The table.
        key: Its version's partition key.
        partitions: The model's partitions.
    """
    found: dict[str, Filled] = {}
    for fill in store.fills.log(table.id):
        filled = Interval(fill.start_at, fill.end_at)
        keys = touched_keys(partitions, key, filled, lambda: table.intervals)
        alone = len(keys) == 1 and (keys[0][1] == filled or time_unit(partitions) is None)
        own = (fill.row_count, fill.byte_count) if alone else (None, None)
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
            snapshot: The model.
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
        snapshot: The model.
        key: The version's partition key.
        filled: The partition.
        inputs: The parents as they were read.
        metadata: More facts of the fill.
        tags: More tags.
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
        snapshot: The model.
        inputs: Its parents.
        tags: More tags.
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
        combination: Its snapshots and tables.
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
