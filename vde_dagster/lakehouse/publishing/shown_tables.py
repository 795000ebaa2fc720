"""Shown tables: production's tables in projects where only development environments have views.

A shown table has its own metadata file, but uses the data files of a physical table. Its schema has
the model's columns with the same field ids, so that columns can be renamed, reordered or left out.
Every publication that moves the physical table also updates the shown table in its transaction, and
detects whether another program has written to the shown table. If snapshots of the physical table
expire, they expire in both tables at once, because their files are deleted.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, Catalog, Pointer, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.lakehouse.io.locations import next_name
from vde_dagster.lakehouse.metadata.changes import apply_updates, remove_snapshots
from vde_dagster.lakehouse.metadata.table_metadata import snapshot_ids, with_other_columns
from vde_dagster.lakehouse.publishing.view_ledger import PublishedView, published_views
from vde_dagster.planning.engine_tasks import TableForView, ViewDefinition
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


SHOWN = "shown"
"""Kind of the files of such tables in the record of a publication."""
_NAMES = uuid.UUID("5f2d1c1a-6d0e-4a53-8a3c-0c4a9d1b7e11")


@dataclass(frozen=True, slots=True)
class Made:
    """A new metadata file of a table or view, with the catalog change that makes it current.

    Args:
        view: The new row in the ledger of views.
        source: For a shown table, the physical table and the metadata file that was read.
    """

    swap: Swap
    content: bytes
    view: PublishedView | None = None
    source: tuple[TableRef, str] | None = None


def metadata_in_place_of_view(
    definition: ViewDefinition, shown: TableForView, behind: dict[str, Any], now_ms: int
) -> dict[str, Any]:
    """Build the metadata of a table that replaces a view and shows the rows of `behind`."""
    ref = TableRef(definition.namespace, definition.name)
    return with_other_columns(
        behind,
        shown.columns,
        {name: doc for name, _, doc in definition.columns if doc},
        str(uuid.uuid5(_NAMES, f"{behind['table-uuid']}/{ref}")),
        {**dict(definition.properties), "comment": definition.comment or ""},
        now_ms,
        dict(shown.fields),
    )


def require_sources(
    catalog: Catalog, connection: Connection, sources: Mapping[TableRef, str]
) -> None:
    """Raise PointerMovedError if a shown table's physical table changed after it was read."""
    now = catalog.pointers(sources, connection) if sources else {}
    for ref, location in sources.items():
        pointer = now.get(ref)
        if pointer is None or pointer.location != location:
            raise PointerMovedError(ref, TABLE)


def showing_tables(lakehouse: LakeHandles) -> dict[str, list[TableRef]]:
    """Find the shown tables of each physical table, by the physical table's location."""
    found: dict[str, list[TableRef]] = {}
    for ref, (_, metadata) in _read_shown(lakehouse).items():
        found.setdefault(metadata["location"], []).append(ref)
    return found


def expire_in_shown_tables(
    lakehouse: LakeHandles, refs: Collection[TableRef], behind: dict[str, Any], now_ms: int
) -> list[Made]:
    """Build metadata files without the expired snapshots, for tables that replace views."""
    made = []
    for ref, (view, metadata) in _read_shown(lakehouse, refs).items() if refs else ():
        heads = {int(ref["snapshot-id"]) for ref in metadata.get("refs", {}).values()}
        gone = snapshot_ids(metadata) - snapshot_ids(behind) - heads
        if gone and metadata["location"] == behind["location"]:
            content = apply_updates(metadata, None, remove_snapshots(metadata, gone), now_ms)
            old = view.metadata_location
            location = f"{old.rpartition('/')[0]}/{next_name(old)}"
            moved = replace(view, metadata_location=location)
            made.append(Made(Swap(ref, TABLE, old, location), encode_metadata(content), moved))
    return made


def behind_the_times(lakehouse: LakeHandles) -> list[tuple[TableRef, TableRef, int]]:
    """Find shown tables with snapshots that are missing in their physical tables.

    Each item is (shown table, physical table, number of missing snapshots).
    """
    tables = [table.ref for table in lakehouse.store.ledger.tables() if table.branch is None]
    shown = _read_shown(lakehouse)
    pointers = lakehouse.metadata_locations(tables) if shown else {}
    behind: dict[str, tuple[TableRef, dict[str, Any]]] = {}
    for ref, location in pointers.items():
        if lakehouse.files.exists(location):
            metadata = lakehouse.files.read_json(location)
            behind[metadata["location"]] = ref, metadata
    found = []
    for ref, (_, metadata) in shown.items():
        if metadata["location"] in behind:
            source, of = behind[metadata["location"]]
            gone = snapshot_ids(metadata) - snapshot_ids(of)
            if gone:
                found.append((ref, source, len(gone)))
    return found


def _read_shown(
    lakehouse: LakeHandles, refs: Collection[TableRef] = ()
) -> dict[TableRef, tuple[PublishedView, dict[str, Any]]]:
    catalog = lakehouse.catalog
    with lakehouse.store.database.reading() as conn:
        environment = None if refs else PRODUCTION
        views = published_views(conn, catalog.name, refs=refs, environment=environment)
        there = catalog.pointers(views, conn)
    own = [
        (ref, view)
        for ref, view in views.items()
        if ref in there and there[ref] == Pointer(view.metadata_location, TABLE)
    ]

    def read(item: tuple[TableRef, PublishedView]) -> dict[str, Any] | None:
        location = item[1].metadata_location
        return lakehouse.files.read_json(location) if lakehouse.files.exists(location) else None

    found = lakehouse.files.each(read, own)
    return {ref: (view, at) for (ref, view), at in zip(own, found, strict=True) if at is not None}
