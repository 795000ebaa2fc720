"""Writes all metadata files and makes them current.

The files of a failed commit are removed if it is certain that no pointer will ever refer to them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, UnknownOutcomeError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import encode_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.metadata.changes import Updates, apply_updates
from vde_dagster.lakehouse.publishing.pins import head_in
from vde_dagster.lakehouse.publishing.view_ledger import move_view
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state import table_commits

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles, TableState
    from vde_dagster.lakehouse.publishing.shown_tables import Made


T = TypeVar("T")
Files = Sequence[tuple[str, bytes]]
Change = Callable[[dict[str, Any]], Updates]
"""Makes the updates of a table from its metadata."""

_DOUBTS = 12
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.02


def write_then(
    lakehouse: LakeHandles,
    files: Files,
    points: tuple[str, str],
    commit: Callable[[], T],
    may_be_current: Callable[[], bool],
) -> T:
    """Write files and call `commit`. If the commit certainly failed, delete the files.

    Args:
        points: The names of the two side effects: writing files and removing files.
        may_be_current: Returns, after a failure, whether the files may be current or still become
            current. If True, the files stay.
    """
    try:
        lakehouse.files.write_all(files, points[0])
        return commit()
    except UnknownOutcomeError:
        raise
    except Exception:
        if not may_be_current():
            written = [file for file, _ in files]
            lakehouse.files.delete_all(written, points[1], is_written=True)
        raise


def commit_swap(
    lakehouse: LakeHandles,
    swap: Swap,
    files: Files,
    name: str,
    also: table_commits.TableCommit | None = None,
    shown: Sequence[Made] = (),
) -> None:
    """Write files, and replace a table's metadata file in the transaction that changes the state.

    Args:
        also: State changes to write in the same transaction, with their conditions.
        shown: New metadata of the shown tables that use this table's data files. Only for
            `InTransaction` catalogs.

    Raises:
        PointerMovedError: Another writer has changed the table since it was read.
        LeaseLostError: The lease of `also` was lost.
        UnknownOutcomeError: The commit's response was lost several times.
    """
    store, catalog, also = lakehouse.store, lakehouse.catalog, also or table_commits.TableCommit()
    # If the catalog is outside the state's transactions, the change is announced first. If the
    # process then ends, `finish_publication.recover` can complete the change.
    atomic = not catalog.form.follows
    in_doubt = False

    def work(conn: Connection) -> None:
        nonlocal in_doubt
        done = in_doubt and swap.is_done(catalog.pointers([swap.ref], conn).get(swap.ref))
        if done and atomic:
            return  # committed before; only the response was lost
        if not done:
            table_commits.check_commit(store, conn, also)
            if swap.before is None:
                catalog.create_namespaces({swap.ref.namespace: {}}, conn)
            try:
                catalog.swap([swap, *(one.swap for one in shown)], conn)
            except PointerMovedError:
                raise
            except Exception:
                in_doubt = in_doubt or not atomic
                raise
            in_doubt = in_doubt or not atomic
        table_commits.record_commit(store, conn, also)
        for one in shown:
            if one.view is not None:
                move_view(conn, catalog.name, one.view)
        if not atomic and also.filled is not None:
            store.pending.forget_commit(conn, also.filled)

    def commit() -> None:
        nonlocal in_doubt
        for number in range(_DOUBTS):
            try:
                return store.database.run_transaction(work, name=name, idempotent=False)
            except UnknownOutcomeError:
                in_doubt = True
                if number == _DOUBTS - 1:
                    raise

    if not atomic:
        table_commits.announce_commit(store, also)
    if swap.updates and not catalog.form.keeps_pointers:
        files = ()  # the catalog writes its own file
    files = [*files, *((one.swap.after or "", one.content) for one in shown)]
    write_then(lakehouse, files, (f"{name}.file", f"{name}.delete"), commit, lambda: in_doubt)


def change_table(
    lakehouse: LakeHandles,
    table: TableState,
    ref: TableRef,
    updates: Updates,
    name: str,
    also: table_commits.TableCommit | None = None,
    shown: Sequence[Made] = (),
) -> dict[str, Any]:
    """Apply updates to a table, and record the change in the state, in one transaction."""
    store, said = lakehouse.store, also or table_commits.TableCommit()
    if not updates:

        def work(conn: Connection) -> None:
            table_commits.check_commit(store, conn, said)
            table_commits.record_commit(store, conn, said)

        if also is not None:
            store.database.run_transaction(work, name=name)
        return table.metadata
    now_ms = lakehouse.now_ms()
    changed = apply_updates(table.metadata, table.location, updates, now_ms)
    after = next_file(changed["location"], table.location)
    swap = Swap(ref, TABLE, table.location, after, updates=updates)
    if said.filled is not None:
        said = replace(said, head=head_in(changed, after, said.filled.table_id, said.branch))
    commit_swap(lakehouse, swap, [(after, encode_metadata(changed))], name, said, shown)
    return changed


def change_at_last(
    lakehouse: LakeHandles,
    ref: TableRef,
    change: Change,
    name: str,
    also: table_commits.TableCommit | Callable[[], table_commits.TableCommit] | None = None,
) -> dict[str, Any]:
    """Change a table, and try again with its newest metadata after a conflict.

    Args:
        change: Returns the updates for given metadata.
        also: State changes to write in the same transaction. A function is called after `change`
            and returns these state changes.

    Raises:
        ConflictError: The table no longer exists, or each attempt conflicted with another writer.
        LeaseLostError: The lease of `also` was lost.
    """
    attempt = 1
    while True:
        table = read_table(lakehouse, ref)
        try:
            updates = change(table.metadata)
            said = also() if callable(also) else also
            return change_table(lakehouse, table, ref, updates, name, said)
        except PointerMovedError:
            if attempt >= _ATTEMPTS:
                raise
        # A random pause, so that two processes do not conflict again and again.
        time.sleep(random.uniform(0, _PAUSE_SECONDS * attempt))
        attempt += 1


def read_table(lakehouse: LakeHandles, ref: TableRef) -> TableState:
    """Read a table's metadata, or raise ConflictError if it is not in the catalog."""
    found = lakehouse.find_table(ref)
    if found is None:
        raise ConflictError(f"the catalog no longer has {ref}", hint="plan again: vde plan ENV")
    return found
