"""The commits that lead to a snapshot of a table, with what tells which rows came and went.

Sources: https://iceberg.apache.org/spec/#optional-snapshot-summary-fields and, for row lineage,
https://iceberg.apache.org/spec/#row-lineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vde_dagster.lakehouse.commit_line import is_quiet
from vde_dagster.lakehouse.pins import rows_in
from vde_dagster.lakehouse.table_metadata import history
from vde_dagster.planning.changes.commits import TableCommit

_DELETES = ("total-delete-files", "total-position-deletes", "total-equality-deletes")


def change_line(metadata: dict[str, Any], head: int | None) -> tuple[TableCommit, ...]:
    """Return a table's commits from a snapshot back, as far as they are kept.

    Args:
        metadata: The table's metadata.
        head: The newest commit of interest; None for the empty table.
    """
    return tuple(_commit(snapshot) for snapshot in history(metadata, head))


def _commit(snapshot: Mapping[str, Any]) -> TableCommit:
    parent = snapshot.get("parent-snapshot-id")
    summary = snapshot.get("summary", {})
    counted = "total-records" in summary
    moved = [int(summary.get(name) or 0) for name in ("added-records", "deleted-records")]
    return TableCommit(
        int(snapshot["snapshot-id"]),
        int(parent) if parent is not None else None,
        int(snapshot.get("sequence-number") or 0),
        is_quiet(summary),
        any(summary.get(name, "") != "0" for name in _DELETES),
        sum(moved) if counted else None,
        rows_in(summary),
        # Writing of format version 3 gives ids to the rows of before, too.
        snapshot.get("first-row-id") is not None,
    )


def field_ids(metadata: dict[str, Any], schema_id: int | None) -> dict[str, int]:
    """Return the ids by name of a table's columns in one of its schemas.

    Args:
        metadata: The table's metadata.
        schema_id: The schema; the current one for None.
    """
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
