"""Access to a lakehouse: its Iceberg catalog, its state store and its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Catalog
from vde_dagster.lakehouse.catalogs.sql import SqlCatalog
from vde_dagster.lakehouse.io.files import MetadataFiles, read_metadata
from vde_dagster.lakehouse.io.locations import table_location, warehouse_uri
from vde_dagster.lakehouse.io.manifests import parse_table, whole_avro
from vde_dagster.lakehouse.metadata.table_metadata import current_columns, head_of
from vde_dagster.lakehouse.metadata.view_metadata import view_columns
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class TableState:
    """The metadata of an Iceberg table, with the location of the metadata file."""

    location: str
    metadata: dict[str, Any]


class LakeHandles:
    """Iceberg catalog, state store and metadata files of a project."""

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
        """Return the current time in milliseconds since 1970 (UTC), as Iceberg stores it."""
        return int(self.store.database.clock.now().timestamp() * 1000)

    def views_folder(self, publication_id: str) -> str:
        return f"{self.warehouse}/_vde_views/{publication_id}"

    def table_location(self, ref: TableRef, table_id: str) -> str:
        """Build a physical table's base location, which ends with the table's id."""
        return table_location(self.warehouse, ref, table_id)

    def find_vde_folders(self) -> list[str]:
        """Return the names of the warehouse's folders for tables and views of vde.

        If the state store is new, these folders belong to another state store.
        """
        names = self.files.folders(self.warehouse)
        return [name for name in names if name.startswith(("vde__", "_vde_"))]

    def metadata_location(self, ref: TableRef) -> str | None:
        """Look up a table's metadata file, or return None without such a table."""
        return self.metadata_locations([ref]).get(ref)

    def metadata_locations(self, refs: Iterable[TableRef]) -> dict[TableRef, str]:
        """Look up the metadata files of tables. Views and missing names are left out."""
        pointers = self.catalog.pointers(refs)
        return {ref: at.location for ref, at in pointers.items() if at.kind == TABLE}

    def load_table(self, ref: TableRef) -> Table:
        """Load a table as PyIceberg's `Table`, for reading."""
        found = self._table(ref)
        return self.table_from_metadata(found.metadata, ref, found.location)

    def table_from_metadata(
        self, metadata: dict[str, Any], ref: TableRef, location: str = ""
    ) -> Table:
        """Create PyIceberg's `Table` from metadata that was read from `location`."""
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.table import Table

        loaded = parse_table(metadata, location, str(ref))
        io = whole_avro(self.files.file_io(location or metadata["location"]))
        name = (ref.namespace, ref.name)
        return Table(name, loaded, location, io, NoopCatalog(self.catalog_name))

    def table_metadata(self, ref: TableRef) -> dict[str, Any]:
        return self._table(ref).metadata

    def tables_metadata(self, refs: Iterable[TableRef]) -> dict[TableRef, dict[str, Any]]:
        """Read the metadata of several tables. Missing tables are left out."""
        locations = self.metadata_locations(refs)
        return {ref: read_metadata(self.files, at, str(ref)) for ref, at in locations.items()}

    def find_table(self, ref: TableRef, table_id: str | None = None) -> TableState | None:
        """Read a table's metadata, or return None without such a table.

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
                hint="find what is lost, and how to repair it: vde fsck",
            )
        return found

    def relation_columns(self, ref: TableRef) -> list[tuple[str, str, str | None]] | None:
        """Return (name, Spark SQL type, description) of each column of a table or view.

        Return None if the table or view does not exist.
        """
        pointer = self.catalog.pointers([ref]).get(ref)
        if pointer is None:
            return None
        is_view = pointer.kind == VIEW
        metadata = read_metadata(self.files, pointer.location, str(ref), is_view=is_view)
        return (view_columns if is_view else current_columns)(metadata)

    def main_snapshot(self, ref: TableRef, branch: str | None = None) -> int | None:
        """Return the newest Iceberg snapshot of a branch (or `main`), or None without a commit."""
        return head_of(self.table_metadata(ref), branch)
