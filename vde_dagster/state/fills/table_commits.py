"""Checks and records in the transaction of a table's commit, as values.

The writer of a commit describes its purpose as a value and needs no database connection for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, insert, select

from vde_dagster.errors import ConflictError
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster.state.environments.pins import Head
from vde_dagster.state.fills.fills import FillRecord, FillStore, add_fill_record, read_fill
from vde_dagster.state.tables.tables import is_shown

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


_ROW = schema.pending.c
_IN_ORDER = (_ROW.recorded_at, _ROW.table_id, _ROW.start_at)


class TableShownError(ConflictError):
    """A table without readers was published while it was being filled."""


def production_shows(subject: str, environment: str) -> ConflictError:
    """Return the error for an environment that would write rows that production reads."""
    return ConflictError(
        f"production has begun to show {subject} since the plan for '{environment}' was made",
        hint=f"plan again: vde plan {environment}; production's own runs fill what it shows",
    )


@dataclass(frozen=True, slots=True)
class TableCommit:
    """Purpose of a table's next metadata file.

    Args:
        filled: The range that `main` has from here on; no environment may show the table.
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
    """Record the fill in advance, for a catalog that commits before the state does."""
    if commit.filled is not None and commit.filled.iceberg_snapshot_id is not None:
        store.pending.record(commit.filled, commit.lease, announced=True)


def check_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Make sure, inside the commit's transaction, that the commit may happen.

    Raises:
        LeaseLostError: Another process works on the table now.
        TableShownError: An environment shows the table by now.
    """
    if commit.lease is not None:
        store.leases.check(conn, commit.lease)
    if commit.filled is not None and is_shown(conn, commit.filled.table_id):
        raise TableShownError(
            f"an environment began to show {commit.subject} while it was being filled",
            hint="apply again: finished ranges are kept",
        )


def record_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Record the effects of a commit, inside its transaction; repeating it is harmless."""
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


@dataclass(frozen=True, slots=True)
class PendingStore:
    """Reads and writes fills that wait for a publication."""

    database: Database
    fills: FillStore
    leases: LeaseStore

    def record(
        self, fill: FillRecord, lease: Lease | None = None, *, announced: bool = False
    ) -> None:
        """Record that a range is written and audited on a branch; repeating it is harmless.

        Args:
            announced: Whether it waits for a commit that follows at once, not for a publication.

        Raises:
            LeaseLostError: The lease on the table belongs to another process.
        """
        start, end = fill.interval.start, fill.interval.end
        own = (_ROW.plan_id == fill.plan_id, _ROW.table_id == fill.table_id)
        this = (*own, _ROW.start_at == start, _ROW.end_at == end)

        def work(conn: Connection) -> None:
            if lease is not None:
                self.leases.check(conn, lease)
            conn.execute(delete(schema.pending).where(*this))
            row = fill.row(schema.pending, self.database.clock.now())
            conn.execute(insert(schema.pending), row)
            if not announced and fill.facts.skipped is None:
                add_fill_record(self.database, conn, "waiting", fill)

        self.database.run_transaction(work, name="state.record_pending")

    def forget(self, lease: Lease, plan_id: str, table_id: str) -> None:
        """Delete a plan's pending fills on a table's branches, while its lease is held.

        Raises:
            LeaseLostError: Another process works on the table now.
        """

        def work(conn: Connection) -> None:
            self.leases.check(conn, lease)
            own = (_ROW.plan_id == plan_id, _ROW.table_id == table_id)
            conn.execute(delete(schema.pending).where(*own))

        self.database.run_transaction(work, name="state.drop_pending")

    def forget_commit(self, connection: Connection, filled: FillRecord) -> None:
        """Delete a commit's pending fill, whichever plan announced it."""
        connection.execute(
            delete(schema.pending).where(
                _ROW.table_id == filled.table_id,
                _ROW.iceberg_snapshot_id == filled.iceberg_snapshot_id,
            )
        )

    def all(self) -> dict[str, list[FillRecord]]:
        """Return the pending fills on branches, of every plan, by table."""
        query = select(schema.pending).order_by(_ROW.table_id, _ROW.start_at)
        found: dict[str, list[FillRecord]] = {}
        for row in self.database.rows(query):
            found.setdefault(row.table_id, []).append(read_fill(row))
        return found

    def for_plan(
        self, plan_id: str, connection: Connection | None = None, *, table_id: str | None = None
    ) -> list[FillRecord]:
        """Return the fills on branches that wait for a plan's publication, in order of writing."""
        query = select(schema.pending).where(_ROW.plan_id == plan_id).order_by(*_IN_ORDER)
        if table_id is not None:
            query = query.where(_ROW.table_id == table_id)
        return [read_fill(row) for row in self.database.rows(query, connection)]

    def settle(
        self, connection: Connection, plan_id: str, table_ids: Iterable[str] | None = None
    ) -> None:
        """Turn pending fills into filled intervals, in the publication's transaction.

        Args:
            table_ids: The tables that move; None for all. Skipped slots do not wait for that.
        """
        own = _ROW.plan_id == plan_id
        if table_ids is not None:
            own &= _ROW.table_id.in_(list(table_ids)) | _ROW.skipped.is_not(None)
        query = select(schema.pending).where(own).order_by(*_IN_ORDER)
        for pending in map(read_fill, connection.execute(query).all()):
            skipped = pending.facts.skipped
            commit = skipped.commit if skipped is not None else pending.iceberg_snapshot_id
            counts = replace(pending, iceberg_snapshot_id=commit)
            self.fills.record(counts, connection, waited=skipped is None)
        connection.execute(delete(schema.pending).where(own))
