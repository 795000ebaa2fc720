"""Tables as pins have them: one Iceberg snapshot under the columns of a publication.

Nothing is written: the same data files are named, by the same field ids. Pure: JSON in, JSON out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.catalogs.catalog import TABLE
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.metadata.table_metadata import MAIN, columns_of, with_other_columns
from vde_dagster.planning.environments.environment import HeldState
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


def pinned_tables(
    lakehouse: Lakehouse, states: Mapping[str, tuple[TableRef, HeldState]]
) -> dict[str, PinnedTable]:
    """Look up states of tables in the tables' metadata, each of which is read once.

    Args:
        states: By table id, its place and the state.

    Returns:
        By table id; without those whose table or snapshot is gone.
    """
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
) -> dict[str, Any] | None:
    """Make metadata that has a pinned snapshot and no other, under a model's column names.

    The snapshot names the schema that is shown, as some readers take that for the table's.

    Args:
        metadata: The physical table's metadata.
        snapshot_id: The snapshot; None for a table that had none, and so no rows.
        schema_id: The table's schema at the publication; the current one where it is not known.
        columns: (name, physical column), in order.
        docs: Descriptions by name.
        table_uuid: The shown table's.

    Returns:
        The metadata, or None where the snapshot is gone.
    """
    known = {int(one["schema-id"]) for one in metadata["schemas"]}
    schema = schema_id if schema_id in known else metadata["current-schema-id"]
    snapshots = {int(one["snapshot-id"]): one for one in metadata.get("snapshots", [])}
    if snapshot_id is not None and snapshot_id not in snapshots:
        return None
    refs = {MAIN: {"type": "branch", "snapshot-id": snapshot_id}} if snapshot_id else {}
    at_pin = {**metadata, "current-schema-id": schema, "refs": refs}
    updated = int(metadata["last-updated-ms"])
    shown = with_other_columns(at_pin, columns, docs, table_uuid, properties, updated)
    shown_schema = shown["current-schema-id"]
    snapshot = snapshots.get(snapshot_id or 0)
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
