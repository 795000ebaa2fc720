"""Rebuilding Dagster's view from the state store: `vde sync`.

The state store is the truth; Dagster's events are a projection of it. What was applied from the
command line, or while Dagster's database was lost, is written here as events without a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.events.plan_partitions import forget_past_plans
from vde_dagster.orchestration.events.projection import (
    filled_event,
    filled_partitions,
    view_event,
)
from vde_dagster.orchestration.events.provenance import DATA_VERSION, data_version, newest_record
from vde_dagster.orchestration.events.publication import combination_of, environment_published
from vde_dagster.orchestration.events.records import add_partitions, report_event, wipe_asset
from vde_dagster.orchestration.models.catalog import AssetCatalog, build_catalog
from vde_dagster.orchestration.models.live import LiveModel, LiveVersion
from vde_dagster.orchestration.models.load_live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environment import Environment


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync wrote.

    Args:
        materializations: Events of filled partitions and of views.
        environments: Events of environments' versions.
        wiped: Partitions whose rows are gone, now shown as missing again.
    """

    materializations: int
    environments: int
    wiped: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether Dagster knew everything already."""
        return self.materializations == self.environments == self.wiped == 0


def sync(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    translator: VdeTranslator | None = None,
) -> SyncReport:
    """Write the events that a Dagster instance misses; starts no JVM, and is idempotent.

    Args:
        workspace: The project.
        instance: The Dagster instance.
        translator: The one that the code location uses.
    """
    now = datetime.now(timezone.utc)
    looks = translator or VdeTranslator(workspace.root, workspace.settings.catalog)
    looks = looks.of_project(Names.of(workspace.settings))
    catalog = build_catalog(load_live(workspace, now), looks, now)
    effects = workspace.store.database.effects
    count = wiped = 0
    for name, model in catalog.live.models.items():
        known = _known(instance, catalog.key(name))
        gone = _gone(workspace, catalog, model, set(known))
        if gone:
            # Dagster's own storages can forget an asset, not one of its partitions.
            wipe_asset(effects, instance, catalog.key(name))
            known = {}
            wiped += len(gone)
        for version in model.versions:
            if version.environments:
                for event in _of_version(workspace, instance, catalog, name, version, known):
                    report_event(effects, instance, event)
                    count += 1
    written = _environments(workspace, instance, catalog)
    _plans(workspace, instance, catalog.names)
    return SyncReport(count, written, wiped)


def _gone(
    workspace: Workspace, catalog: AssetCatalog, model: LiveModel, known: set[str]
) -> set[str]:
    """Return the partitions of published versions that Dagster shows and no table holds."""
    gone: set[str] = set()
    partitions = catalog.partitions[model.name]
    for version in model.versions:
        if version.table is None or not version.environments:
            continue
        shown = {key for key in known if key.partition("|")[0] == version.key}
        if shown:
            filled = filled_partitions(workspace.store, version.table, version.key, partitions)
            gone |= shown - {item.partition for item in filled}
    return gone


def _of_version(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    catalog: AssetCatalog,
    name: ModelName,
    version: LiveVersion,
    known: dict[str, str | None],
) -> Iterator[dg.AssetMaterialization]:
    environment = catalog.live.environments[version.environments[0]]
    combination = combination_of(workspace.store, environment)
    snapshot = version.snapshot
    if version.table is None:
        if version.key not in known and snapshot.is_virtual:
            inputs = combination.inputs(instance, catalog, snapshot, None)
            yield view_event(catalog, snapshot, inputs, {})
        return
    inputs = combination.inputs(instance, catalog, snapshot, newest_record(instance))
    partitions = catalog.partitions[name]
    for filled in filled_partitions(workspace.store, version.table, version.key, partitions):
        now = data_version(version.key, filled.iceberg_snapshot_id)
        if known.get(filled.partition) != now:
            facts = {"vde/table": str(version.table.ref), "vde/synced": True}
            yield filled_event(catalog, snapshot, version.key, filled, inputs, metadata=facts)


def _known(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str | None]:
    """Return the data version of every partition that Dagster has an event of."""
    out: dict[str, str | None] = {}
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(key, limit=1000, cursor=cursor)
        for record in page.records:
            partition = record.partition_key
            if partition is not None and partition not in out:
                out[partition] = (record.event_log_entry.tags or {}).get(DATA_VERSION)
        if not page.has_more:
            return out
        cursor = page.cursor


def _environments(workspace: Workspace, instance: dg.DagsterInstance, catalog: AssetCatalog) -> int:
    """Write the versions of every environment that Dagster has no event of, oldest first."""
    store = workspace.store
    written = 0
    known: set[str | None] = set()
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(
            catalog.names.environment_key, limit=1000, cursor=cursor
        )
        known |= {(r.event_log_entry.tags or {}).get(DATA_VERSION) for r in page.records}
        if not page.has_more:
            break
        cursor = page.cursor
    add_partitions(
        store.database.effects,
        instance,
        catalog.names.environments,
        list(catalog.live.environments),
    )
    for name in catalog.live.environments:
        for version in reversed(store.versions.history(name)):
            if version.publication_id in known or version.dropped:
                continue
            environment: Environment | None = store.versions.at(name, version.version)
            if environment is None:
                continue
            event = environment_published(catalog, store, environment)
            report_event(store.database.effects, instance, event)
            written += 1
    return written


def _plans(workspace: Workspace, instance: dg.DagsterInstance, names: Names) -> None:
    """Give every plan that can still be approved a partition, and take the others' away."""
    store = workspace.store
    waiting = [record.id for record in store.plans.recent(limit=100) if record.status == "planned"]
    past = store.plans.past(waiting)
    add_partitions(
        store.database.effects, instance, names.plans, [key for key in waiting if key not in past]
    )
    forget_past_plans(store, instance, names.plans)
