"""Iceberg without Spark: what the catalog has, and the publish transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.files import MetadataFiles, read_metadata
from vde_dagster.lakehouse.new_table import NewTable, create_table
from vde_dagster.lakehouse.pointers import (
    TABLE,
    create_namespaces,
    namespaces_present,
    read_pointers,
)
from vde_dagster.lakehouse.prepare import differences, ref_of
from vde_dagster.lakehouse.publication import Publication
from vde_dagster.lakehouse.publish import publish
from vde_dagster.lakehouse.table_metadata import (
    CommittedFill,
    committed_fills,
    current_columns,
    head_of,
)
from vde_dagster.lakehouse.view_ledger import published_views
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.table import TableRef
from vde_dagster.planning.work import ViewDefinition
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table


class Lakehouse:
    """An Iceberg catalog in the state store's database, and the files that it points to.

    Args:
        store: The state store; its database holds the catalog's tables too.
        catalog_name: The catalog's name in its tables, the same as in Spark.
        warehouse: Base location of tables and views, a path or a URL.
        trino_catalog: The catalog's name in Trino, when it is another.
        io_properties: PyIceberg's settings for object stores.
    """

    def __init__(
        self,
        store: StateStore,
        catalog_name: str,
        warehouse: str,
        trino_catalog: str | None = None,
        io_properties: dict[str, str] | None = None,
    ) -> None:
        self.store = store
        self.catalog_name = catalog_name
        self.warehouse = _as_location(warehouse)
        self.trino_catalog = trino_catalog
        self.io_properties = io_properties or {}
        self.files = MetadataFiles(store.effects, self.warehouse, self.io_properties)
        self._pyiceberg: SqlCatalog | None = None

    @property
    def pyiceberg_catalog(self) -> SqlCatalog:
        """The same catalog for PyIceberg (imports it, which takes a second)."""
        if self._pyiceberg is None:
            from pyiceberg.catalog.sql import SqlCatalog

            url = self.store.engine.url.render_as_string(hide_password=False)
            self._pyiceberg = SqlCatalog(
                self.catalog_name,
                **{
                    **self.io_properties,
                    "uri": url,
                    "warehouse": self.warehouse,
                    "init_catalog_tables": "false",
                },
            )
            if self.store.is_sqlite:
                # PyIceberg's own connections wait for a lock too, as ours and Spark's do.
                self._pyiceberg.engine = self.store.engine
        return self._pyiceberg

    def new_location(self, ref: TableRef, unique: str) -> str:
        """Return a base location for a view or table that was never used and never will be.

        Args:
            ref: Its place in the catalog, for people who look at the storage.
            unique: An id that is never used again.
        """
        return f"{self.warehouse}/{_slug(ref.namespace)}/{_slug(ref.name)}-{unique}"

    def views_folder(self, publication_id: str) -> str:
        """Return the folder of the view metadata files that one publication writes."""
        return f"{self.warehouse}/_vde_views/{publication_id}"

    def table_location(self, ref: TableRef, table_id: str) -> str:
        """Return the base location of a physical table; its last part ends with the unique id."""
        return f"{self.warehouse}/{ref.namespace}/{ref.name}-{table_id}"

    def table_exists(self, ref: TableRef) -> bool:
        """Say whether the catalog has a table (not a view) of that name."""
        return self.metadata_location(ref) is not None

    def metadata_location(self, ref: TableRef) -> str | None:
        """Return the metadata file of a table, or None when there is no such table."""
        with self.store.reading() as conn:
            pointer = read_pointers(conn, self.catalog_name, [ref]).get(ref)
        return pointer.location if pointer is not None and pointer.kind == TABLE else None

    def metadata_locations(self, refs: Iterable[TableRef]) -> dict[TableRef, str]:
        """Return the metadata files of those names that are tables, read together."""
        with self.store.reading() as conn:
            pointers = read_pointers(conn, self.catalog_name, refs)
        return {ref: at.location for ref, at in pointers.items() if at.kind == TABLE}

    def load_table(self, ref: TableRef) -> Table:
        """Return a table as PyIceberg has it.

        Raises:
            ExecutionError: There is no such table.
        """
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self.pyiceberg_catalog.load_table((ref.namespace, ref.name))
        except NoSuchTableError as error:
            raise self._no_table(ref) from error

    def table_metadata(self, ref: TableRef) -> dict[str, Any]:
        """Return a table's metadata as JSON data.

        Raises:
            ExecutionError: There is no such table, or its metadata file is missing.
        """
        location = self.metadata_location(ref)
        if location is None:
            raise self._no_table(ref)
        return read_metadata(self.files, location, str(ref))

    def table_columns(self, ref: TableRef) -> list[tuple[str, str, str | None]]:
        """Return (name, Spark SQL type, description) of a table's columns, in order.

        Raises:
            ExecutionError: There is no such table.
        """
        return current_columns(self.table_metadata(ref))

    def main_snapshot(self, ref: TableRef, branch: str | None = None) -> int | None:
        """Return the Iceberg snapshot id that `main` or a branch is at, or None."""
        return head_of(self.table_metadata(ref), branch)

    def committed_fills(self, ref: TableRef, branch: str | None = None) -> list[CommittedFill]:
        """Return what Iceberg's commits on `main` or a branch say was filled, newest first.

        Empty when there is no such table.
        """
        if not self.table_exists(ref):
            return []
        return committed_fills(self.table_metadata(ref), branch)

    def create_table(self, new: NewTable) -> bool:
        """Make an unpartitioned table, perhaps with a branch to begin with, and its namespace.

        Returns:
            False when something has the name already.

        Raises:
            ExecutionError: Iceberg has no such type, or a file could not be written.
        """
        return create_table(self, new)

    def ensure_namespaces(self, names: Iterable[str]) -> None:
        """Create namespaces (for physical tables) that the catalog has not yet."""
        wanted = list(dict.fromkeys(names))
        with self.store.reading() as conn:
            if namespaces_present(conn, self.catalog_name, wanted) >= set(wanted):
                return

        def work(conn: Connection) -> None:
            missing = set(wanted) - namespaces_present(conn, self.catalog_name, wanted)
            create_namespaces(conn, self.catalog_name, {name: {} for name in sorted(missing)})

        self.store.run_transaction(work, name="lakehouse.create_namespaces")

    def changed_views(
        self, definitions: Sequence[ViewDefinition], namespaces: Sequence[str] = ()
    ) -> tuple[list[TableRef], list[TableRef], list[TableRef]]:
        """Say what publishing would do to views, without writing or reading any file.

        Args:
            definitions: The complete set of an environment's views.
            namespaces: Namespaces whose other published views would be dropped.

        Returns:
            Created, replaced and dropped views.

        Raises:
            ConflictError: A name is taken by something that vde did not publish.
        """
        wanted = {ref_of(definition) for definition in definitions}
        with self.store.reading() as conn:
            ledger = published_views(conn, self.catalog_name, namespaces=namespaces)
            dropped = [ref for ref in ledger if ref not in wanted]
            found = differences(conn, self.catalog_name, definitions, dropped)
        return (
            [ref_of(definition) for definition in found.created],
            [ref_of(definition) for definition, _ in found.replaced],
            [ref for ref, _ in found.dropped],
        )

    def published_views(self, environment: str) -> list[TableRef]:
        """Return the views that publications of an environment left in the catalog."""
        with self.store.reading() as conn:
            return list(published_views(conn, self.catalog_name, environment=environment))

    def moved_views(self, environment: str) -> set[TableRef]:
        """Return an environment's views that are not as their publication left them."""
        with self.store.reading() as conn:
            ledger = published_views(conn, self.catalog_name, environment=environment)
            pointers = read_pointers(conn, self.catalog_name, ledger)
        return {
            ref
            for ref, known in ledger.items()
            if ref not in pointers or pointers[ref].location != known.metadata_location
        }

    def publish(self, publication: Publication) -> Environment:
        """Make a publication visible, all of it or nothing; see `publish.publish`."""
        return publish(self, publication)

    def _no_table(self, ref: TableRef) -> ExecutionError:
        return ExecutionError(
            f"the catalog '{self.catalog_name}' has no table {ref}",
            hint="apply the plan again; `vde fsck` says what is damaged",
        )


def _as_location(warehouse: str) -> str:
    if "://" in warehouse or warehouse.startswith("file:"):
        return warehouse.rstrip("/")
    return f"file://{Path(warehouse).resolve()}"


def _slug(name: str) -> str:
    """Make a short, plain file name of any name; it is for people, the unique id tells apart."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower())[:48].strip("-") or "x"
