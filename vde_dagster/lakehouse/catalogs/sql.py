"""Iceberg's JDBC catalog in the state store's database, which shares the state's transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from vde_dagster.lakehouse.catalogs.by_settings import spark_catalog
from vde_dagster.lakehouse.catalogs.catalog import TABLE, InTransaction, Pointer, SparkCatalog, Swap
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.rows import among
from vde_dagster.state.db.schema import iceberg_namespace_properties, iceberg_tables
from vde_dagster.state.store import StateStore

# Built once: building a statement takes longer than running it.
_ROW = iceberg_tables.c
_PROPERTIES = iceberg_namespace_properties.c
_IN_NAMESPACE = (_ROW.catalog_name == bindparam("at_catalog")) & (
    _ROW.table_namespace == bindparam("at_namespace")
)
_PLACE = _IN_NAMESPACE & (_ROW.table_name == bindparam("at_name"))
_AT = _PLACE & (_ROW.metadata_location == bindparam("at_location"))
_POINTERS = select(_ROW.table_namespace, _ROW.table_name, _ROW.metadata_location, _ROW.iceberg_type)
_ONE_POINTER = _POINTERS.where(_PLACE)
_NEAR_POINTERS = _POINTERS.where(_IN_NAMESPACE)
_UPDATE = (
    update(iceberg_tables)
    .where(_AT)
    .values(
        metadata_location=bindparam("to_location"),
        previous_metadata_location=bindparam("at_location"),
        iceberg_type=bindparam("to_kind"),
    )
)
_NAMESPACES = tuple(
    (select(column).where(catalog_name == bindparam("at_catalog")).distinct(), column)
    for catalog_name, column in (
        (_PROPERTIES.catalog_name, _PROPERTIES.namespace),
        (_ROW.catalog_name, _ROW.table_namespace),
    )
)
_DELETE = delete(iceberg_tables).where(_AT)


class SqlCatalog:
    """Iceberg's JDBC catalog in the state's database."""

    form = InTransaction()
    mirror = None

    def __init__(
        self, store: StateStore, name: str, warehouse: str, io: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._store = store
        self._warehouse = warehouse
        self._io = dict(io or {})

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        wanted: dict[str, list[str]] = {}
        for ref in dict.fromkeys(refs):
            wanted.setdefault(ref.namespace, []).append(ref.name)
        found: dict[TableRef, Pointer] = {}
        with self._store.database.reading(within) as conn:
            for namespace, names in wanted.items():
                place = {"at_catalog": self.name, "at_namespace": namespace}
                if len(names) == 1:
                    found |= _found(conn.execute(_ONE_POINTER, {**place, "at_name": names[0]}))
                else:
                    found |= _found(among(conn, _NEAR_POINTERS, _ROW.table_name, names, place))
        return found

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        query = _POINTERS.where(_ROW.catalog_name == self.name)
        return _found(self._store.database.rows(query, within))

    def every_pointer(self) -> list[Pointer]:
        rows = self._store.database.rows(select(_ROW.metadata_location, _ROW.iceberg_type))
        # A table's row has no type if the catalog's first schema wrote it.
        return [Pointer(row[0], row[1] or TABLE) for row in rows if row[0] is not None]

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        if within is None:
            return self._store.database.run_transaction(
                lambda conn: self.swap(swaps, conn), name="catalog.swap", idempotent=False
            )
        # The transaction is exclusive (SQLite) or serializable (PostgreSQL), so no pointer
        # can change between this comparison and the commit.
        pointers = self.pointers([swap.ref for swap in swaps], within)
        for swap in swaps:
            swap.require_unmoved(pointers.get(swap.ref))
        made = [swap for swap in swaps if swap.before is None and swap.after]
        moved = [swap for swap in swaps if swap.before and swap.after]
        gone = [swap for swap in swaps if swap.before and swap.after is None]
        if made:
            rows = [
                {
                    "catalog_name": self.name,
                    "table_namespace": swap.ref.namespace,
                    "table_name": swap.ref.name,
                    "metadata_location": swap.after,
                    "previous_metadata_location": None,
                    "iceberg_type": swap.kind,
                }
                for swap in made
            ]
            within.execute(insert(iceberg_tables), rows)
        if moved:
            changes = [
                {**self._at(swap), "to_location": swap.after, "to_kind": swap.becomes or swap.kind}
                for swap in moved
            ]
            within.execute(_UPDATE, changes)
        if gone:
            within.execute(_DELETE, [self._at(swap) for swap in gone])

    def _at(self, swap: Swap) -> dict[str, str | None]:
        return {
            "at_catalog": self.name,
            "at_namespace": swap.ref.namespace,
            "at_name": swap.ref.name,
            "at_location": swap.before,
        }

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        wanted = set(names)
        present: set[str] = set()
        # Namespaces without properties were created by other programs.
        with self._store.database.reading(within) as conn:
            for query, column in _NAMESPACES:
                absent = sorted(wanted - present)
                rows = among(conn, query, column, absent, {"at_catalog": self.name})
                present |= {row[0] for row in rows}
        return present

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        def work(conn: Connection) -> None:
            present = self.namespaces(namespaces, conn)
            rows = [
                {
                    "catalog_name": self.name,
                    "namespace": namespace,
                    "property_key": key,
                    "property_value": value,
                }
                for namespace, properties in namespaces.items()
                if namespace not in present
                # Iceberg's JDBC catalog recognizes namespaces by this property.
                for key, value in {"exists": "true", **properties}.items()
            ]
            if rows:
                conn.execute(insert(iceberg_namespace_properties), rows)

        self._store.database.run(within, work, name="lakehouse.create_namespaces")

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        below = _ROW.table_namespace.startswith(f"{name}.", autoescape=True)
        inside = _ROW.catalog_name == self.name, or_(_ROW.table_namespace == name, below)
        own = _PROPERTIES.catalog_name == self.name, _PROPERTIES.namespace == name

        def work(conn: Connection) -> bool:
            if conn.execute(select(_ROW.table_name).where(*inside).limit(1)).first():
                return False
            conn.execute(iceberg_namespace_properties.delete().where(*own))
            return True

        return self._store.database.run(within, work, name="lakehouse.drop_namespace")

    def for_spark(self) -> SparkCatalog:
        url = self._store.database.engine.url.render_as_string(hide_password=False)
        path = self._store.database.search_path()
        return spark_catalog(url, self._warehouse, self._io, path)


def _found(rows: Iterable[Any]) -> dict[TableRef, Pointer]:
    return {
        TableRef(row.table_namespace, row.table_name): Pointer(
            row.metadata_location, row.iceberg_type or TABLE
        )
        for row in rows
    }
