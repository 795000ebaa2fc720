"""State transaction of a table's Iceberg commit: checks the lease, and records the new rows.

The code that writes the table passes what to check and to record as a `TableCommit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.environments.pins import Head
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.tables.tables import is_shown

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


class TableShownError(ConflictError):
    """A table was published while it was being filled."""


def production_shows(subject: str, environment: str) -> ConflictError:
    """Build the error for an environment that would write rows that production reads."""
    return ConflictError(
        f"production published {subject} after the plan for '{environment}' was made",
        hint=f"plan again: vde plan {environment}; only plans and runs of production fill the "
        "tables that production shows",
    )


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Conditions and state changes of one Iceberg commit to a table.

    Args:
        filled: The fill that the commit adds to `main`. The commit fails if an environment shows
            the table.
    """

    lease: Lease | None = None
    filled: FillRecord | None = None
    unused_files: tuple[str, ...] = ()
    subject: str = ""
    columns: tuple[str, tuple[PhysicalColumn, ...]] | None = None
    branched: PhysicalTable | None = None
    branch: str | None = None
    head: Head | None = None


def announce_commit(store: StateStore, commit: TableCommit) -> None:
    """Store a commit's fill as pending, before the catalog commits."""
    if commit.filled is not None and commit.filled.iceberg_snapshot_id is not None:
        store.pending.record(commit.filled, commit.lease, announced=True)


def check_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Check in a commit's transaction that the lease is valid and the table is unpublished.

    Raises:
        LeaseLostError: The lease ended or was taken over.
        TableShownError: An environment shows the table by now.
    """
    if commit.lease is not None:
        store.leases.check(conn, commit.lease)
    if commit.filled is not None and is_shown(conn, commit.filled.table_id):
        raise TableShownError(
            f"an environment began to show {commit.subject} while it was being filled",
            hint="finished ranges are kept; apply again: vde apply ENV",
        )


def record_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Store the fill, columns and head of a commit, in the commit's transaction. Repeatable."""
    if commit.filled is not None:
        store.fills.record(commit.filled, conn)
    if commit.columns is not None:
        store.tables.add_columns(conn, *commit.columns)
    if commit.branched is not None:
        store.tables.branch_off(conn, commit.branched)
    if commit.head is not None:
        store.pins.note(conn, [commit.head])
    if commit.unused_files:
        store.publications.note_unused_files(conn, commit.unused_files)
