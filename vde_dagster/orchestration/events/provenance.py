"""Provenance tags of events, which make Dagster's staleness exact.

An event with a code version but without its inputs' tags marks everything downstream stale
(`dagster._core.definitions.data_version.CachingStaleStatusResolver`), so an event has all of these
tags or none.
"""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    INPUT_DATA_VERSION_TAG_PREFIX,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from vde_dagster.orchestration.events.records import busy_plans
from vde_dagster.orchestration.models.catalog import AssetCatalog, load_catalog
from vde_dagster.orchestration.models.live import Combination
from vde_dagster.orchestration.names import Names
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.state.store import StateStore

Log = logging.Logger | dg.DagsterLogManager


@dataclass(frozen=True)
class ProjectionContext:
    """The Dagster instance that receives events, and the workspace that has the state."""

    workspace: Workspace
    instance: dg.DagsterInstance
    catalog: AssetCatalog
    log: Log
    _combinations: dict[tuple[str, str], Combination] = field(default_factory=dict)
    _busy: dict[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def from_step(cls, context: Any, catalog: AssetCatalog) -> ProjectionContext:
        """Return the context of a step that requires the project's resource."""
        workspace = getattr(context.resources, catalog.names.resource).get()
        return cls(workspace, context.instance, catalog, context.log)

    @property
    def store(self) -> StateStore:
        return self.workspace.store

    @property
    def names(self) -> Names:
        return self.catalog.names

    def combination(self, environment: Environment) -> Combination:
        if (environment.name, environment.publication_id) not in self._combinations:
            self.read_combinations([environment])
        return self._combinations[environment.name, environment.publication_id]

    def read_combinations(self, environments: Collection[Environment]) -> None:
        """Read the snapshots and tables of all given environments in two queries."""
        known = self.catalog.live.stored
        ids = {entry.snapshot_id for one in environments for entry in one.entries.values()}
        # Definitions never change, tables do.
        snapshots = ChainMap(self.store.snapshots.load(sorted(ids - known.keys())), {**known})
        tables = self.store.tables.load(sorted({id_ for one in environments for id_ in one.tables}))
        for one in environments:
            found = Combination.from_entries(one.entries, snapshots, tables)
            self._combinations[one.name, one.publication_id] = found

    def busy_plans(self) -> frozenset[str]:
        # A run that begins to work on a plan adds a record before its first event.
        newest = self.store.outbox.number().newest
        if newest not in self._busy:
            found = busy_plans(self.instance, self.store)
            self._busy.clear()
            self._busy[newest] = found
        return self._busy[newest]

    def read_again(self) -> ProjectionContext:
        catalog = load_catalog(self.workspace, self.catalog.translator)
        return ProjectionContext(self.workspace, self.instance, catalog, self.log)

    def newest_record(self) -> int | None:
        return self.instance.event_log_storage.get_maximum_record_id()

    def latest(self, key: dg.AssetKey, partition: str) -> dg.EventLogRecord | None:
        wanted = dg.AssetRecordsFilter(key, asset_partitions=[partition])
        return next(iter(self.instance.fetch_materializations(wanted, limit=1).records), None)


def input_tags(
    context: ProjectionContext, combination: Combination, snapshot: Snapshot, pointer: int | None
) -> dict[str, str]:
    """Return event tags with the data versions of a model's inputs.

    The tables that the model reads through views or embedded models are inputs, too.

    Args:
        pointer: The event log's newest record before the model ran.
    """
    tags = {}
    for parent in (*snapshot.model.depends_on, *combination.indirect_parents(snapshot)):
        asset, read = context.catalog.key(parent), pointer
        known = combination.snapshot(parent)
        if known is None or not known.model.kind.is_shown:
            record = context.instance.get_latest_data_version_record(asset, True)
            shown = (record.event_log_entry.tags if record is not None else None) or {}
            # Dagster uses the same default for an external table without an event.
            version = shown.get(DATA_VERSION_TAG, DEFAULT_DATA_VERSION.value)
        else:
            # Dagster compares partitioned parents by the pointer, never by this version. Without
            # a pointer nothing counts as changed, because views show their parents' rows.
            version = combination.key(parent) or known.table_version
            read = pointer if known.has_table else None
        tags[get_input_data_version_tag(asset)] = version
        tags[get_input_event_pointer_tag(asset)] = NULL_EVENT_POINTER if read is None else str(read)
    return tags


def reads_other_inputs(
    context: ProjectionContext,
    combination: Combination,
    snapshot: Snapshot,
    inputs: Mapping[str, str],
    latest: Mapping[str, str],
) -> bool:
    """Return whether a model's inputs differ from the inputs in its latest event in Dagster."""
    inputs_now, inputs_then = (
        {tag for tag in tags if tag.startswith(f"{INPUT_DATA_VERSION_TAG_PREFIX}/")}
        for tags in (inputs, latest)
    )
    read = (*snapshot.parents, *combination.indirect_parents(snapshot))
    known = (name for name in read if combination.key(name) is not None)
    own = {get_input_data_version_tag(context.catalog.key(name)) for name in known}
    return inputs_now != inputs_then or any(latest[tag] != inputs[tag] for tag in own & inputs_now)


def provenance_tags(
    code_version: str, data_version: str, inputs: Mapping[str, str]
) -> dict[str, str]:
    return {
        CODE_VERSION_TAG: code_version,
        DATA_VERSION_TAG: data_version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
        **inputs,
    }


def data_version(key: str, iceberg_snapshot_id: int | None) -> str:
    """Return the data version of a filled partition, such as `3f2a…@7391` for commit 7391."""
    return key if iceberg_snapshot_id is None else f"{key}@{iceberg_snapshot_id}"
