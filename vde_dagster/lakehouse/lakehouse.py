"""Iceberg without Spark: what the catalog has, and the publish transaction."""

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
    """An Iceberg catalog with the state store beside it, and the files that it points to."""

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
        """Return the time as Iceberg's metadata have it: milliseconds since 1970 (UTC)."""
        return int(self.store.database.clock.now().timestamp() * 1000)

    def views_folder(self, publication_id: str) -> str:
        """Return the folder of the view metadata files that one publication writes."""
        return f"{self.warehouse}/_vde_views/{publication_id}"

    def table_location(self, ref: TableRef, table_id: str) -> str:
        """Return the base location of a physical table; its last part ends with the unique id."""
        return table_location(self.warehouse, ref, table_id)

    def left_by_others(self) -> list[str]:
        """Name the folders in which publications of some state keep their files."""
        names = self.files.folders(self.warehouse)
        return [name for name in names if name.startswith(("vde__", "_vde_"))]

    def metadata_location(self, ref: TableRef) -> str | None:
        """Return the metadata file of a table, or None when there is no such table."""
        return self.metadata_locations([ref]).get(ref)

    def metadata_locations(self, refs: Iterable[TableRef]) -> dict[TableRef, str]:
        """Return the metadata files of those names that are tables, read together."""
        pointers = self.catalog.pointers(refs)
        return {ref: at.location for ref, at in pointers.items() if at.kind == TABLE}

    def load_table(self, ref: TableRef) -> Table:
        """Return a table as PyIceberg has it, for reading."""
        found = self._table(ref)
        return self.of_metadata(found.metadata, ref, found.location)

    def of_metadata(self, metadata: dict[str, Any], ref: TableRef, location: str = "") -> Table:
        """Return a table of such metadata as PyIceberg has it, for reading.

        Args:
            location: The metadata file, where it is one.
        """
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.table import Table

        loaded = parse_table(metadata, location, str(ref))
        io = whole_avro(self.files.file_io(location or metadata["location"]))
        name = (ref.namespace, ref.name)
        return Table(name, loaded, location, io, NoopCatalog(self.catalog_name))

    @contextmanager
    def naming_damage(self, refs: Callable[[Exception], Collection[TableRef]]) -> Iterator[None]:
        """Let what fails for a damaged file of some tables say which file that is.

        Raises:
            DamagedFileError: A file of theirs is missing or damaged.
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
        """Return a table's metadata with the file that has it, or None without such a table.

        Raises:
            DamagedFileError: The file is missing or damaged, or that of another table than the id.
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
                hint="apply the plan again; `vde fsck` says what is damaged",
            )
        return found

    def relation_columns(self, ref: TableRef) -> list[tuple[str, str, str | None]] | None:
        """Return (name, Spark SQL type, description) of a relation's columns, if any."""
        pointer = self.catalog.pointers([ref]).get(ref)
        if pointer is None:
            return None
        is_view = pointer.kind == VIEW
        metadata = read_metadata(self.files, pointer.location, str(ref), is_view=is_view)
        return (view_columns if is_view else current_columns)(metadata)

    def main_snapshot(self, ref: TableRef, branch: str | None = None) -> int | None:
        """Return the Iceberg snapshot id that `main` or a branch is at, or None."""
        return head_of(self.table_metadata(ref), branch)

    def create_table(self, new: NewTable) -> bool:
        """Make an unpartitioned table, perhaps with a branch to begin with, and its namespace."""
        return create_table(self, new)

    def published_views(self, environment: str) -> list[TableRef]:
        """Return the views that publications of an environment left in the catalog."""
        with self.store.database.reading() as conn:
            return list(published_views(conn, self.catalog_name, environment=environment))

    def views_ending(self, environment: str, suffix: str) -> dict[TableRef, dict[str, str]]:
        """Return the properties of the views of an environment whose names end with a text.

        Of one that is not as vde left it they are empty.
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
        """Return an environment's views that are not as their publication left them."""
        return {ref for ref, at in self._views_there(environment).items() if at is None}

    def _views_there(self, environment: str, ending: str = "") -> dict[TableRef, str | None]:
        """Return an environment's views with their files; None of one that is no longer as left."""
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
        """Finish what others began and the state has decided; see `finish_publication.recover`."""
        return recover(self)
