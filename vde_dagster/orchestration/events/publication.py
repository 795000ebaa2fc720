"""The events of a published environment: its views, and tables that now read other parents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.environments.version_changes import changes_until
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.projection import (
    Combination,
    environment_event,
    filled_event,
    filled_partitions,
    latest_tags,
    moved_inputs,
    newest_record,
    view_event,
)
from vde_dagster.orchestration.events.records import add_partitions
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import version_key
from vde_dagster.orchestration.pages.environment_page import LISTED
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.snapshots.snapshot import Snapshot

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
        # Without metadata files: what others added to shared tables is not worth reading those.
        changes_until(store, None, name, version, LISTED),
        store.mirror.standings().get(name),
    )


def published_events(
    catalog: AssetCatalog,
    store: StateStore,
    instance: dg.DagsterInstance,
    environment: Environment,
    *,
    built: Set[ModelName],
    tags: Mapping[str, str],
    rows: Callable[[Snapshot], Mapping[str, Any]] | None = None,
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation]:
    """Yield what a publication changes in Dagster beside the intervals it filled.

    Twice is harmless but for the environment's own event and its checks, which say what they are
    of: the others are compared with the latest events.

    Args:
        store: The state store, after the publication.
        instance: The Dagster instance; the environment's partition is added to it.
        built: Models whose events are written by the fills.
        rows: Makes the metadata that shows some rows of a view.
    """
    combination = combination_of(store, environment)
    moved = store.versions.changed(environment.name, environment.version)
    for name, entry in environment.entries.items():
        snapshot = combination.snapshots[entry.snapshot_id]
        if name in built:
            continue
        if not ({name, *snapshot.parents, *combination.behind(snapshot)} & moved):
            continue
        if not _decides(store, environment, snapshot, entry.table_id):
            continue
        if snapshot.is_virtual:
            inputs = combination.inputs(instance, catalog, snapshot, None)
            latest = latest_tags(instance, catalog, snapshot, snapshot.table_version)
            if latest is None or moved_inputs(catalog, combination, snapshot, inputs, latest):
                shown = rows(snapshot) if rows is not None else None
                yield view_event(catalog, snapshot, inputs, tags, shown)
        elif entry.table_id:
            yield from _again(catalog, store, instance, snapshot, combination, tags)
    add_partitions(store.database.effects, instance, catalog.names.environments, [environment.name])
    yield environment_published(catalog, store, environment)
    yield from AuditEvents(catalog, store, instance).published(environment, combination)


def _decides(
    store: StateStore, environment: Environment, snapshot: Snapshot, table_id: str | None
) -> bool:
    """Say whether a version's parents are those of this environment.

    The first environment that shows a version decides its parents; production comes first.
    """
    if environment.name == PRODUCTION:
        return True
    if table_id is None:
        shown = store.shown.environments_of(snapshot.id)
    else:
        found = store.shown.entries_of([table_id])
        shown = [name for name, entry in found if entry.name == snapshot.name]
    return not any(_rank(name) < _rank(environment.name) for name in shown)


def _again(
    catalog: AssetCatalog,
    store: StateStore,
    instance: dg.DagsterInstance,
    snapshot: Snapshot,
    combination: Combination,
    tags: Mapping[str, str],
) -> Iterator[dg.AssetMaterialization]:
    """Confirm what a table holds against the parents that it is combined with from now on.

    The data version stays, so nothing below becomes stale; the pointers move, so nothing that
    happened to the new parents before counts as a change.
    """
    entry = combination.entries[snapshot.name]
    table = combination.tables[entry.table_id or ""]
    key = version_key(snapshot, table)
    filled = filled_partitions(store, table, key, catalog.partitions_of(snapshot))
    if not filled:
        return
    inputs = combination.inputs(instance, catalog, snapshot, newest_record(instance))
    # They were confirmed in order, so the last one tells of all.
    latest = latest_tags(instance, catalog, snapshot, filled[-1].partition)
    if latest is not None and not moved_inputs(catalog, combination, snapshot, inputs, latest):
        return
    for item in filled:
        yield filled_event(
            catalog,
            snapshot,
            key,
            item,
            inputs,
            metadata={"vde/reused": True, "vde/table": str(table.ref)},
            tags=tags,
        )


def _rank(environment: str) -> tuple[bool, str]:
    return (environment != PRODUCTION, environment)
