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
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.environments.pins import Head
from vde_dagster.state.fills.fills import FillRecord, FillStore, fill_of
from vde_dagster.state.tables.ledger import is_shown

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


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
        unused_files: Files that nothing names any more, to be deleted after the grace time.
        columns: Columns that the table gets, by the table's id.
        branched: The table that is a branch of it from here on, or None.
        branch: The branch that readers of what is filled see; None for `main`.
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
    """Note what is to be recorded, for a catalog that changes before the state does.

    Raises:
        LeaseLostError: Somebody else works on the table now.
    """
    if commit.filled is not None and commit.filled.iceberg_snapshot_id is not None:
        record_pending(store, commit.lease, commit.filled)


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
    """Record, inside the commit's transaction, what it made true; twice is harmless.

    Raises:
        StoreError: The table was given up to the janitor.
    """
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


def forget_announced(conn: Connection, filled: FillRecord) -> None:
    """Forget that a commit's range waits, whichever plan announced it."""
    table = schema.pending
    conn.execute(
        delete(table).where(
            table.c.table_id == filled.table_id,
            table.c.iceberg_snapshot_id == filled.iceberg_snapshot_id,
        )
    )


def all_pending(store: StateStore) -> dict[str, list[FillRecord]]:
    """Return what waits on branches, of every plan, by table."""
    table = schema.pending
    query = select(table).order_by(table.c.table_id, table.c.start_at)
    found: dict[str, list[FillRecord]] = {}
    with store.database.reading() as conn:
        for row in conn.execute(query):
            found.setdefault(row.table_id, []).append(fill_of(row))
    return found


def record_pending(store: StateStore, lease: Lease | None, pending: FillRecord) -> None:
    """Record that a range waits on a branch, as long as the lease on its table is held.

    Raises:
        LeaseLostError: Somebody else works on the table now.
    """

    def work(conn: Connection) -> None:
        if lease is not None:
            store.leases.check(conn, lease)
        store.pending.record(pending, conn)

    store.database.run_transaction(work, name="state.record_pending")


def forget_pending(store: StateStore, lease: Lease, plan_id: str, table_id: str) -> None:
    """Forget what waits on a table's branches for a plan, as long as its lease is held.

    Raises:
        LeaseLostError: Somebody else works on the table now.
    """

    def work(conn: Connection) -> None:
        store.leases.check(conn, lease)
        store.pending.drop(plan_id, [table_id], conn)

    store.database.run_transaction(work, name="state.drop_pending")


def ensure_tables(store: StateStore, tables: Iterable[PhysicalTable]) -> dict[str, PhysicalTable]:
    """Register tables together; return by id what each is, which may be one that existed."""
    listed = list(tables)

    def register(conn: Connection) -> dict[str, PhysicalTable]:
        return {table.id: store.tables.ensure(table, conn) for table in listed}

    return store.database.run_transaction(register, name="state.ensure_tables")


@dataclass(frozen=True, slots=True)
class PendingStore:
    """Reading and writing what waits for a publication."""

    database: Database
    fills: FillStore

    def record(self, fill: FillRecord, connection: Connection | None = None) -> None:
        """Record that a range is written and audited on a branch; twice is harmless."""
        table = schema.pending
        key = {
            "plan_id": fill.plan_id,
            "table_id": fill.table_id,
            "start_at": fill.interval.start,
            "end_at": fill.interval.end,
        }

        def work(conn: Connection) -> None:
            conn.execute(table.delete().filter_by(**key))
            stored = fill.values(self.database.clock.now())
            conn.execute(insert(table).values(**stored, branch=fill.branch))

        self.database.run(connection, work, name="state.record_pending")

    def of_plan(
        self, plan_id: str, connection: Connection | None = None, *, table_id: str | None = None
    ) -> list[FillRecord]:
        """Return what waits on branches for a plan's publication, in the order it was written.

        Args:
            table_id: Of this table alone, or of all.
        """
        table = schema.pending
        query = (
            select(table)
            .where(table.c.plan_id == plan_id)
            .order_by(table.c.recorded_at, table.c.table_id, table.c.start_at)
        )
        if table_id is not None:
            query = query.where(table.c.table_id == table_id)
        with self.database.reading(connection) as conn:
            return [fill_of(row) for row in conn.execute(query)]

    def drop(
        self,
        plan_id: str,
        table_ids: Iterable[str] | None = None,
        connection: Connection | None = None,
    ) -> None:
        """Forget what waits on branches for a plan, of all tables or of some."""
        table = schema.pending

        def work(conn: Connection) -> None:
            statement = table.delete().where(table.c.plan_id == plan_id)
            if table_ids is not None:
                statement = statement.where(table.c.table_id.in_(list(table_ids)))
            conn.execute(statement)

        self.database.run(connection, work, name="state.drop_pending")

    def settle(
        self, connection: Connection, plan_id: str, table_ids: Iterable[str] | None = None
    ) -> None:
        """Turn what waited on branches into filled intervals, in the publication's transaction."""
        chosen = None if table_ids is None else set(table_ids)
        for pending in self.of_plan(plan_id, connection):
            if chosen is None or pending.table_id in chosen:
                self._settle(connection, pending)
        self.drop(plan_id, chosen, connection)

    def settle_skipped(self, connection: Connection, plan_id: str) -> None:
        """Turn skipped slots into filled intervals, in the publication's transaction.

        No table moves with them, so that no catalog has to be asked.
        """
        for pending in self.of_plan(plan_id, connection):
            if pending.facts.skipped is not None:
                self._settle(connection, pending)
                self.drop(plan_id, [pending.table_id], connection)

    def _settle(self, connection: Connection, pending: FillRecord) -> None:
        skipped = pending.facts.skipped
        if skipped is not None:
            pending = replace(pending, iceberg_snapshot_id=skipped.commit)
        self.fills.record(pending, connection)
