"""Iceberg's JDBC catalog in the state store's own database: it promises everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from vde_dagster.lakehouse.catalogs.catalog import (
    TABLE,
    InTransaction,
    Pointer,
    SparkCatalog,
    Swap,
    require_unmoved,
)
from vde_dagster.lakehouse.catalogs.sql_spark import spark_catalog
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.rows import chunks
from vde_dagster.state.db.schema import iceberg_namespace_properties, iceberg_tables
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog as PyIcebergCatalog
    from pyiceberg.table import Table


class SqlCatalog:
    """The catalog whose tables lie beside the state's.

    Args:
        name: The catalog's name in its tables, the same as in Spark.
        warehouse: Base location of tables and views, a path or a URL.
        io: PyIceberg's settings for object stores.
    """

    form = InTransaction()
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
            return read_pointers(conn, self.name, refs)

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """List every table and view."""
        with self._store.database.reading(within) as conn:
            return all_pointers(conn, self.name)

    def in_use(self, locations: Sequence[str]) -> set[str]:
        """Return those of some metadata files that a pointer names."""
        with self._store.database.reading() as conn:
            return pointed_at(conn, locations)

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Compare and swap pointers, all of them or none.

        Raises:
            PointerMovedError: One of them is not at `before`.
        """
        if within is not None:
            swap_pointers(within, self.name, swaps)
        else:
            self._store.database.run_transaction(
                lambda conn: swap_pointers(conn, self.name, swaps),
                name="catalog.swap",
                idempotent=False,
            )

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        """Return those of the namespaces that the catalog has."""
        with self._store.database.reading(within) as conn:
            return namespaces_present(conn, self.name, names)

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        """Create namespaces, each with its properties, that the catalog has not yet."""

        def work(conn: Connection) -> None:
            present = namespaces_present(conn, self.name, namespaces)
            missing = {name: namespaces[name] for name in namespaces if name not in present}
            create_namespaces(conn, self.name, missing)

        self._store.database.run(within, work, name="lakehouse.create_namespaces")

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace that holds nothing, nor a namespace below it; say whether it did."""
        return self._store.database.run(
            within,
            lambda conn: drop_namespace_if_empty(conn, self.name, name),
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


# Built once: building a statement takes longer than running it.
_ROW = iceberg_tables.c
_PLACE = (
    (_ROW.catalog_name == bindparam("at_catalog"))
    & (_ROW.table_namespace == bindparam("at_namespace"))
    & (_ROW.table_name == bindparam("at_name"))
)
_AT = _PLACE & (_ROW.metadata_location == bindparam("at_location"))
_ONE_POINTER = select(_ROW.metadata_location, _ROW.iceberg_type).where(_PLACE)
_UPDATE = (
    update(iceberg_tables)
    .where(_AT)
    .values(
        metadata_location=bindparam("to_location"),
        previous_metadata_location=bindparam("at_location"),
        iceberg_type=bindparam("to_kind"),
    )
)
_DELETE = delete(iceberg_tables).where(_AT)


def read_pointers(
    connection: Connection, catalog: str, refs: Iterable[TableRef]
) -> dict[TableRef, Pointer]:
    """Read the pointers of the given names; absent ones are left out."""
    table = _ROW
    wanted: dict[str, list[str]] = {}
    for ref in dict.fromkeys(refs):
        wanted.setdefault(ref.namespace, []).append(ref.name)
    found: dict[TableRef, Pointer] = {}
    for namespace, names in wanted.items():
        if len(names) == 1:
            place = {"at_catalog": catalog, "at_namespace": namespace, "at_name": names[0]}
            one = connection.execute(_ONE_POINTER, place).first()
            if one is not None:
                ref = TableRef(namespace, names[0])
                found[ref] = Pointer(one.metadata_location, one.iceberg_type or TABLE)
            continue
        for part in chunks(names):
            query = select(table.table_name, table.metadata_location, table.iceberg_type).where(
                table.catalog_name == catalog,
                table.table_namespace == namespace,
                table.table_name.in_(part),
            )
            for row in connection.execute(query):
                ref = TableRef(namespace, row.table_name)
                found[ref] = Pointer(row.metadata_location, row.iceberg_type or TABLE)
    return found


def swap_pointers(connection: Connection, catalog: str, swaps: Sequence[Swap]) -> None:
    """Compare and swap many pointers inside the publish transaction: all of them, or an error.

    The transaction is exclusive (SQLite) or serializable (PostgreSQL), so what is compared here
    is still true when it commits.

    Raises:
        PointerMovedError: One of them is not at `before`.
    """
    now = read_pointers(connection, catalog, [swap.ref for swap in swaps])
    require_unmoved(now, swaps)
    _insert(connection, catalog, [swap for swap in swaps if swap.before is None and swap.after])
    _update(connection, catalog, [swap for swap in swaps if swap.before and swap.after])
    _delete(connection, catalog, [swap for swap in swaps if swap.before and swap.after is None])


def _insert(connection: Connection, catalog: str, swaps: Sequence[Swap]) -> None:
    if swaps:
        connection.execute(
            insert(iceberg_tables),
            [
                {
                    "catalog_name": catalog,
                    "table_namespace": swap.ref.namespace,
                    "table_name": swap.ref.name,
                    "metadata_location": swap.after,
                    "previous_metadata_location": None,
                    "iceberg_type": swap.kind,
                }
                for swap in swaps
            ],
        )


def _parameters(catalog: str, swap: Swap) -> dict[str, str | None]:
    return {
        "at_catalog": catalog,
        "at_namespace": swap.ref.namespace,
        "at_name": swap.ref.name,
        "at_location": swap.before,
        "to_location": swap.after,
        "to_kind": swap.becomes or swap.kind,
    }


def _update(connection: Connection, catalog: str, swaps: Sequence[Swap]) -> None:
    if swaps:
        connection.execute(_UPDATE, [_parameters(catalog, swap) for swap in swaps])


def _delete(connection: Connection, catalog: str, swaps: Sequence[Swap]) -> None:
    if swaps:
        parameters = [_parameters(catalog, swap) for swap in swaps]
        for parameter in parameters:
            del parameter["to_location"], parameter["to_kind"]
        connection.execute(_DELETE, parameters)


def namespaces_present(connection: Connection, catalog: str, names: Iterable[str]) -> set[str]:
    """Return those of the namespaces that the catalog has."""
    properties, tables = iceberg_namespace_properties.c, iceberg_tables.c
    wanted = list(dict.fromkeys(names))
    present: set[str] = set()
    for part in chunks(wanted):
        for catalog_name, column in (
            (properties.catalog_name, properties.namespace),
            (tables.catalog_name, tables.table_namespace),
        ):
            if present.issuperset(part):
                break  # Only namespaces that others made have no properties.
            query = select(column).where(catalog_name == catalog, column.in_(part)).distinct()
            present.update(connection.execute(query).scalars())
    return present


def create_namespaces(
    connection: Connection, catalog: str, namespaces: Mapping[str, Mapping[str, str]]
) -> None:
    """Add namespaces with properties; `exists` is what Iceberg's JDBC catalog marks them by."""
    rows = [
        {
            "catalog_name": catalog,
            "namespace": namespace,
            "property_key": key,
            "property_value": value,
        }
        for namespace, properties in namespaces.items()
        for key, value in {"exists": "true", **properties}.items()
    ]
    if rows:
        connection.execute(insert(iceberg_namespace_properties), rows)


