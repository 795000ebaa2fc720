"""The tables, views and external tables that clients see in an environment version."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from cachetools import LRUCache, cachedmethod

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.published_version import (
    environment_not_found,
    published_version,
    version_number,
)
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.rendering.served_views import RepeatedColumns
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef, external_table
from vde_dagster.programs.serve.catalog_tables import (
    CatalogTable,
    RepeatedColumnsCache,
    find_columns_table,
    find_selections,
)
from vde_dagster.programs.serve.errors import missing
from vde_dagster.state.environments.pins import Pin

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


_VERSIONS = 32


@dataclass
class ServedVersion:
    # A version never changes, so everything is read once.
    workspace: Workspace
    version: Environment
    repeats: RepeatedColumnsCache

    @cached_property
    def table_ids(self) -> dict[ModelName, str]:
        """The id of the physical table, for each model with a table."""
        entries = self.version.entries.values()
        return {entry.name: entry.table_id for entry in entries if entry.table_id is not None}

    @cached_property
    def tables(self) -> dict[ModelName, CatalogTable]:
        """The tables by their names in the catalog, without external tables."""
        found = {
            name: CatalogTable(name) for name in self.table_ids if name not in self.columns_tables
        }
        for name, one in self.columns_tables.items():
            once = dict.fromkeys(column for _, column in one.columns)
            found[one.table] = CatalogTable(name, tuple((column, column) for column in once))
        return {**found, **self._selection_views}

    @cached_property
    def views(self) -> dict[ModelName, Snapshot]:
        found = {
            name: one
            for name, one in self.without_tables.items()
            if one.model.kind.is_shown and name not in self._selection_views
        }
        return {**found, **self._snapshots(self.columns_tables)}

    @cached_property
    def columns_tables(self) -> dict[ModelName, RepeatedColumns]:
        """For each model that shows a column under two names, a table with each column once."""
        entries, store = self.version.entries, self.workspace.store
        ids = {entries[name].snapshot_id for name in self.table_ids}
        repeated = self.repeats.find_in(self.workspace, ids)
        names = [name for name in self.table_ids if entries[name].snapshot_id in repeated]
        snapshots = self._snapshots(names)
        tables = store.tables.load([self.table_ids[name] for name in names])
        found: dict[ModelName, RepeatedColumns] = {}
        for name in names:
            table, pin = tables.get(self.table_ids[name]), self.pins.get(self.table_ids[name])
            if table is None or pin is None:
                continue  # Loading it reports the reason.
            one = find_columns_table(self.workspace, snapshots[name], table, pin, set(entries))
            if one is not None:
                found[name] = one
        return found

    @cached_property
    def externals(self) -> dict[ModelName, TableRef]:
        """The external tables that exist in the project's catalog, by name."""
        found = (
            external_table(one.model)
            for one in self.without_tables.values()
            if one.model.kind.is_external
        )
        refs = [TableRef(one.namespace, one.name) for one in found if one.catalog is None]
        names = {ModelName(ref.namespace, ref.name): ref for ref in refs}
        own = self.tables.keys() | self.views.keys()
        there = self.workspace.lakehouse.metadata_locations(refs)
        return {name: ref for name, ref in names.items() if ref in there and name not in own}

    @cached_property
    def pins(self) -> dict[str, Pin]:
        """The pinned Iceberg snapshot of each physical table, by the table's id."""
        return self.workspace.store.pins.at(self.version.name, self.version.version)

    def has(self, name: ModelName) -> bool:
        return name in self.tables or name in self.views or name in self.externals

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        names = (*self.tables, *self.views, *self.externals)
        return tuple(sorted({name.namespace for name in names}))

    def resolver(self, names: Iterable[ModelName]) -> Resolver:
        """Return a resolver for the given models and for the tables that their views read."""
        store, entries = self.workspace.store, self.version.entries
        snapshots: dict[str, Snapshot] = {}
        waiting = set(names)
        while waiting:
            found = store.snapshots.load(entries[name].snapshot_id for name in waiting)
            snapshots |= found
            queries = [one for one in found.values() if one.name not in self.table_ids]
            parents = {parent for one in queries for parent in one.parents} & entries.keys()
            waiting = {one for one in parents if entries[one].snapshot_id not in snapshots}
        ids = {entries[one.name].table_id for one in snapshots.values()}
        tables: dict[str, PhysicalTable] = store.tables.load([one for one in ids if one])
        return Resolver(self.version.name, entries, snapshots, tables)

    @cached_property
    def without_tables(self) -> dict[ModelName, Snapshot]:
        """The models without a physical table, even if the environment has no view for them."""
        entries = self.version.entries.values()
        return self._snapshots(entry.name for entry in entries if entry.table_id is None)

    @cached_property
    def _selection_views(self) -> dict[ModelName, CatalogTable]:
        queries = self.without_tables
        read = {parent for one in queries.values() for parent in one.parents}
        found = find_selections(queries, self._snapshots(read & self.table_ids.keys()))
        return {name: one for name, one in found.items() if queries[name].model.kind.is_shown}

    def _snapshots(self, names: Iterable[ModelName]) -> dict[ModelName, Snapshot]:
        entries = [self.version.entries[name] for name in names]
        found = self.workspace.store.snapshots.load(entry.snapshot_id for entry in entries)
        return {entry.name: found[entry.snapshot_id] for entry in entries}


