"""What one version of an environment has for clients: its tables, views and external tables."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.make_plans import no_environment
from vde_dagster.execution.published_version import published_version, version_number
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.external_table import external_table
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable, TableRef
from vde_dagster.serve.errors import missing
from vde_dagster.serve.warehouse_names import WarehouseName
from vde_dagster.state.pins import Pin

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse

_VERSIONS = 32


@dataclass
class ServedVersion:
    """One version of an environment; it never changes, so all of it is read once.

    Args:
        warehouse: The project's warehouse.
        version: The version.
    """

    warehouse: Warehouse
    version: Environment

    @cached_property
    def tables(self) -> dict[ModelName, str]:
        """The physical table's id of each model that has one."""
        entries = self.version.entries.values()
        return {entry.name: entry.table_id for entry in entries if entry.table_id is not None}

    @cached_property
    def views(self) -> dict[ModelName, Snapshot]:
        """The models that are shown as views."""
        return {name: one for name, one in self._without_tables.items() if one.model.kind.is_shown}

    @cached_property
    def externals(self) -> dict[ModelName, TableRef]:
        """The tables that others write and that are in this catalog, by their names there."""
        found = (
            external_table(one.model)
            for one in self._without_tables.values()
            if one.model.kind.is_external
        )
        refs = [TableRef(one.namespace, one.name) for one in found if one.catalog is None]
        names = {ModelName(ref.namespace, ref.name): ref for ref in refs}
        own = self.tables.keys() | self.views.keys()
        there = self.warehouse.lakehouse.metadata_locations(refs)
        return {name: ref for name, ref in names.items() if ref in there and name not in own}

    @cached_property
    def pins(self) -> dict[str, Pin]:
        """What each physical table held, by its id."""
        return self.warehouse.store.pins.at(self.version.name, self.version.version)

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that have something, in order."""
        names = (*self.tables, *self.views, *self.externals)
        return tuple(sorted({name.namespace for name in names}))

    @cached_property
    def listed_tables(self) -> dict[str, list[str]]:
        """The names of tables, those of others among them, by namespace and in order."""
        return _by_namespace((*self.tables, *self.externals))

    @cached_property
    def listed_views(self) -> dict[str, list[str]]:
        """The names of views, by namespace and in order."""
        return _by_namespace(self.views)

    def resolver(self, names: Iterable[ModelName]) -> Resolver:
        """Return what resolves models, and what those read that have no table."""
        store, entries = self.warehouse.store, self.version.entries
        snapshots: dict[str, Snapshot] = {}
        waiting = set(names)
        while waiting:
            found = store.snapshots.load(entries[name].snapshot_id for name in waiting)
            snapshots |= found
            queries = [one for one in found.values() if one.name not in self.tables]
            parents = {parent for one in queries for parent in one.parents} & entries.keys()
            waiting = {one for one in parents if entries[one].snapshot_id not in snapshots}
        ids = {entries[one.name].table_id for one in snapshots.values()}
        tables: dict[str, PhysicalTable] = store.tables.load([one for one in ids if one])
        return Resolver(self.version.name, entries, snapshots, tables)

    @cached_property
    def _without_tables(self) -> dict[ModelName, Snapshot]:
        entries = [one for one in self.version.entries.values() if one.table_id is None]
        found = self.warehouse.store.snapshots.load(entry.snapshot_id for entry in entries)
        return {entry.name: found[entry.snapshot_id] for entry in entries}


def _by_namespace(names: Iterable[ModelName]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(name.namespace, []).append(name.name)
    return found


class Versions:
    """Finds versions by what clients call them, and keeps those that were asked for last.

    Args:
        warehouse: The project's warehouse.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self._kept: OrderedDict[tuple[str, int, str], ServedVersion] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: WarehouseName) -> ServedVersion:
        """Return the version that a name means now.

        Raises:
            ServeError: There is none.
        """
        try:
            number = self._number(name)
            if number is not None:
                return self._version(name.environment, number)
            found = published_version(self.warehouse.store, f"{name.environment}@{name.meant}")
        except UsageError as error:
            raise missing("Warehouse", str(error)) from error
        assert found is not None
        return self._keep(found)

    def _number(self, name: WarehouseName) -> int | None:
        if name.meant is not None:
            return version_number(name.meant)
        number = self.warehouse.store.environments.current_version(name.environment)
        if number is None:
            raise no_environment(self.warehouse.store, name.environment)
        return number

    def _version(self, environment: str, number: int) -> ServedVersion:
        publication = self.warehouse.store.versions.publication(environment, number)
        with self._lock:
            kept = self._kept.get((environment, number, publication or ""))
        if kept is not None:
            return kept
        found = published_version(self.warehouse.store, f"{environment}@{number}")
        assert found is not None
        return self._keep(found)

    def _keep(self, version: Environment) -> ServedVersion:
        key = (version.name, version.version, version.publication_id)
        with self._lock:
            kept = self._kept.setdefault(key, ServedVersion(self.warehouse, version))
            self._kept.move_to_end(key)
            while len(self._kept) > _VERSIONS:
                self._kept.popitem(last=False)
        return kept
