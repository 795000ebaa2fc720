"""Tables as pins have them: which columns they had, and under which schema engines read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vde_dagster.lakehouse.catalog import TABLE
from vde_dagster.lakehouse.files import read_metadata
from vde_dagster.lakehouse.table_metadata import columns_of
from vde_dagster.planning.environment import Held
from vde_dagster.planning.pinned import PinnedTable
from vde_dagster.planning.table import TableRef

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


def pinned_tables(
    lakehouse: Lakehouse, states: Mapping[str, tuple[TableRef, Held]]
) -> dict[str, PinnedTable]:
    """Look up states of tables in the tables' metadata, each of which is read once.

    Args:
        lakehouse: The catalog.
        states: By table id, its place and the state.

    Returns:
        By table id; without those whose table or snapshot is gone.
    """
    with lakehouse.store.database.reading() as conn:
        pointers = lakehouse.catalog.pointers([ref for ref, _ in states.values()], conn)

    def look(item: tuple[str, tuple[TableRef, Held]]) -> tuple[str, PinnedTable] | None:
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
