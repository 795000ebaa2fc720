"""What the state checks and records in the transaction of a table's commit, as values.

Who commits to a table says what the commit is for, and needs no connection to say it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, delete, insert, select

from vde_dagster.errors import ConflictError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.table_contents import FillFacts, dump_facts, load_facts
from vde_dagster.planning.tables.table import PhysicalColumn, PhysicalTable
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.environments.pins import Head
from vde_dagster.state.fills.fills import FillStore

if TYPE_CHECKING:
    from vde_dagster.state.store import StateStore


class TableShownError(ConflictError):
    """A table that nobody could read has been published while it was filled."""


def shown_by_production(subject: str, environment: str) -> ConflictError:
    """Return the error of an environment that would write what production reads.

    Args:
        environment: The environment that would write it.
    """
    return ConflictError(
        f"production has begun to show {subject} since the plan for '{environment}' was made",
        hint=f"plan again: vde plan {environment}; production's own runs fill what it shows",
    )


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What goes with a table's next metadata.

    Args:
        lease: The lease that has to be valid still, or None.
        filled: The range that `main` has from here on; the table may be shown by nobody.
        unused_files: Files that nothing names any more, to be deleted after the grace time.
        subject: The table's name, for messages.
        columns: Columns that the table gets, by the table's id.
        branched: The table that is a branch of it from here on, or None.
        branch: The branch that readers of what is filled see; None for `main`.
        head: What those readers see then.
    """

    lease: Lease | None = None
    filled: PendingInterval | None = None
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
    if commit.filled is not None and store.shown.is_shown(conn, commit.filled.table_id):
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
        record_filled(store, conn, commit.filled)
    if commit.columns is not None:
        store.tables.add_columns(conn, *commit.columns)
    if commit.branched is not None:
        store.tables.branch_off(conn, commit.branched)
    if commit.head is not None:
        store.pins.note(conn, [commit.head])
    if commit.unused_files:
        store.publications.note_unused_files(conn, commit.unused_files)


def record_filled(store: StateStore, conn: Connection, filled: PendingInterval) -> None:
    """Record that a range is on `main`, so that it waits for nothing any more."""
    store.fills.record(
        filled.table_id,
        filled.interval,
        filled.plan_id,
        filled.iceberg_snapshot_id,
        filled.rows,
        conn,
        size=filled.bytes,
        seconds=filled.seconds,
        facts=filled.facts,
    )


def forget_announced(conn: Connection, filled: PendingInterval) -> None:
    """Forget that a commit's range waits, whichever plan announced it."""
    table = schema.pending
    conn.execute(
        delete(table).where(
            table.c.table_id == filled.table_id,
            table.c.iceberg_snapshot_id == filled.iceberg_snapshot_id,
        )
    )


def all_pending(store: StateStore) -> dict[str, list[PendingInterval]]:
    """Return what waits on branches, of every plan, by table."""
    table = schema.pending
    query = select(table).order_by(table.c.table_id, table.c.start_at)
    found: dict[str, list[PendingInterval]] = {}
    with store.database.reading() as conn:
        for row in conn.execute(query):
            found.setdefault(row.table_id, []).append(pending_of(row))
    return found


def record_pending(store: StateStore, lease: Lease | None, pending: PendingInterval) -> None:
    """Record that a range waits on a branch, as long as the lease on its table is held.

    Raises:
        LeaseLostError: Somebody else works on the table now.
    """

    def work(conn: Connection) -> None:
        if lease is not None:
            store.leases.check(conn, lease)
        store.pending.record(
            pending.plan_id,
            pending.table_id,
            pending.branch,
            pending.interval,
            pending.iceberg_snapshot_id,
            pending.rows,
            conn,
            size=pending.bytes,
            seconds=pending.seconds,
            facts=pending.facts,
        )

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
class PendingInterval:
    """A range that is written to a branch and becomes filled with the publication.

    Args:
        interval: The range (UTC, half-open).
        iceberg_snapshot_id: The commit that holds it, when there was one.
        rows: Rows in it, when counted.
        bytes: Bytes of the files that the commit added, when known.
        seconds: How long the fill took, when known.
        facts: What it read and wrote, when known; a slot that was skipped waits on no branch.
    """

    plan_id: str
    table_id: str
    branch: str
    interval: Interval
    iceberg_snapshot_id: int | None
    rows: int | None
    bytes: int | None = None
    seconds: float | None = None
    facts: FillFacts | None = None


def pending_of(row: Row[Any]) -> PendingInterval:
    """Read a row of the table of pending intervals."""
    return PendingInterval(
        plan_id=row.plan_id,
        table_id=row.table_id,
        branch=row.branch,
        interval=Interval(row.start_at, row.end_at),
        iceberg_snapshot_id=row.iceberg_snapshot_id,
        rows=row.row_count,
        bytes=row.byte_count,
        seconds=row.seconds,
        facts=load_facts(row.inputs, row.output, row.skipped, row.lacks),
    )


@dataclass(frozen=True, slots=True)
class PendingStore:
    """Reading and writing what waits for a publication.

    Args:
        fills: Where it goes with the publication.
    """

    database: Database
    fills: FillStore

    def record(
        self,
        plan_id: str,
        table_id: str,
        branch: str,
        interval: Interval,
        iceberg_snapshot_id: int | None = None,
        rows: int | None = None,
        connection: Connection | None = None,
        *,
        size: int | None = None,
        seconds: float | None = None,
        facts: FillFacts | None = None,
    ) -> None:
        """Record that a range is written and audited on a branch; twice is harmless."""
        table = schema.pending
        key = {
            "plan_id": plan_id,
            "table_id": table_id,
            "start_at": interval.start,
            "end_at": interval.end,
        }

        def work(conn: Connection) -> None:
            conn.execute(table.delete().filter_by(**key))
            conn.execute(
                insert(table).values(
                    **key,
                    branch=branch,
                    iceberg_snapshot_id=iceberg_snapshot_id,
                    row_count=rows,
                    byte_count=size,
                    seconds=seconds,
                    recorded_at=self.database.clock.now(),
                    **dump_facts(facts),
                )
            )

        self.database.run(connection, work, name="state.record_pending")

    def of_plan(self, plan_id: str, connection: Connection | None = None) -> list[PendingInterval]:
        """Return what waits on branches for a plan's publication, in the order it was written."""
        table = schema.pending
        query = (
            select(table)
            .where(table.c.plan_id == plan_id)
            .order_by(table.c.recorded_at, table.c.table_id, table.c.start_at)
        )
        with self.database.reading(connection) as conn:
            return [pending_of(row) for row in conn.execute(query)]

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
            if pending.facts is not None and pending.facts.skipped is not None:
                self._settle(connection, pending)
                self.drop(plan_id, [pending.table_id], connection)

    def _settle(self, connection: Connection, pending: PendingInterval) -> None:
        skipped = pending.facts.skipped if pending.facts is not None else None
        self.fills.record(
            pending.table_id,
            pending.interval,
            pending.plan_id,
            skipped.commit if skipped is not None else pending.iceberg_snapshot_id,
            pending.rows,
            connection,
            size=pending.bytes,
            seconds=pending.seconds,
            facts=pending.facts,
        )
