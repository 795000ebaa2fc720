"""Finds the Iceberg snapshots that a publication pins.

Snapshots are read from the tables' metadata. But if the environment already shows a table that the
publication does not move, the state has the table's head from an earlier publication.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, Pointer
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.metadata.commit_summaries import rows_in
from vde_dagster.lakehouse.metadata.table_metadata import (
    MAIN,
    columns_of,
    head_of,
    history,
    with_other_columns,
)
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, HeldState
from vde_dagster.planning.tables.nested_fields import ShownFields
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.environments.pins import Head

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


Place = tuple[TableRef, "str | None"]
"""A table's place in the catalog, and the branch that readers see; None for `main`."""


@dataclass(frozen=True, slots=True)
class PreparedPins:
    """The newest Iceberg snapshots (heads) of tables, read before a publication's transaction.

    Args:
        heads: By table id, the heads of tables that the publication moves or adds, or whose columns
            it changes.
        places: By table id, the names and branches of tables that the publication adds or changes.
            Other processes may write to these tables until the publication commits.
        gone: Ids of tables that the environment no longer shows.
        lost: Names of tables that the publication adds, but that do not exist.
    """

    heads: Mapping[str, Head]
    places: Mapping[str, Place]
    gone: frozenset[str]
    lost: tuple[TableRef, ...]


def head_in(metadata: dict[str, Any], location: str, table_id: str, branch: str | None) -> Head:
    """Read the newest snapshot of a branch (or `main`) from a table's metadata."""
    snapshot = next(history(metadata, head_of(metadata, branch)), None)
    return Head(
        table_id,
        location,
        int(snapshot["snapshot-id"]) if snapshot is not None else None,
        int(metadata["current-schema-id"]),
        rows_in(snapshot["summary"]) if snapshot is not None else 0,
    )


def prepare_pins(
    lakehouse: LakeHandles,
    environment: Environment,
    changed: frozenset[str] = frozenset(),
    moved: Mapping[str, Head] = MappingProxyType({}),
) -> PreparedPins:
    """Find the names and current snapshots of the tables that a publication pins."""
    pins, shown = lakehouse.store.pins, environment.tables
    with lakehouse.store.database.reading() as conn:
        pinned = pins.pinned(conn, environment.name)
        unknown = (shown - pinned) | changed
        if environment.name != PRODUCTION:  # production never holds tables at earlier states
            unknown |= shown & pins.tables_at_earlier_snapshot(conn, environment.name)
            unknown -= environment.pinned_states.keys()
        unknown -= moved.keys()
        places = pins.places(conn, unknown)
        heads = pins.heads(conn, unknown)
        pointers = lakehouse.catalog.pointers([ref for ref, _ in places.values()], conn)
    found = read_heads(lakehouse, places, pointers, heads)
    lost = (places.keys() & (shown - pinned)) - found.keys()
    return PreparedPins(
        heads={**moved, **found},
        places=places,
        gone=frozenset(pinned - shown),
        lost=tuple(sorted((places[table_id][0] for table_id in lost), key=str)),
    )


def read_heads(
    lakehouse: LakeHandles,
    places: Mapping[str, Place],
    pointers: Mapping[TableRef, Pointer],
    known: Mapping[str, Head],
) -> dict[str, Head]:
    """Return the current heads of tables, by table id.

    A table's metadata is read only if its head in `known` is missing or outdated.
    """

    def read(item: tuple[str, Place]) -> Head | None:
        table_id, (ref, branch) = item
        pointer, head = pointers.get(ref), known.get(table_id)
        if pointer is None or pointer.kind != TABLE:
            return None
        if head is not None and head.location == pointer.location:
            return head
        try:
            metadata = lakehouse.files.read_json(pointer.location)
        except FileNotFoundError:
            return None
        return head_in(metadata, pointer.location, table_id, branch)

    found = lakehouse.files.each(read, list(places.items()))
    return {head.table_id: head for head in found if head is not None}


