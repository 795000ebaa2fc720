"""What the state checks and records in the transaction of a table's commit, as values.

Who commits to a table says what the commit is for, and needs no connection to say it.
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
from vde_dagster.state.fills.fills import FillRecord, FillStore, fill_of, tell_fill
from vde_dagster.state.tables.tables import is_shown

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


_ROW = schema.pending.c
_IN_ORDER = (_ROW.recorded_at, _ROW.table_id, _ROW.start_at)


class TableShownError(ConflictError):
    """A table that nobody could read has been published while it was filled."""


def shown_by_production(subject: str, environment: str) -> ConflictError:
    """Return the error of an environment that would write what production reads."""
    return ConflictError(
        f"production has begun to show {subject} since the plan for '{environment}' was made",
        hint=f"plan again: vde plan {environment}; production's own runs fill what it shows",
    )


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What goes with a table's next metadata.

    Args:
        filled: The range that `main` has from here on; the table may be shown by nobody.
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
    """Note what is to be recorded, for a catalog that changes before the state does."""
    if commit.filled is not None and commit.filled.iceberg_snapshot_id is not None:
        store.pending.record(commit.filled, commit.lease, announced=True)


def check_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Make sure, inside the commit's transaction, that it may happen.

    Raises:
        LeaseLostError: Somebody else works on the table now.
        TableShownError: An environment shows the table by now.
    """
    if commit.lease is not None:
        store.leases.check(conn, commit.lease)
    if commit.filled is not None and is_shown(conn, commit.filled.table_id):
        raise TableShownError(
            f"an environment has begun to show {commit.subject} while it was filled",
            hint="apply again: what is written is taken over",
        )


def record_commit(store: StateStore, conn: Connection, commit: TableCommit) -> None:
    """Record, inside the commit's transaction, what it made true; twice is harmless."""
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
    """Reading and writing what waits for a publication."""

    database: Database
    fills: FillStore
    leases: LeaseStore

    def record(
        self, fill: FillRecord, lease: Lease | None = None, *, announced: bool = False
    ) -> None:
        """Record that a range is written and audited on a branch; twice is harmless.

        Args:
            announced: Whether it waits for a commit that follows at once, not for a publication.

        Raises:
            LeaseLostError: Somebody else works on the table than the lease's owner.
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
                tell_fill(self.database, conn, "waiting", fill)

        self.database.run_transaction(work, name="state.record_pending")

    def forget(self, lease: Lease, plan_id: str, table_id: str) -> None:
        """Forget what waits on a table's branches for a plan, as long as its lease is held.

        Raises:
            LeaseLostError: Somebody else works on the table now.
        """

        def work(conn: Connection) -> None:
            self.leases.check(conn, lease)
            own = (_ROW.plan_id == plan_id, _ROW.table_id == table_id)
            conn.execute(delete(schema.pending).where(*own))

        self.database.run_transaction(work, name="state.drop_pending")

    def forget_commit(self, connection: Connection, filled: FillRecord) -> None:
        """Forget that a commit's range waits, whichever plan announced it."""
        connection.execute(
            delete(schema.pending).where(
                _ROW.table_id == filled.table_id,
                _ROW.iceberg_snapshot_id == filled.iceberg_snapshot_id,
            )
        )

    def all(self) -> dict[str, list[FillRecord]]:
        """Return what waits on branches, of every plan, by table."""
        query = select(schema.pending).order_by(_ROW.table_id, _ROW.start_at)
        found: dict[str, list[FillRecord]] = {}
        for row in self.database.rows(query):
            found.setdefault(row.table_id, []).append(fill_of(row))
        return found

    def of_plan(
        self, plan_id: str, connection: Connection | None = None, *, table_id: str | None = None
    ) -> list[FillRecord]:
        """Return what waits on branches for a plan's publication, in the order it was written."""
        query = select(schema.pending).where(_ROW.plan_id == plan_id).order_by(*_IN_ORDER)
        if table_id is not None:
            query = query.where(_ROW.table_id == table_id)
        return [fill_of(row) for row in self.database.rows(query, connection)]

    def settle(
        self, connection: Connection, plan_id: str, table_ids: Iterable[str] | None = None
    ) -> None:
        """Turn what waited into filled intervals, in the publication's transaction.

        Args:
            table_ids: The tables that move; None for all. Skipped slots do not wait for that.
        """
        own = _ROW.plan_id == plan_id
        if table_ids is not None:
            own &= _ROW.table_id.in_(list(table_ids)) | _ROW.skipped.is_not(None)
        query = select(schema.pending).where(own).order_by(*_IN_ORDER)
        for pending in map(fill_of, connection.execute(query).all()):
            skipped = pending.facts.skipped
            commit = skipped.commit if skipped is not None else pending.iceberg_snapshot_id
            counts = replace(pending, iceberg_snapshot_id=commit)
            self.fills.record(counts, connection, waited=skipped is None)
        connection.execute(delete(schema.pending).where(own))
