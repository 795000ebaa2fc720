"""Compaction of tables whose readers must skip many deleted rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from vde_dagster.errors import ConflictError, NoSparkError
from vde_dagster.lakehouse.maintenance.sweep import Cleaning, Decision, with_metadata
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.leases import lease_owner, table_lease

Compact = Callable[[TableRef], None]
"""Rewrites a table's data files without their deleted rows, in one commit to `main`."""
_MOST_DELETED = 0.1
"""Share of deleted rows above which readers lose more time than a compaction takes."""
_MOST_FILES = 100
"""Number of delete files above which planning a query takes long."""


def compact_tables(run: Cleaning, kept: Collection[str], compact: Compact) -> None:
    """Compact the kept tables that have many deleted rows or delete files."""
    ledger = [one for one in run.store.ledger.tables() if one.branch is None and one.id in kept]
    for table, metadata in with_metadata(run, ledger):
        head = next(history(metadata, head_of(metadata, None)), None)
        reason = why_compacted(head.get("summary", {})) if head is not None else None
        if reason is not None:
            decision = Decision("compact_table", str(table.ref), reason)
            # A table that is being filled is left for the next cleanup. Without Spark,
            # all tables are left.
            run.act(decision, partial(_compact, run, table.id, table.ref, compact))


def why_compacted(summary: Mapping[str, Any]) -> str | None:
    """Return the reason to compact a table, from the summary of its last commit, or None.

    >>> why_compacted({"total-records": "80", "total-position-deletes": "12",
    ...                "total-delete-files": "3"})
    '12 of 80 rows are deleted, in 3 delete files'
    >>> why_compacted({"total-records": "800", "total-position-deletes": "12"}) is None
    True
    """
    rows, deleted, files = (
        int(summary.get(f"total-{name}") or 0)
        for name in ("records", "position-deletes", "delete-files")
    )
    if deleted <= _MOST_DELETED * rows and files <= _MOST_FILES:
        return None
    counted = "1 delete file" if files == 1 else f"{files:,} delete files"
    return f"{deleted:,} of {rows:,} rows are deleted, in {counted}"


def _compact(run: Cleaning, table_id: str, ref: TableRef, compact: Compact) -> bool:
    try:
        with run.store.leases.holding(table_lease(table_id), lease_owner("janitor")):
            compact(ref)
    except (ConflictError, NoSparkError):
        return False
    return True
