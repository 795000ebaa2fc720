"""Data files that were written into a table's own folder and never committed.

Spark writes data files first and commits them after. Who is killed in between leaves files that
no ledger can name; they are found by what the table's metadata does not name. Four things make
sure that no file goes which somebody commits later, or still reads:

- The folder is listed first, and the metadata is read after that. A file that is committed in
  between is named by the metadata; a file that is written in between is not in the list. The other
  way round, a file whose commit falls between the two would be in the list and not be named.
- A file has to be older than the longest run, so whoever wrote it can no longer commit it.
- A table that somebody holds a lease on is left alone, since a run may be longer than was thought.
  The lease is looked at after the listing too: whoever takes it later writes new files.
- Files that only forgotten Iceberg snapshots had are the ledger's: it lets readers finish. The
  ledger is read after the metadata, since both change in one transaction.

Where a manifest is missing or damaged there is an error, and where the metadata spells places
otherwise than the storage does nothing is an orphan: unsure means no deletion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.lakehouse.io.files import StoredFile, place_of
from vde_dagster.lakehouse.io.locations import is_tables_own
from vde_dagster.lakehouse.io.manifests import named_by_snapshot

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.state.tables.tables import LedgerTable


_DATA = (".parquet", ".orc", ".avro", ".puffin")
"""How data and delete files end; whatever else lies in the folder is somebody's."""


def find_orphans(lakehouse: Lakehouse, table: LedgerTable, before: datetime) -> list[StoredFile]:
    """Find the files in a table's data folder that nobody names or can commit, oldest first.

    Args:
        before: Only files that were written before this instant (UTC), which has to be longer
            ago than the longest run.

    Raises:
        DamagedFileError: It cannot be told what the table's metadata names.
    """
    found = lakehouse.find_table(table.ref, table.id)
    location = str(found.metadata["location"]).rstrip("/") if found is not None else ""
    if not is_tables_own(location, table.id):
        return []
    listed = {
        place_of(file.location): file
        for file in lakehouse.files.list_files(f"{location}/data")
        if file.location.endswith(_DATA) and not os.path.basename(file.location).startswith(".")
    }
    left = {place: file for place, file in listed.items() if file.written_at < before}
    if not left:
        return []
    newest = lakehouse.find_table(table.ref, table.id)
    if newest is None or table.id in lakehouse.store.leases.tables():
        return []
    data_here = data_elsewhere = False
    for data, others in _named(lakehouse, newest.metadata, str(table.ref)):
        for place in map(place_of, data):
            here = place in listed
            data_here, data_elsewhere = data_here or here, data_elsewhere or not here
            left.pop(place, None)
        for place in map(place_of, others):
            left.pop(place, None)
        if not left:
            return []
    if data_elsewhere and not data_here:
        return []  # all of it is somewhere else: are these the places that were listed?
    for location in lakehouse.store.publications.files_to_delete():
        left.pop(place_of(location), None)
    return sorted(left.values(), key=lambda file: file.written_at)


def _named(
    lakehouse: Lakehouse, metadata: dict[str, Any], what: str
) -> Iterator[tuple[Set[str], Set[str]]]:
    """Yield the data files, and the others, that every kept snapshot names, newest first."""
    for kind in ("statistics", "partition-statistics"):
        yield frozenset(), {item["statistics-path"] for item in metadata.get(kind, [])}
    known: dict[str, dict[str, int]] = {}
    for snapshot in reversed(metadata.get("snapshots", [])):
        named = named_by_snapshot(lakehouse.files, snapshot, known, what)
        others = {snapshot["manifest-list"], *known}
        yield named.keys() - others, others
