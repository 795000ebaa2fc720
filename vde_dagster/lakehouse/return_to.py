"""Taking a table's `main` back to an Iceberg snapshot that a version pinned."""

from __future__ import annotations

from typing import Any

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.branch_names import plan_of_branch
from vde_dagster.lakehouse.fill_summaries import TABLE_KEY
from vde_dagster.lakehouse.publication import Return
from vde_dagster.lakehouse.table_metadata import MAIN, ancestors, head_of, history, move_back
from vde_dagster.planning.table import PREVIEW_PREFIX


def return_to(
    metadata: dict[str, Any], metadata_location: str, back: Return, now_ms: int
) -> dict[str, Any]:
    """Return a table's metadata with `main`, or its preview's branch, where it was.

    Branches of plans end: what an attempt wrote that nobody published stands on rows that are
    gone, or fills what has to be filled by somebody who sees what is there now.

    Args:
        metadata: The table's metadata now.
        metadata_location: Its file; goes into the metadata log.
        back: Where it goes.
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
        metadata: The metadata.
        table_id: The physical table.
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
