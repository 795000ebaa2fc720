"""The events of a published environment: its views, and tables that now read other parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.projection import (
    Combination,
    environment_event,
    filled_event,
    filled_partitions,
    view_event,
)
from vde_dagster.orchestration.events.provenance import newest_record
from vde_dagster.orchestration.events.records import add_partitions
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import version_key
from vde_dagster.planning.environment import PRODUCTION, Environment
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.state import StateStore


def combination_of(store: StateStore, environment: Environment) -> Combination:
    """Read the snapshots and tables of an environment."""
    entries = environment.entries
    snapshots = store.snapshots.load(sorted({entry.snapshot_id for entry in entries.values()}))
    tables = store.tables.load(sorted({e.table_id for e in entries.values() if e.table_id}))
    return Combination(entries, snapshots, tables)


def environment_published(
    catalog: AssetCatalog, store: StateStore, environment: Environment
) -> dg.AssetMaterialization:
    """Return the event of an environment's version, now or afterwards.

    Args:
        catalog: The code location's models.
        store: The state store, after the publication.
        environment: The version.
    """
    name, version = environment.name, environment.version
    previous = store.versions.at(name, version - 1) if version > 1 else None
    return environment_event(
        environment,
        combination_of(store, environment),
        store.versions.shown_since(name, version),
        environment if name == PRODUCTION else store.environments.get(PRODUCTION),
        combination_of(store, previous) if previous is not None else None,
        catalog.names,
    )


def published_events(
    catalog: AssetCatalog,
    store: StateStore,
    instance: dg.DagsterInstance,
    environment: Environment,
    *,
    built: Set[ModelName],
    tags: Mapping[str, str],
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation]:
    """Yield what a publication changes in Dagster beside the intervals it filled.

    Args:
        catalog: The code location as it was before the publication.
        store: The state store, after it.
        instance: The Dagster instance; the environment's partition is added to it.
        environment: The published version.
        built: Models whose events the apply has written.
        tags: Tags of the events.
    """
    combination = combination_of(store, environment)
    for name, entry in environment.entries.items():
        snapshot = combination.snapshots[entry.snapshot_id]
        if snapshot.is_virtual:
            inputs = combination.inputs(instance, catalog, snapshot, None)
            seen = _materialized(instance, catalog, name)
            if snapshot.table_version not in seen or _moved(catalog, environment, snapshot, None):
                yield view_event(catalog, snapshot, inputs, tags)
        elif entry.table_id and name not in built:
            key = version_key(snapshot, combination.tables[entry.table_id])
            if _moved(catalog, environment, snapshot, key, combination):
                yield from _again(catalog, store, instance, snapshot, key, combination, tags)
    add_partitions(store.database.effects, instance, catalog.names.environments, [environment.name])
    yield environment_published(catalog, store, environment)
    yield from AuditEvents(catalog, store, instance).published(environment, combination)


def _moved(
    catalog: AssetCatalog,
    environment: Environment,
    snapshot: Snapshot,
    key: str | None,
    combination: Combination | None = None,
) -> bool:
    """Say whether a version now reads other versions of its parents, as Dagster maps them.

    The first environment that refers to a version decides its parents; production comes first.
    """
    known = catalog.live.models.get(snapshot.name)
    version = known.version(key or snapshot.table_version) if known else None
    if version is None or combination is None:
        return version is None
    first = version.environments[:1]
    if first and _rank(first[0]) < _rank(environment.name):
        return False
    parents = {
        parent: parent_key
        for parent in snapshot.parents
        if (parent_key := combination.key(parent)) is not None
    }
    return parents != version.parents


def _again(
    catalog: AssetCatalog,
    store: StateStore,
    instance: dg.DagsterInstance,
    snapshot: Snapshot,
    key: str,
    combination: Combination,
    tags: Mapping[str, str],
) -> Iterator[dg.AssetMaterialization]:
    """Confirm what a table holds against the parents that it is combined with from now on.

    The data version stays, so nothing below becomes stale; the pointers move, so nothing that
    happened to the new parents before counts as a change.
    """
    entry = combination.entries[snapshot.name]
    table = combination.tables[entry.table_id or ""]
    partitions = catalog.partitions_of(snapshot)
    inputs = combination.inputs(instance, catalog, snapshot, newest_record(instance))
    for filled in filled_partitions(store, table, key, partitions):
        yield filled_event(
            catalog,
            snapshot,
            key,
            filled,
            inputs,
            metadata={"vde/reused": True, "vde/table": str(table.ref)},
            tags=tags,
        )


def _materialized(instance: dg.DagsterInstance, catalog: AssetCatalog, name: ModelName) -> Set[str]:
    return instance.get_materialized_partitions(catalog.key(name))


def _rank(environment: str) -> tuple[bool, str]:
    return (environment != PRODUCTION, environment)
