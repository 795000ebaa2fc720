"""Publications on a catalog that takes no part in the state's transaction.

There the state decides first, in one transaction, and the catalog's pointers follow: tables, then
views. Everything that has to follow is announced with the publication before it is decided, so
whoever comes next can finish what a process that ended in between has begun. What was not decided
never moves a pointer; its files are removed.

Each step holds the publication's row and does nothing once somebody else has finished: a process
that stalls and goes on later moves no pointer that others have moved since.

Readers see all of the publication's tables and views or none of them; the state's own transaction
is the one that decided, shortly before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Pointer, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.metadata.table_metadata import ancestors, head_of
from vde_dagster.lakehouse.publishing.commit import write_then
from vde_dagster.lakehouse.publishing.mirror import follow
from vde_dagster.lakehouse.publishing.rebase import announced, rebased, say_filled
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.publications import PublicationRecord, PublishedFile
from vde_dagster.state.fills.fills import FillRecord

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


_ATTEMPTS = 10
_BATCH = 20
"""Views moved in one step: it holds the state's database for as long as the catalog takes."""


def recover(lakehouse: Lakehouse) -> bool:
    """Finish what the state has decided and a process left undone; say whether there was any.

    Raises:
        StoreError: State or catalog cannot be reached.
        ConflictError: A table to publish was written by a program other than vde.
    """
    if not lakehouse.catalog.form.follows:
        return False
    store = lakehouse.store
    unsettled = store.publications.unsettled()
    for record in unsettled:
        settle(lakehouse, record.id)
    recorded = _record_what_moved(lakehouse)
    follow(lakehouse)
    return recorded or bool(unsettled)


def settle(lakehouse: Lakehouse, publication_id: str) -> None:
    """Move the pointers of a publication that the state has decided.

    Raises:
        StoreError: State or catalog cannot be reached; the next apply goes on.
        ConflictError: A table was written by a program other than vde.
    """
    store = lakehouse.store
    record = store.publications.get(publication_id)
    if record is None or record.status != "decided":
        return
    owned = {"vde.environment": record.environment}
    made = [file.ref.namespace for file in record.files if file.ref and file.previous is None]
    lakehouse.catalog.create_namespaces(dict.fromkeys(made, owned))
    tables = [file for file in record.files if file.kind == TABLE.lower()]
    views = [file for file in record.files if file.kind == VIEW.lower()]
    if lakehouse.catalog.form.together:
        settle_together(lakehouse, record, [*tables, *views])
    else:
        for file in tables:
            _settle_table(lakehouse, record, file)
        for start in range(0, len(views), _BATCH):
            _settle_views(lakehouse, record, views[start : start + _BATCH])
    store.database.run_transaction(
        lambda conn: store.publications.finish(conn, publication_id), name="publish.settled"
    )


def _settle_views(
    lakehouse: Lakehouse, record: PublicationRecord, files: Sequence[PublishedFile]
) -> None:
    """Move views; one that is not where it was found is somebody's, or has moved already.

    What somebody else replaced is put back by the environment's next publication.
    """
    store, catalog = lakehouse.store, lakehouse.catalog
    swaps = [announced(file) for file in files]

    def work(conn: Connection) -> None:
        if not store.publications.is_unsettled(conn, record.id):
            return
        for _ in range(_ATTEMPTS):
            now = catalog.pointers([swap.ref for swap in swaps])
            possible = [swap for swap in swaps if swap.is_possible(now.get(swap.ref))]
            try:
                for swap in possible:
                    catalog.swap([swap])
            except PointerMovedError:
                continue
            return

    store.database.run_transaction(work, name="publish.settle_views")