def write_pins(
    lakehouse: LakeHandles, connection: Connection, environment: Environment, prepared: PreparedPins
) -> None:
    """Store a publication's pins in the publication's transaction."""
    pins, heads = lakehouse.store.pins, dict(prepared.heads)
    if prepared.places:
        refs = [ref for ref, _ in prepared.places.values()]
        pointers = lakehouse.catalog.pointers(refs, connection)
        now = read_heads(lakehouse, prepared.places, pointers, heads)
        lost = prepared.places.keys() - now.keys()
        pins.forget(connection, lost)
        heads = {**{one: head for one, head in heads.items() if one not in lost}, **now}
    noted = set(heads)
    if environment.name != PRODUCTION:  # only production's publications record heads of its tables
        noted -= lakehouse.store.shown.tables_in(connection, PRODUCTION, heads)
    pins.note(connection, (heads[table_id] for table_id in noted))
    if environment.name != PRODUCTION:
        # Production's tables move only with its own publications; others share theirs.
        heads = {**pins.moved(connection, environment.name), **heads}
        for table_id, held in environment.pinned_states.items():
            heads[table_id] = Head(table_id, "", held.snapshot_id, held.schema_id, held.rows)
    shown = {table_id: heads[table_id] for table_id in heads.keys() & environment.tables}
    pins.write(connection, environment.name, environment.version, shown, prepared.gone)


def pinned_tables(
    lakehouse: LakeHandles, states: Mapping[str, tuple[TableRef, HeldState]]
) -> dict[str, PinnedTable]:
    """Look up earlier snapshots in the metadata of tables. Expired snapshots are left out."""
    with lakehouse.store.database.reading() as conn:
        pointers = lakehouse.catalog.pointers([ref for ref, _ in states.values()], conn)

    def look(item: tuple[str, tuple[TableRef, HeldState]]) -> tuple[str, PinnedTable] | None:
        table_id, (ref, held) = item
        pointer = pointers.get(ref)
        if pointer is None or pointer.kind != TABLE:
            return None
        metadata = read_metadata(lakehouse.files, pointer.location, str(ref), table_id)
        wanted = columns_of(metadata, held.schema_id)
        if held.snapshot_id is None:
            return table_id, PinnedTable(None, wanted)
        for snapshot in metadata["snapshots"]:
            if int(snapshot["snapshot-id"]) == held.snapshot_id:
                there = columns_of(metadata, snapshot.get("schema-id"))
                return table_id, PinnedTable(held.snapshot_id, wanted, there)
        return None

    return dict(one for one in lakehouse.files.each(look, list(states.items())) if one is not None)


def pinned_metadata(
    metadata: dict[str, Any],
    snapshot_id: int | None,
    schema_id: int | None,
    columns: Iterable[tuple[str, str]],
    docs: Mapping[str, str],
    table_uuid: str,
    properties: Mapping[str, str],
    shown_fields: Mapping[str, ShownFields] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """Reduce a table's metadata to one snapshot and a model's columns.

    Return None if the snapshot was expired.
    """
    known = {int(one["schema-id"]) for one in metadata["schemas"]}
    schema = schema_id if schema_id in known else metadata["current-schema-id"]
    snapshots = {int(one["snapshot-id"]): one for one in metadata.get("snapshots", [])}
    if snapshot_id is not None and snapshot_id not in snapshots:
        return None
    refs = {MAIN: {"type": "branch", "snapshot-id": snapshot_id}} if snapshot_id else {}
    at_pin = {**metadata, "current-schema-id": schema, "refs": refs}
    updated = int(metadata["last-updated-ms"])
    shown = with_other_columns(at_pin, columns, docs, table_uuid, properties, updated, shown_fields)
    shown_schema = shown["current-schema-id"]
    snapshot = snapshots.get(snapshot_id or 0)
    # Some readers use the schema of the snapshot, so it also gets the reduced schema.
    listed = [{**snapshot, "schema-id": shown_schema}] if snapshot is not None else []
    shown |= {
        "schemas": [one for one in shown["schemas"] if one["schema-id"] == shown_schema],
        "current-snapshot-id": snapshot_id,
        "snapshots": listed,
        "snapshot-log": [
            {"timestamp-ms": one["timestamp-ms"], "snapshot-id": one["snapshot-id"]}
            for one in listed
        ],
    }
    for statistics in ("statistics", "partition-statistics"):
        if statistics in shown:
            kept = [one for one in shown[statistics] if int(one["snapshot-id"]) == snapshot_id]
            shown[statistics] = kept
    return shown


def as_pinned(
    table: PhysicalTable, metadata: dict[str, Any], schema_id: int | None
) -> PhysicalTable:
    """Return a table without the columns that are missing in a pinned schema."""
    there = columns_of(metadata, schema_id)
    return replace(table, columns=tuple(one for one in table.columns if one.name in there))