class ServedVersions:
    """Finds the version for a warehouse's name, and caches the versions used last."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._cached: LRUCache[tuple[object, ...], ServedVersion] = LRUCache(_VERSIONS)
        self._lock = threading.Lock()
        self._repeats = RepeatedColumnsCache()

    def find(self, name: WarehouseName) -> ServedVersion:
        """Return the version in a warehouse's name, or the newest version of the environment.

        Raises:
            ServeError: The environment or the version does not exist.
        """
        try:
            number = self._version_number(name)
            publication = self.workspace.store.versions.publication(name.environment, number)
            return self._cached_version(name.environment, number, publication)
        except UsageError as error:
            raise missing("Warehouse", str(error)) from error

    def _version_number(self, name: WarehouseName) -> int:
        store, environment = self.workspace.store, name.environment
        if name.version_text is None:
            number = store.environments.current_version(environment)
            if number is None:
                raise environment_not_found(store, environment)
            return number
        number = version_number(name.version_text)
        return (
            self._read_version(environment, name.version_text).version if number is None else number
        )

    @cachedmethod(attrgetter("_cached"), lock=attrgetter("_lock"))
    def _cached_version(
        self, environment: str, number: int, publication: str | None
    ) -> ServedVersion:
        return ServedVersion(self.workspace, self._read_version(environment, number), self._repeats)

    def _read_version(self, environment: str, version_text: int | str) -> Environment:
        found = published_version(self.workspace.store, f"{environment}@{version_text}")
        assert found is not None
        return found


LIVE = "+live"
_CATALOG = re.compile(r"[\w.-]{1,128}")


@dataclass(frozen=True, slots=True)
class WarehouseName:
    """A parsed warehouse name such as `prod`, `prod@41` or `prod~lake`, also used as path prefix.

    Args:
        version_text: The version's number or a time (UTC), as written; None for the newest.
        catalog: The client's name for this catalog, if it sent one: `prod~lake`.
    """

    environment: str
    version_text: str | None = None
    live: bool = False
    catalog: str | None = None

    @classmethod
    def parse(cls, text: str) -> WarehouseName:
        """Parse a warehouse name. The environment need not exist.

        Raises:
            UsageError: The client's catalog name is not allowed in a path.
        """
        rest, sign, catalog = text.strip().partition("~")
        if sign and not _CATALOG.fullmatch(catalog):
            raise UsageError(
                f"'{catalog[:40]}' is not a valid name of a catalog",
                hint="use letters, digits, '_', '-' and '.' after '~': prod~lake",
            )
        environment, sign, version_text = rest.partition("@")
        # An unescaped plus sign from a client means a blank in a query string.
        live = not sign and environment.endswith((LIVE, " live"))
        if live:
            environment = environment[: -len(LIVE)]
        return cls(
            environment.strip().lower(),
            version_text.strip() if sign else None,
            live,
            catalog or None,
        )

    def at(self, version: int) -> WarehouseName:
        return replace(self, version_text=str(version), live=False)

    def __str__(self) -> str:
        version = (
            f"@{self.version_text}" if self.version_text is not None else LIVE if self.live else ""
        )
        catalog = f"~{self.catalog}" if self.catalog else ""
        return f"{self.environment}{version}{catalog}"
