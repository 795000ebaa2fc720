"""Completes publications on a catalog outside the state's database.

First, one transaction of the state decides the publication. Then the catalog's pointers are moved:
first tables, then views. All changes are recorded before the decision, so that another process can
complete them. An undecided publication moves no pointer, and its files are removed.

Each step locks the publication's row, and does nothing if the publication is finished. So a process
that stalls and resumes later does not move pointers back.

If the catalog can change many pointers atomically, readers see all changes of the publication or
none. Otherwise tables move one by one, and then views.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Pointer, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.metadata.changes import apply_updates
from vde_dagster.lakehouse.metadata.table_metadata import ancestors, head_of
from vde_dagster.lakehouse.publishing.commit import read_table, write_then
from vde_dagster.lakehouse.publishing.mirror import update_mirror
from vde_dagster.lakehouse.publishing.proven_publication import find_contradiction
from vde_dagster.lakehouse.publishing.publication import announced_change
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.pins import restore_filled
from vde_dagster.state.environments.publications import (
    UNREADABLE,
    PublicationRecord,
    PublishedFile,
)
from vde_dagster.state.fills.fills import FillRecord

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles
    from vde_dagster.state.store import StateStore


_LOG = logging.getLogger(__name__)
_ATTEMPTS = 10
_BATCH = 20
"""Number of views that are moved in one step, during which the state's database is locked."""


def recover(lakehouse: LakeHandles) -> bool:
    """Finish publications and fills that other processes left; return whether any was finished."""
    if not lakehouse.catalog.form.follows:
        return False
    store, settled = lakehouse.store, False
    for record in store.publications.unsettled():
        if record.environment == PRODUCTION and not store.rights.has("publish"):
            continue
        why = find_contradiction(lakehouse, record)
        if why is not None:
            _LOG.warning("publication %s is left alone: %s; see vde fsck", record.id, why)
            continue
        settle(lakehouse, record.id)
        settled = True
    recorded = _record_what_moved(lakehouse)
    update_mirror(lakehouse)
    return recorded or settled


def _may_record(store: StateStore, filled: FillRecord) -> bool:
    plan = store.plans.record(filled.plan_id)
    with store.database.reading() as conn:
        shown = store.shown.tables_in(conn, PRODUCTION, [filled.table_id])
    own = not shown and (plan is None or plan.environment != PRODUCTION)
    return own or store.rights.has("publish")


def settle(lakehouse: LakeHandles, publication_id: str) -> None:
    """Move all remaining pointers of a committed publication."""
    store = lakehouse.store
    record = store.publications.get(publication_id)
    if record is None or record.status != "decided" or record.files == UNREADABLE:
        return
    owned = {"vde.environment": record.environment}
    made = [file.ref.namespace for file in record.files if file.ref and file.previous is None]
    lakehouse.catalog.create_namespaces(dict.fromkeys(made, owned))
    tables = [file for file in record.files if file.kind == TABLE.lower()]
    views = [file for file in record.files if file.kind == VIEW.lower()]
    if lakehouse.catalog.form.together:
        _settle(lakehouse, record, [*tables, *views])
    else:
        for file in tables:
            _settle(lakehouse, record, [file])
        for start in range(0, len(views), _BATCH):
            _settle(lakehouse, record, views[start : start + _BATCH])
    store.database.run_transaction(
        lambda conn: store.publications.finish(conn, publication_id), name="publish.settled"
    )


def _settle(
    lakehouse: LakeHandles, record: PublicationRecord, files: Sequence[PublishedFile]
) -> None:
    store, catalog = lakehouse.store, lakehouse.catalog

    def work(conn: Connection) -> None:
        if not store.publications.is_unsettled(conn, record.id):
            return
        now = catalog.pointers([file.ref for file in files if file.ref is not None])
        # A view at an unexpected file is left alone. Either it has moved already, or another
        # program replaced it. In the second case, the environment's next publication restores it.
        swaps, written = _changes(lakehouse, files, now)

        def move() -> None:
            for some in [swaps] if catalog.form.together else [[one] for one in swaps]:
                catalog.swap(some)

        def may_be_current() -> bool:
            there = catalog.pointers([one.ref for one in swaps]) if written else {}
            return not written or any(one.is_done(there.get(one.ref)) for one in swaps)

        if swaps:
            points = ("publish.again.file", "publish.again.delete")
            write_then(lakehouse, written, points, move, may_be_current)
        # Filled ranges are recorded once the table's pointer is where the publication puts it.
        for file in files:
            if file.table_id is not None and file.returned is not None:
                restore_filled(conn, file.table_id, file.returned.filled)
            elif file.table_id is not None and record.plan_id is not None:
                store.pending.settle(conn, record.plan_id, [file.table_id])

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return store.database.run_transaction(work, name="publish.settle")
        except PointerMovedError:
            if attempt == _ATTEMPTS:
                raise


def _changes(
    lakehouse: LakeHandles, files: Sequence[PublishedFile], now: Mapping[TableRef, Pointer]
) -> tuple[list[Swap], list[tuple[str, bytes]]]:
    swaps: list[Swap] = []
    written: list[tuple[str, bytes]] = []
    keeps = lakehouse.catalog.form.keeps_pointers
    for file in files:
        swap, change = announced_change(file)
        pointer = now.get(swap.ref)
        if swap.is_possible(pointer) and (keeps or change is None):
            swaps.append(swap)
        elif change is not None and not swap.is_done(pointer):
            table = read_table(lakehouse, swap.ref)
            updates = change.remaining(table.metadata, file.snapshot_id)
            if not updates:
                continue  # it has moved already, and later commits build on it
            if not keeps:
                swaps.append(replace(swap, before=table.location, updates=updates))
                continue
            now_ms = lakehouse.now_ms()
            moved = apply_updates(table.metadata, table.location, updates, now_ms)
            after = next_file(moved["location"], table.location)
            swaps.append(Swap(swap.ref, TABLE, table.location, after, updates=updates))
            written.append((after, encode_metadata(moved)))
    return swaps, written


def _record_what_moved(lakehouse: LakeHandles) -> bool:
    store, recorded = lakehouse.store, False
    for table_id, waiting in store.pending.all().items():
        known = store.tables.load([table_id]).get(table_id)
        table = lakehouse.find_table(known.ref) if known is not None else None
        if known is None or table is None:
            continue
        on_main = ancestors(table.metadata, head_of(table.metadata, known.branch))
        for filled in waiting:
            if filled.iceberg_snapshot_id in on_main and _may_record(store, filled):
                recorded = True

                def work(conn: Connection, filled: FillRecord = filled) -> None:
                    store.fills.record(filled, conn)
                    store.pending.forget_commit(conn, filled)

                store.database.run_transaction(work, name="fill.recover")
    return recorded
