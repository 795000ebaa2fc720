"""The change of a pointer that a publication announced, also where its table has moved since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Swap
from vde_dagster.lakehouse.io.files import encode_metadata, read_metadata
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.metadata.fill_summaries import TABLE_KEY, plan_of_branch
from vde_dagster.lakehouse.metadata.table_metadata import (
    MAIN,
    ancestors,
    fast_forward,
    head_of,
    history,
    move_back,
    promoted,
    with_types,
)
from vde_dagster.lakehouse.publishing.commit import read_table
from vde_dagster.lakehouse.publishing.publication import Return
from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.environments.pin_history import restore_filled
from vde_dagster.state.environments.publications import PublicationRecord, PublishedFile

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


def announced(file: PublishedFile) -> Swap:
    """Return the change of a pointer that a publication's file was written for."""
    assert file.ref is not None
    kind = VIEW if file.kind == VIEW.lower() else TABLE
    return Swap(file.ref, kind, file.previous, file.location or None)


def rebased(
    lakehouse: Lakehouse, swap: Swap, file: PublishedFile
) -> tuple[Swap, list[tuple[str, bytes]]] | None:
    """Make the change of a table that somebody committed to since the publication was prepared.

    Returns:
        The change, and the metadata files that it needs; None where the table has moved already,
        and others built on it.

    Raises:
        ConflictError: Its `main` was written by a program other than vde.
    """
    assert swap.after is not None
    table = read_table(lakehouse, swap.ref)
    planned = read_metadata(lakehouse.files, swap.after, str(swap.ref))
    now_ms = int(lakehouse.store.database.clock.now().timestamp() * 1000)
    moved = table.metadata
    if file.returned is not None and file.table_id is not None:
        back = file.returned
        if head_of(moved, file.branch) != back.snapshot_id:
            to = Return(
                swap.ref, file.table_id, back.snapshot_id, back.filled, back.expected, file.branch
            )
            moved = return_to(moved, table.location, to, now_ms)
    elif file.branch is not None:
        into = _moving(lakehouse, file)
        if head_of(planned, into) not in ancestors(moved, head_of(moved, into)):
            moved = fast_forward(
                moved, table.location, file.branch, None, now_ms, str(swap.ref), into
            )
    moved = with_types(moved, table.location, promoted(moved, planned), now_ms)
    if moved == table.metadata:
        return None
    after = next_file(table.metadata["location"], table.location)
    again = Swap(swap.ref, TABLE, table.location, after, metadata=moved)
    if not lakehouse.catalog.form.keeps_pointers:
        return again, []
    return again, [(after, encode_metadata(moved))]


def say_filled(
    lakehouse: Lakehouse, connection: Connection, record: PublicationRecord, file: PublishedFile
) -> None:
    """Let the state say what a table holds, once its pointer is where a publication puts it."""
    if file.table_id is None:
        return
    if file.returned is not None:
        restore_filled(connection, file.table_id, file.returned.filled)
    elif record.plan_id is not None:
        lakehouse.store.pending.settle(connection, record.plan_id, [file.table_id])


def _moving(lakehouse: Lakehouse, file: PublishedFile) -> str | None:
    """Return the branch of a preview that a publication moves; None for `main`."""
    known = lakehouse.store.tables.load([file.table_id] if file.table_id else [])
    return next((table.branch for table in known.values()), None)


def return_to(
    metadata: dict[str, Any], metadata_location: str, back: Return, now_ms: int
) -> dict[str, Any]:
    """Return a table's metadata with `main`, or its preview's branch, where it was.

    Branches of plans end: what an attempt wrote that nobody published stands on rows that are
    gone, or fills what has to be filled by somebody who sees what is there now.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        now_ms: Milliseconds since 1970 (UTC).

    Raises:
        ConflictError: Somebody else wrote to it meanwhile, or the snapshot is gone.
    """
    now = head_of(metadata, back.into)
    if now not in (back.expected, back.snapshot_id):
        raise ConflictError(
            f"the table {back.ref} was written by somebody else: {back.into or MAIN} is at {now}, "
            f"not at {back.expected}",
            hint="roll back again",
        )
    ended = attempts(metadata, back.table_id, back.into)
    return move_back(
        metadata, metadata_location, back.snapshot_id, now_ms, str(back.ref), back.into, ended
    )


def attempts(metadata: dict[str, Any], table_id: str, into: str | None) -> set[str]:
    """Name the branches on which plans wrote to a table, and not to previews in the same one.

    Args:
        into: The branch that its readers see; None for `main`.
    """
    shown = ancestors(metadata, head_of(metadata, into))
    found = set()
    for name in metadata.get("refs", {}):
        if name.startswith(PREVIEW_PREFIX) or plan_of_branch(name) is None:
            continue
        beyond = [
            one.get("summary", {}).get(TABLE_KEY)
            for one in history(metadata, head_of(metadata, name))
            if int(one["snapshot-id"]) not in shown
        ]
        if all(written in (None, table_id) for written in beyond):
            found.add(name)
    return found
