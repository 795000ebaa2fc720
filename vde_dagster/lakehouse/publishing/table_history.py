"""The commits that lead to a snapshot of a table, and what is known of the rows they changed.

Sources: https://iceberg.apache.org/spec/#optional-snapshot-summary-fields and, for row lineage,
https://iceberg.apache.org/spec/#row-lineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vde_dagster.lakehouse.metadata.fill_summaries import PLAN_KEY, TABLE_KEY
from vde_dagster.lakehouse.metadata.table_metadata import history
from vde_dagster.lakehouse.publishing.pins import rows_in
from vde_dagster.planning.tables.pinned_reads import KeptCommit

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

_DELETES = ("total-delete-files", "total-position-deletes", "total-equality-deletes")


def commit_line(
    metadata: dict[str, Any], head: int | None, table_id: str = ""
) -> tuple[KeptCommit, ...]:
    """Return a table's commits from a head back, as far as they are kept; fills name its id."""
    return tuple(_commit(snapshot, table_id) for snapshot in history(metadata, head))


def _commit(snapshot: Mapping[str, Any], table_id: str) -> KeptCommit:
    parent = snapshot.get("parent-snapshot-id")
    summary = snapshot.get("summary", {})
    moved = [int(summary.get(name) or 0) for name in ("added-records", "deleted-records")]
    return KeptCommit(
        int(snapshot["snapshot-id"]),
        int(parent) if parent is not None else None,
        is_quiet(summary),
        PLAN_KEY in summary and summary.get(TABLE_KEY) == table_id,
        summary.get("operation") == "append",
        int(snapshot.get("sequence-number") or 0),
        any(summary.get(name, "") != "0" for name in _DELETES),
        sum(moved) if "total-records" in summary else None,
        rows_in(summary),
        # Writing of format version 3 gives ids to the rows of before, too.
        snapshot.get("first-row-id") is not None,
    )


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


def field_ids(metadata: dict[str, Any], schema_id: int | None) -> dict[str, int]:
    """Return the ids by name of a table's columns in one of its schemas."""
    wanted = metadata["current-schema-id"] if schema_id is None else schema_id
    found = (one for one in metadata["schemas"] if int(one["schema-id"]) == int(wanted))
    return {field["name"]: int(field["id"]) for one in found for field in one["fields"]}


def identifier_columns(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns of a table's current schema that it says identify a row."""
    ids = field_ids(metadata, None)
    schemas = metadata["schemas"]
    current = next(one for one in schemas if one["schema-id"] == metadata["current-schema-id"])
    wanted = set(current.get("identifier-field-ids", ()))
    return tuple(name for name, field in ids.items() if field in wanted)
