"""Moving the pointers of a decided publication where a catalog changes any number in one commit.

Readers see all of the publication's tables and views or none of them; the state's own transaction
is the one that decided, shortly before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalog import TABLE, Pointer, PointerMovedError, Swap
from vde_dagster.lakehouse.commit import write_then
from vde_dagster.lakehouse.rebase import announced, rebased, say_filled
from vde_dagster.planning.table import TableRef
from vde_dagster.state.publications import PublicationRecord, PublishedFile

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse

_ATTEMPTS = 10


def settle_together(
    lakehouse: Lakehouse, record: PublicationRecord, files: Sequence[PublishedFile]
) -> None:
    """Move every table and view of a publication, and let the state say what is filled.

    A view that is not where it was found is somebody's, or has moved already: the environment's
    next publication puts it back.

    Args:
        lakehouse: The catalog.
        record: The publication, which the state has decided.
        files: Its tables and views.

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
    """Return what is still to be changed, and files that it needs beside those announced."""
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
