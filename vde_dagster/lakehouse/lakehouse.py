"""Iceberg without Spark: the catalog's content, and the publish transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import DamagedFileError, ExecutionError, UsageError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Catalog
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.io.files import MetadataFiles, read_metadata
from vde_dagster.lakehouse.io.locations import table_location, warehouse_uri
from vde_dagster.lakehouse.io.manifests import parse_table, whole_avro
from vde_dagster.lakehouse.metadata.table_metadata import current_columns, head_of
from vde_dagster.lakehouse.metadata.view_metadata import view_columns
from vde_dagster.lakehouse.publishing.commit import TableState
from vde_dagster.lakehouse.publishing.finish_publication import recover
from vde_dagster.lakehouse.publishing.new_table import NewTable, create_table
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.lakehouse.publishing.publish import publish
from vde_dagster.lakehouse.publishing.view_ledger import published_views
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from pyiceberg.table import Table


class Lakehouse:
    """An Iceberg catalog, with its files and the state store."""

    def __init__(
        self,
        store: StateStore,
        catalog_name: str,
        warehouse: str,
        io_properties: dict[str, str] | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self.store = store
        self.catalog_name = catalog_name
        self.warehouse = warehouse_uri(warehouse)
        self.files = MetadataFiles(store.database.effects, self.warehouse, io_properties)
        self.catalog: Catalog = catalog or SqlCatalog(
            store, catalog_name, self.warehouse, io_properties
        )

    def now_ms(self) -> int:
        """Return the current time in Iceberg's unit: milliseconds since 1970 (UTC)."""
        return int(self.store.database.clock.now().timestamp() * 1000)

    def views_folder(self, publication_id: str) -> str:
        """Return the folder for the view metadata files of one publication."""
        return f"{self.warehouse}/_vde_views/{publication_id}"

    def table_location(self, ref: TableRef, table_id: str) -> str:
        """Return the base location of a physical table; its last part ends with the unique id."""
        return table_location(self.warehouse, ref, table_id)

    def left_by_others(self) -> list[str]:
        """Return the names of folders with files of publications, of this or any other state."""
        names = self.files.folders(self.warehouse)
        return [name for name in names if name.startswith(("vde__", "_vde_"))]

    def metadata_location(self, ref: TableRef) -> str | None:
        """Return the metadata file of a table, or None if the table does not exist."""
        return self.metadata_locations([ref]).get(ref)

    def metadata_locations(self, refs: Iterable[TableRef]) -> dict[TableRef, str]:
        """Return the metadata files of the given names that are tables, in one lookup."""
        pointers = self.catalog.pointers(refs)
        return {ref: at.location for ref, at in pointers.items() if at.kind == TABLE}

    def load_table(self, ref: TableRef) -> Table:
        """Return a table as PyIceberg's class, for reading."""
        found = self._table(ref)
        return self.table_from_metadata(found.metadata, ref, found.location)

    def table_from_metadata(
        self, metadata: dict[str, Any], ref: TableRef, location: str = ""
    ) -> Table:
        """Return a table with the given metadata as PyIceberg's class, for reading.

        Args:
            location: The metadata file, if it was read from one.
        """
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.table import Table

        loaded = parse_table(metadata, location, str(ref))
        io = whole_avro(self.files.file_io(location or metadata["location"]))
        name = (ref.namespace, ref.name)
        return Table(name, loaded, location, io, NoopCatalog(self.catalog_name))

    @contextmanager
    def naming_damage(self, refs: Callable[[Exception], Collection[TableRef]]) -> Iterator[None]:
        """Replace an error that a damaged file of some tables caused by one that names the file.

        Raises:
            DamagedFileError: A file of the tables is missing or damaged.
        """
        try:
            yield
        except (UsageError, DamagedFileError):
            raise
        except Exception as error:
            from vde_dagster.lakehouse.maintenance.fsck import find_damage

            damaged = find_damage(self, refs(error))
            if damaged is not None:
                raise damaged from error
            raise

    def table_metadata(self, ref: TableRef) -> dict[str, Any]:
        """Return a table's metadata as JSON data."""
        return self._table(ref).metadata

    def find_table(self, ref: TableRef, table_id: str | None = None) -> TableState | None:
        """Return a table's metadata and its file, or None if the table does not exist.

        Raises:
            DamagedFileError: The file is missing or damaged, or belongs to a table with another id.
        """
        location = self.metadata_location(ref)
        if location is None:
            return None
        return TableState(location, read_metadata(self.files, location, str(ref), table_id))

    def _table(self, ref: TableRef) -> TableState:
        found = self.find_table(ref)
        if found is None:
            raise ExecutionError(
                f"the catalog '{self.catalog_name}' has no table {ref}",
                hint="apply the plan again; to find damaged files: vde fsck",
            )
        return found

    def relation_columns(self, ref: TableRef) -> list[tuple[str, str, str | None]] | None:
        """Return (name, Spark SQL type, description) of a relation's columns, if it exists."""
        pointer = self.catalog.pointers([ref]).get(ref)
        if pointer is None:
            return None
        is_view = pointer.kind == VIEW
        metadata = read_metadata(self.files, pointer.location, str(ref), is_view=is_view)
        return (view_columns if is_view else current_columns)(metadata)

    def main_snapshot(self, ref: TableRef, branch: str | None = None) -> int | None:
        """Return the Iceberg snapshot id of `main` or a branch, or None."""
        return head_of(self.table_metadata(ref), branch)

    def create_table(self, new: NewTable) -> bool:
        """Create an unpartitioned table, optionally with a first branch, and its namespace."""
        return create_table(self, new)

    def published_views(self, environment: str) -> list[TableRef]:
        """Return the views that publications of an environment left in the catalog."""
        with self.store.database.reading() as conn:
            return list(published_views(conn, self.catalog_name, environment=environment))

    def views_ending(self, environment: str, suffix: str) -> dict[TableRef, dict[str, str]]:
        """Return the properties of an environment's views whose names end with a suffix.

        They are empty for a view that was changed after its publication.
        """
        views = self._views_there(environment, suffix)

        def read(item: tuple[TableRef, str | None]) -> tuple[TableRef, dict[str, str]]:
            ref, location = item
            try:
                metadata = self.files.read_json(location) if location is not None else {}
            except FileNotFoundError:
                return ref, {}
            return ref, dict(metadata.get("properties", {}))

        return dict(self.files.each(read, list(views.items())))

    def moved_views(self, environment: str) -> set[TableRef]:
        """Return an environment's views that were changed or dropped after their publication."""
        return {ref for ref, at in self._views_there(environment).items() if at is None}

    def _views_there(self, environment: str, ending: str = "") -> dict[TableRef, str | None]:
        """Return an environment's views with their files; None for views changed since."""
        with self.store.database.reading() as conn:
            ledger = published_views(
                conn, self.catalog_name, environment=environment, ending=ending
            )
            pointers = self.catalog.pointers(ledger, conn) if ledger else {}
        found = {ref: (known.metadata_location, pointers.get(ref)) for ref, known in ledger.items()}
        return {ref: at if now and now.location == at else None for ref, (at, now) in found.items()}

    def publish(self, publication: Publication) -> Environment:
        """Make a publication visible, all of it or nothing; see `publish.publish`."""
        return publish(self, publication)

    def recover(self) -> bool:
        """Finish decided publications that other processes began; see `finish_publication`."""
        return recover(self)
