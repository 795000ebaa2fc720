"""Iceberg's JDBC catalog in the state store's own database: it promises everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalog import Pointer, Promises, SparkCatalog, Swap
from vde_dagster.lakehouse.catalogs import sql_pointers
from vde_dagster.lakehouse.catalogs.sql_spark import spark_catalog
from vde_dagster.planning.table import TableRef
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog as PyIcebergCatalog
    from pyiceberg.table import Table


class SqlCatalog:
    """The catalog whose tables lie beside the state's.

    Args:
        store: The state store.
        name: The catalog's name in its tables, the same as in Spark.
        warehouse: Base location of tables and views, a path or a URL.
        io: PyIceberg's settings for object stores.
    """

    promises = Promises(atomic_with_state=True, atomic_views=True, multi_table=True)
    mirror = None

    def __init__(
        self, store: StateStore, name: str, warehouse: str, io: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._store = store
        self._warehouse = warehouse
        self._io = dict(io or {})
        self._pyiceberg: PyIcebergCatalog | None = None

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Look up the pointers of the given names; absent ones are left out."""
        with self._store.database.reading(within) as conn:
            return sql_pointers.read_pointers(conn, self.name, refs)

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """List every table and view."""
        with self._store.database.reading(within) as conn:
            return sql_pointers.all_pointers(conn, self.name)

    def in_use(self, locations: Sequence[str]) -> set[str]:
        """Return those of some metadata files that a pointer names."""
        with self._store.database.reading() as conn:
            return sql_pointers.pointed_at(conn, locations)

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Compare and swap pointers, all of them or none.

        Raises:
            PointerMovedError: One of them is not at `before`.
        """
        if within is not None:
            sql_pointers.swap_pointers(within, self.name, swaps)
        else:
            self._store.database.run_transaction(
                lambda conn: sql_pointers.swap_pointers(conn, self.name, swaps),
                name="catalog.swap",
                idempotent=False,
            )

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        """Return those of the namespaces that the catalog has."""
        with self._store.database.reading(within) as conn:
            return sql_pointers.namespaces_present(conn, self.name, names)

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        """Create namespaces, each with its properties, that the catalog has not yet."""

        def work(conn: Connection) -> None:
            present = sql_pointers.namespaces_present(conn, self.name, namespaces)
            missing = {name: namespaces[name] for name in namespaces if name not in present}
            sql_pointers.create_namespaces(conn, self.name, missing)

        self._store.database.run(within, work, name="lakehouse.create_namespaces")

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace that holds nothing, nor a namespace below it; say whether it did."""
        return self._store.database.run(
            within,
            lambda conn: sql_pointers.drop_namespace_if_empty(conn, self.name, name),
            name="lakehouse.drop_namespace",
        )

    def load_table(self, ref: TableRef) -> Table:
        """Return a table as PyIceberg has it."""
        return self.pyiceberg.load_table((ref.namespace, ref.name))

    def for_spark(self) -> SparkCatalog:
        """Say how Spark reaches it."""
        url = self._store.database.engine.url.render_as_string(hide_password=False)
        return spark_catalog(url, self._warehouse, self._io)

    @property
    def pyiceberg(self) -> PyIcebergCatalog:
        """The same catalog for PyIceberg (imports it, which takes a second)."""
        if self._pyiceberg is None:
            from pyiceberg.catalog.sql import SqlCatalog as PyIcebergCatalog

            url = self._store.database.engine.url.render_as_string(hide_password=False)
            self._pyiceberg = PyIcebergCatalog(
                self.name,
                **{
                    **self._io,
                    "uri": url,
                    "warehouse": self._warehouse,
                    "init_catalog_tables": "false",
                },
            )
            # The engine that it made has asked for its tables, and keeps that connection.
            self._pyiceberg.engine.dispose()
            # Connections that wait for a lock, and are given up, as ours are.
            engine = self._store.database.engine
            if not self._store.database.is_sqlite:
                engine = engine.execution_options(isolation_level="READ COMMITTED")
            self._pyiceberg.engine = engine
        return self._pyiceberg
