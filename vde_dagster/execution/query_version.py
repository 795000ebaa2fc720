"""Querying a version of an environment: its definitions over the data that it pinned.

No view is read, as views are those of the current version. Model names stand for what they were:
tables as of their pins, and queries of models without a table over those. External tables have no
pins; that they are read as they are now is part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.query import QueryResult, externals_of, names_in_queries
from vde_dagster.lakehouse.pinned_tables import pinned_tables
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.pinned import PinnedTable
from vde_dagster.planning.render import relation, replace_tables
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.state.pins import Pin

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def query_version(
    warehouse: Warehouse, version: Environment, sql: str, limit: int | None, *, raw: bool = False
) -> QueryResult:
    """Run a query over what a version of an environment showed when it was published.

    Raises:
        UsageError: The query cannot be read, does more than to read models, or reads a model whose
            data of that version are not known or gone.
    """
    from sqlglot.errors import SqlglotError

    from vde_dagster.execution.query_rules import check_query, refuse_substitution

    names = names_in_queries(warehouse.settings, externals_of(warehouse, version).values())
    if not raw:
        check_query(sql, version.entries.keys(), names)
    reader = PinnedVersion(warehouse, version)
    try:
        rendered = replace_tables(sql, reader.relation, names)
    except SqlglotError as error:
        raise UsageError(
            f"the query cannot be read: {str(error).splitlines()[0]}",
            hint="write it in Spark SQL",
        ) from error
    if not raw:
        refuse_substitution(rendered)
    columns, rows = warehouse.engine().query(rendered, limit)
    live = tuple(sorted(map(str, reader.live)))
    return QueryResult(tuple(columns), tuple(rows), version.publication_id, version.version, live)


@dataclass
class PinnedVersion:
    """What the models of a version stand for; reads the definitions of those that are asked for.

    Args:
        warehouse: The project's warehouse.
        version: The version.
        live: The external tables that were asked for, by what reads them too.
    """

    warehouse: Warehouse
    version: Environment
    live: set[ModelName] = field(default_factory=set)
    _snapshots: dict[str, Snapshot] = field(default_factory=dict)
    _tables: dict[str, PhysicalTable] = field(default_factory=dict)
    _pinned: dict[str, PinnedTable] = field(default_factory=dict)
    _pins: dict[str, Pin] | None = None

    def relation(self, name: ModelName) -> str | None:
        """Return the query that a name stands for; None for what is no model of the version.

        Raises:
            UsageError: The data of the version are not known, or gone.
        """
        if name not in self.version.entries:
            return None
        self._load({name})
        resolver = Resolver(
            self.version.name,
            self.version.entries,
            self._snapshots,
            self._tables,
            pinned=self._pinned,
        )
        return relation(name, resolver, self.warehouse.settings.catalog)

    def _load(self, waiting: set[ModelName]) -> None:
        """Read models, and of those without a table what they read."""
        entries, store = self.version.entries, self.warehouse.store
        while waiting:
            wanted = [entries[name] for name in waiting]
            found = store.snapshots.load(entry.snapshot_id for entry in wanted)
            self._snapshots |= found
            ids = {entry.table_id: entry.name for entry in wanted if entry.table_id}
            self._load_tables({one: name for one, name in ids.items() if one not in self._tables})
            queries = [found[entry.snapshot_id] for entry in wanted if entry.table_id is None]
            self.live |= {one.name for one in queries if one.model.kind.is_external}
            parents = {parent for one in queries for parent in one.parents}
            waiting = {
                name
                for name in parents & entries.keys()
                if entries[name].snapshot_id not in self._snapshots
            }

    def _load_tables(self, models: dict[str, ModelName]) -> None:
        store = self.warehouse.store
        if models and self._pins is None:
            self._pins = store.pins.at(self.version.name, self.version.version)
        pins = self._pins or {}
        for table_id, name in models.items():
            if table_id not in pins:
                raise self._not_known(name)
        tables = store.tables.load(models)
        states = {one.id: (one.ref, pins[one.id].held) for one in tables.values()}
        self._tables |= tables
        found = pinned_tables(self.warehouse.lakehouse, states)
        self._pinned |= found
        for table_id, name in models.items():
            if table_id not in found:
                raise self._gone(name)

    def _not_known(self, name: ModelName) -> UsageError:
        return UsageError(
            f"it is not known what {name} held in version {self.version.version} of "
            f"'{self.version.name}': it was published before versions pinned their data",
            hint=f"read a later version: vde history {self.version.name}",
        )

    def _gone(self, name: ModelName) -> UsageError:
        return UsageError(
            f"the data of {name} in version {self.version.version} of '{self.version.name}' are "
            "gone: another program than vde expired or dropped them",
            hint="`vde fsck` says what is damaged; read another version, or restore a backup",
        )
