"""Responses of the REST catalog for loading a table or a view, with generated metadata."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from cachetools import LRUCache, cachedmethod

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import DamagedFileError, ExecutionError
from vde_dagster.lakehouse.io.files import MetadataFiles, encode_metadata, read_metadata
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.lakehouse.metadata.view_metadata import new_view_metadata
from vde_dagster.lakehouse.publishing.pins import as_pinned, pinned_metadata
from vde_dagster.planning.environments.resolver import column_map, nested_columns
from vde_dagster.planning.rendering.served_views import define_served_view
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.programs.serve.catalog_tables import CatalogTable
from vde_dagster.programs.serve.errors import CachedResponse, ServeError, missing
from vde_dagster.programs.serve.served import ServedVersion

_UUID_NAMESPACE = uuid.UUID("0b9a6c56-19a4-4f0b-9a43-58d1f0a4f3c2")
_MOST_RESPONSES = 2_000
_BYTES = 256 * 1024 * 1024


def _cache_size(answer: CachedResponse) -> int:
    # The minimum limits the cache to `_MOST_RESPONSES` responses.
    return max(len(answer.content), _BYTES // _MOST_RESPONSES)


def _cache_key(loader: Loader, served: ServedVersion, *asked: object) -> tuple[object, ...]:
    # A response depends only on a publication and the arguments.
    return served.version.publication_id, *asked


class Loader:
    """Creates and caches the responses to "load table" and "load view".

    Args:
        config: Storage settings that clients receive with every table.
        writes_metadata: Whether metadata in responses is also written as a file.
    """

    def __init__(self, config: Mapping[str, str], writes_metadata: bool = False) -> None:
        self._config = dict(config)
        self._writes_metadata = writes_metadata
        self._responses: LRUCache[tuple[object, ...], CachedResponse] = LRUCache(
            _BYTES, _cache_size
        )
        self._models: LRUCache[tuple[object, ...], tuple[Snapshot, PhysicalTable]]
        self._models = LRUCache(_MOST_RESPONSES)
        self._lock = threading.Lock()

    def table(self, served: ServedVersion, name: ModelName) -> CachedResponse:
        """Return the response for loading a table, as JSON.

        Raises:
            ServeError: The table does not exist, or its data is gone or unknown.
        """
        return self._table(served, name, self._location(served, name))

    def rows_metadata(self, served: ServedVersion, name: ModelName) -> dict[str, Any]:
        """Return Iceberg metadata for reading a model's rows by PyIceberg.

        If the model shows one column under two names, the metadata has both. PyIceberg can read
        such metadata, but some engines cannot. Raise ServeError in the same cases as `table`.
        """
        if name not in served.columns_tables:
            return self._metadata(served, name, self._location(served, name))
        at = self._location(served, served.columns_tables[name].table)
        return self._metadata(served, name, at, CatalogTable(name))

    @cachedmethod(attrgetter("_responses"), _cache_key, attrgetter("_lock"))
    def view(self, served: ServedVersion, name: ModelName, catalog: str | None) -> CachedResponse:
        """Return the response for loading a view, as JSON.

        Args:
            catalog: The client's name for this catalog, if it sent one.

        Raises:
            ServeError: The view does not exist.
        """
        if name not in served.views:
            raise missing("View", f"the view {name} does not exist in {_describe(served)}")
        version = served.version
        properties = {"vde.environment": version.name, "vde.version": str(version.version)}
        definition = define_served_view(
            name,
            served.resolver([name]),
            self._view_types(served, name),
            properties,
            served.columns_tables,
        )
        folder = served.workspace.lakehouse.views_folder(version.publication_id)
        published = int(version.published_at.timestamp() * 1000)
        metadata = new_view_metadata(definition, None, f"{folder}/{name}", published)
        metadata["view-uuid"] = str(uuid.uuid5(_UUID_NAMESPACE, f"{version.name}/{name}"))
        if catalog is not None:
            shown = [{**one, "default-catalog": catalog} for one in metadata["versions"]]
            metadata["versions"] = shown
        location = f"{metadata['location']}/{_metadata_file_name(served, name)}"
        answer = {"metadata-location": location, "metadata": metadata, "config": {}}
        return CachedResponse(encode_metadata(answer))

    def _location(self, served: ServedVersion, name: ModelName) -> str:
        if name in served.externals:
            ref = served.externals[name]
        elif name in served.tables:
            ref = self._model(served, served.tables[name].owner)[1].ref
        elif name in served.views:
            once = served.columns_tables.get(name)
            hint = f"; its columns are in {once.table}" if once is not None else ""
            raise missing("Table", f"{name} is a view in {_describe(served)}, not a table{hint}")
        else:
            raise missing("Table", f"the table {name} does not exist in {_describe(served)}")
        location = served.workspace.lakehouse.metadata_location(ref)
        if location is None:
            raise _gone_error(served, name)
        return location

    @cachedmethod(attrgetter("_models"), _cache_key, attrgetter("_lock"))
    def _model(self, served: ServedVersion, name: ModelName) -> tuple[Snapshot, PhysicalTable]:
        store, snapshot_id = served.workspace.store, served.version.entries[name].snapshot_id
        tables = store.tables.load([served.table_ids[name]])
        if not tables:
            raise _gone_error(served, name)
        return store.snapshots.load([snapshot_id])[snapshot_id], tables[served.table_ids[name]]

    @cachedmethod(attrgetter("_responses"), _cache_key, attrgetter("_lock"))
    def _table(self, served: ServedVersion, name: ModelName, location: str) -> CachedResponse:
        metadata = self._metadata(served, name, location)
        if name not in served.externals:
            # Clients compare locations to detect whether their metadata is outdated.
            location = f"{metadata['location']}/metadata/{_metadata_file_name(served, name)}"
            if self._writes_metadata:
                files = served.workspace.lakehouse.files
                ensure_written(files, location, encode_metadata(metadata))
        answer = {"metadata-location": location, "metadata": metadata, "config": self._config}
        return CachedResponse(encode_metadata(answer))

    def _metadata(
        self,
        served: ServedVersion,
        name: ModelName,
        location: str,
        shown: CatalogTable | None = None,
    ) -> dict[str, Any]:
        lakehouse = served.workspace.lakehouse
        if name in served.externals:
            return read_metadata(lakehouse.files, location, str(name))
        shown = shown or served.tables[name]
        snapshot, table = self._model(served, shown.owner)
        metadata = read_metadata(lakehouse.files, location, str(name), table.id)
        pin = served.pins.get(table.id)
        if pin is None:
            raise missing(
                "Table",
                f"the rows of {name} in {_describe(served)} are unknown, because the release of "
                "vde that published this version did not record pins; read a later version",
            )
        version = served.version
        pinned = as_pinned(table, metadata, pin.schema_id)
        columns, fields = column_map(snapshot, pinned), nested_columns(snapshot, pinned)
        if shown.columns is not None:
            physical = dict(columns)
            columns = tuple((out, physical[own]) for out, own in shown.columns)
            fields = {out: fields[own] for out, own in shown.columns if own in fields}
            snapshot = served.without_tables.get(name, snapshot)
        found = pinned_metadata(
            metadata,
            pin.snapshot_id,
            pin.schema_id,
            columns,
            {column.name: column.description for column in snapshot.columns if column.description},
            str(uuid.uuid5(_UUID_NAMESPACE, f"{version.name}/{name}/{metadata['table-uuid']}")),
            {
                "vde.environment": version.name,
                "vde.version": str(version.version),
                "vde.model": str(name),
                "comment": snapshot.model.description or "",
            },
            fields,
        )
        if found is None:
            raise _gone_error(served, name)
        return found

    def _view_types(self, served: ServedVersion, name: ModelName) -> tuple[tuple[str, str], ...]:
        once = served.columns_tables.get(name)
        if once is not None:
            types = columns_of(self.rows_metadata(served, once.table), None)
            return tuple((out, types[column]) for out, column in once.columns)
        snapshot = served.views[name]
        found = served.workspace.store.snapshots.view_types([snapshot.id]).get(snapshot.id)
        if found is None:
            environment = served.version.name
            raise missing(
                "View",
                f"the columns of {name} are no longer known; publish {environment} again to "
                f"restore them: vde apply {environment} --restate MODEL",
            )
        return tuple(found)


def _metadata_file_name(served: ServedVersion, name: ModelName) -> str:
    """Return a valid name for a metadata file.

    Source: https://iceberg.apache.org/spec/#metastore-tables.
    """
    # Some clients require a valid name, even if no file is written.
    own = uuid.UUID(digest("served", served.version.publication_id, str(name)))
    return f"{served.version.version:05}-{own}.metadata.json"


def _describe(served: ServedVersion) -> str:
    return f"version {served.version.version} of '{served.version.name}'"


def _gone_error(served: ServedVersion, name: ModelName) -> Exception:
    return missing(
        "Table",
        f"the data of {name} in {_describe(served)} is gone: a program other than vde expired or "
        "dropped it; to find damaged files: vde fsck",
    )


def ensure_written(files: MetadataFiles, location: str, content: bytes) -> None:
    """Write a metadata file, unless it exists. Clients rely on its content never changing.

    Raises:
        ServeError: The file cannot be written, or the existing file is damaged.
    """
    size = files.size(location)
    if size is None:
        try:
            files.write_all([(location, content)], "write_served_metadata")
        except ExecutionError as error:
            if not files.exists(location):  # Otherwise another process was faster.
                raise ServeError(503, str(error)) from error
        return
    try:
        files.read_json(location)
    except DamagedFileError as error:
        raise ServeError(503, f"{location} is incomplete: remove it and try again") from error
