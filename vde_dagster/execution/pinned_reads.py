"""Reads of tables at the Iceberg snapshots that a version of an environment pins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.publishing.pins import pinned_tables
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.rendering.render import relation_query
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.environments.pins import Pin

if TYPE_CHECKING:
    from collections.abc import Collection

    from vde_dagster.execution.handles import Handles


@dataclass
class PinnedVersion:
    """Builds queries that read models as a version of an environment shows them.

    Args:
        live: External tables that were read, directly or through models.
        snapshots: Snapshots read so far, by id.
        tables: Tables read so far, by id.
        pins: Pins by table id; None before a table was read.
    """

    handles: Handles
    version: Environment
    live: set[ModelName] = field(default_factory=set)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    tables: dict[str, PhysicalTable] = field(default_factory=dict)
    pins: dict[str, Pin] | None = None
    _pinned: dict[str, PinnedTable] = field(default_factory=dict)

    def relation(self, name: ModelName) -> str | None:
        """Build the query that reads a model, or return None if the version has no such model."""
        if name not in self.version.entries:
            return None
        self._load({name})
        resolver = Resolver(
            self.version.name,
            self.version.entries,
            self.snapshots,
            self.tables,
            pinned=self._pinned,
        )
        return relation_query(name, resolver, self.handles.settings.catalog)

    def _load(self, waiting: set[ModelName]) -> None:
        entries, store = self.version.entries, self.handles.store
        while waiting:
            wanted = [entries[name] for name in waiting]
            found = store.snapshots.load(entry.snapshot_id for entry in wanted)
            self.snapshots |= found
            ids = {entry.table_id: entry.name for entry in wanted if entry.table_id}
            self._load_tables({one: name for one, name in ids.items() if one not in self.tables})
            queries = [found[entry.snapshot_id] for entry in wanted if entry.table_id is None]
            self.live |= {one.name for one in queries if one.model.kind.is_external}
            parents = {parent for one in queries for parent in one.parents}
            waiting = {
                name
                for name in parents & entries.keys()
                if entries[name].snapshot_id not in self.snapshots
            }

    def _load_tables(self, models: dict[str, ModelName]) -> None:
        store = self.handles.store
        if models and self.pins is None:
            self.pins = store.pins.at(self.version.name, self.version.version)
        pins = self.pins or {}
        for table_id, name in models.items():
            if table_id not in pins:
                raise not_pinned_error(name, self.version)
        tables = store.tables.load(models)
        states = {one.id: (one.ref, pins[one.id].state_to_hold) for one in tables.values()}
        self.tables |= tables
        found = pinned_tables(self.handles.lakehouse, states)
        self._pinned |= found
        for table_id, name in models.items():
            if table_id not in found:
                raise self._data_gone_error(name)

    def _data_gone_error(self, name: ModelName) -> UsageError:
        shown = self.version
        why = "a program other than vde expired or dropped it"
        hint = "run `vde fsck` to find the damage; read another version, or restore a backup"
        if self.handles.store.versions.is_before_end(shown.name, shown.version):
            why = "the environment was dropped since"
            hint = f"read a later version: vde history {shown.name}"
        return UsageError(
            f"the data of {name} in version {shown.version} of '{shown.name}' is gone: {why}",
            hint=hint,
        )


def not_pinned_error(name: ModelName, version: Environment) -> UsageError:
    """Build the error for a version from before the introduction of pins."""
    return UsageError(
        f"the data of {name} in version {version.version} of '{version.name}' is unknown, "
        "because this version was published before versions pinned their data",
        hint=f"read a later version: vde history {version.name}",
    )


def with_pinned_tables(
    handles: Handles, resolver: Resolver, only: Collection[ModelName] | None = None
) -> Resolver:
    """Return a resolver that reads each pinned table at its pinned Iceberg snapshot."""
    # If `only` has a model without a table, all models are resolved, because its query may read any
    # of them.
    entries = list(resolver.entries.values())
    if only is not None and all(resolver.entries[one].table_id for one in only):
        entries = [resolver.entries[one] for one in only]
    held = {
        entry.table_id: (entry.name, entry.held)
        for entry in entries
        if entry.table_id is not None and entry.held is not None
    }
    wanted = {one: held[one] for one in held.keys() - resolver.pinned.keys()}
    if not wanted:
        return resolver
    states = {one: (resolver.tables[one].ref, held) for one, (_, held) in sorted(wanted.items())}
    found = pinned_tables(handles.lakehouse, states)
    gone = sorted(name for one, (name, _) in wanted.items() if one not in found)
    if gone:
        raise UsageError(
            f"the data of {', '.join(map(str, gone))} in '{resolver.environment}' is gone: a "
            "program other than vde expired or dropped it",
            hint="run `vde fsck` to find the damage, and restore a backup",
        )
    return replace(resolver, pinned={**resolver.pinned, **found})