def _settle_table(lakehouse: Lakehouse, record: PublicationRecord, file: PublishedFile) -> None:
    """Move a table's `main`, and with it let the state say what is filled."""
    store, swap = lakehouse.store, announced(file)

    def work(conn: Connection) -> None:
        if not store.publications.is_unsettled(conn, record.id):
            return
        pointer = lakehouse.catalog.pointers([swap.ref]).get(swap.ref)
        if swap.is_possible(pointer):
            lakehouse.catalog.swap([swap])
        elif not swap.is_done(pointer):
            _move_again(lakehouse, swap, file)
        say_filled(lakehouse, conn, record, file)

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return store.database.run_transaction(work, name="publish.settle_table")
        except PointerMovedError:
            if attempt == _ATTEMPTS:
                raise


def _move_again(lakehouse: Lakehouse, swap: Swap, file: PublishedFile) -> None:
    """Move `main` of a table that somebody committed to since the publication was prepared."""
    found = rebased(lakehouse, swap, file)
    if found is None:
        return
    again, written = found
    write_then(
        lakehouse,
        written,
        ("publish.again.file", "publish.again.delete"),
        lambda: lakehouse.catalog.swap([again]),
        lambda: again.is_done(lakehouse.catalog.pointers([again.ref]).get(again.ref)),
    )


def _record_what_moved(lakehouse: Lakehouse) -> bool:
    """Record ranges that were announced, and that `main` has: their process ended in between."""
    store, recorded = lakehouse.store, False
    for table_id, waiting in store.pending.all().items():
        known = store.tables.load([table_id])
        refs = {table.id: table.ref for table in known.values()}
        location = lakehouse.metadata_location(refs[table_id]) if table_id in refs else None
        if location is None:
            continue
        metadata = read_metadata(lakehouse.files, location, str(refs[table_id]))
        on_main = ancestors(metadata, head_of(metadata, known[table_id].branch))
        for filled in waiting:
            if filled.iceberg_snapshot_id in on_main:
                recorded = True

                def work(conn: Connection, filled: FillRecord = filled) -> None:
                    store.fills.record(filled, conn)
                    store.pending.forget_commit(conn, filled)

                store.database.run_transaction(work, name="fill.recover")
    return recorded


def settle_together(
    lakehouse: Lakehouse, record: PublicationRecord, files: Sequence[PublishedFile]
) -> None:
    """Move every table and view of a publication, and let the state say what is filled.

    A view that is not where it was found is somebody's, or has moved already: the environment's
    next publication puts it back.

    Args:
        record: The publication, which the state has decided.

    Raises:
        StoreError: State or catalog cannot be reached; the next apply goes on.
        ConflictError: A table was written by a program other than vde.
    """
    store, catalog = lakehouse.store, lakehouse.catalog

    def work(conn: Connection) -> None:
        if not store.publications.is_unsettled(conn, record.id):
            return
        now = catalog.pointers([file.ref for file in files if file.ref is not None])
        swaps, written = _changes(lakehouse, files, now)
        if swaps:
            first = swaps[0]
            write_then(
                lakehouse,
                written,
                ("publish.again.file", "publish.again.delete"),
                lambda: catalog.swap(swaps),
                lambda: first.is_done(catalog.pointers([first.ref]).get(first.ref)),
            )
        for file in files:
            say_filled(lakehouse, conn, record, file)

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return store.database.run_transaction(work, name="publish.settle_together")
        except PointerMovedError:
            if attempt == _ATTEMPTS:
                raise


def _changes(
    lakehouse: Lakehouse, files: Sequence[PublishedFile], now: Mapping[TableRef, Pointer]
) -> tuple[list[Swap], list[tuple[str, bytes]]]:
    """Return the remaining changes, and the files they need beside those announced."""
    swaps: list[Swap] = []
    written: list[tuple[str, bytes]] = []
    for file in files:
        swap = announced(file)
        pointer = now.get(swap.ref)
        if swap.is_possible(pointer):
            swaps.append(swap)
        elif file.kind == TABLE.lower() and not swap.is_done(pointer):
            again = rebased(lakehouse, swap, file)
            if again is not None:
                swaps.append(again[0])
                written += again[1]
    return swaps, written
