"""The commits of a table, as far as it can be told what they changed."""

from __future__ import annotations

from typing import Any

from vde_dagster.lakehouse.fill_summaries import PLAN_KEY, TABLE_KEY
from vde_dagster.lakehouse.table_metadata import history
from vde_dagster.planning.commits import KeptCommit

_COUNTS = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
    "added-dvs",
    "removed-dvs",
    "added-records",
    "deleted-records",
    "added-position-deletes",
    "removed-position-deletes",
    "added-equality-deletes",
    "removed-equality-deletes",
)


def commit_line(
    metadata: dict[str, Any], head: int | None, table_id: str
) -> tuple[KeptCommit, ...]:
    """Return a table's commits from a head back, as far as they are kept.

    Args:
        metadata: The table's metadata.
        head: The newest commit of interest.
        table_id: The physical table's id; commits that name it are fills.
    """
    out = []
    for snapshot in history(metadata, head):
        parent = snapshot.get("parent-snapshot-id")
        summary = snapshot.get("summary", {})
        out.append(
            KeptCommit(
                int(snapshot["snapshot-id"]),
                int(parent) if parent is not None else None,
                is_quiet(summary),
                PLAN_KEY in summary and summary.get(TABLE_KEY) == table_id,
                summary.get("operation") == "append",
            )
        )
    return tuple(out)


def is_quiet(summary: dict[str, str]) -> bool:
    """Say whether a commit's summary tells that no row came or went.

    `replace` is Iceberg's word for files that were written anew with the same rows
    (https://iceberg.apache.org/spec/#snapshots). Of others the counts say it, which writers may
    leave out: one without totals says nothing.

    >>> is_quiet({"operation": "replace", "added-records": "5", "deleted-records": "5"})
    True
    >>> is_quiet({"operation": "append", "total-records": "5"}), is_quiet({"operation": "append"})
    (True, False)
    """
    if summary.get("operation") == "replace":
        return True
    if "total-records" not in summary:
        return False
    return all(int(summary.get(name) or 0) == 0 for name in _COUNTS)