def drop_namespace_if_empty(connection: Connection, catalog: str, namespace: str) -> bool:
    """Remove a namespace that holds nothing, nor a namespace below it; say whether it did."""
    table = iceberg_tables.c
    occupied = connection.execute(
        select(table.table_name)
        .where(
            table.catalog_name == catalog,
            or_(
                table.table_namespace == namespace,
                table.table_namespace.startswith(f"{namespace}.", autoescape=True),
            ),
        )
        .limit(1)
    ).first()
    if occupied:
        return False
    properties = iceberg_namespace_properties
    connection.execute(
        properties.delete().where(
            properties.c.catalog_name == catalog, properties.c.namespace == namespace
        )
    )
    return True


def all_pointers(connection: Connection, catalog: str) -> dict[TableRef, Pointer]:
    """Read every pointer."""
    query = select(
        _ROW.table_namespace, _ROW.table_name, _ROW.metadata_location, _ROW.iceberg_type
    ).where(_ROW.catalog_name == catalog)
    return {
        TableRef(row.table_namespace, row.table_name): Pointer(
            row.metadata_location, row.iceberg_type or TABLE
        )
        for row in connection.execute(query)
    }


def pointed_at(connection: Connection, locations: Sequence[str]) -> set[str]:
    """Return those of some metadata files that a pointer of any catalog names."""
    found: set[str] = set()
    for part in chunks(locations):
        query = select(_ROW.metadata_location).where(_ROW.metadata_location.in_(part))
        found.update(str(row.metadata_location) for row in connection.execute(query))
    return found
