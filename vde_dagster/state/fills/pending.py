"""Fills that are written and audited on a branch, and wait for their publication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, insert, select

from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster.state.fills.fills import FillRecord, FillStore, add_fill_record, read_fill

_ROW = schema.pending.c
_IN_ORDER = (_ROW.recorded_at, _ROW.table_id, _ROW.start_at)


@dataclass(frozen=True, slots=True)
class PendingStore:
    database: Database
    fills: FillStore
    leases: LeaseStore

    def record(
        self, fill: FillRecord, lease: Lease | None = None, *, announced: bool = False
    ) -> None:
        """Record that a range is written and audited on a branch. Repeating the call is harmless.

        Args:
            announced: Whether the fill's commit to `main` follows immediately. If False, the fill
                waits for a publication, and an outbox record (`waiting`) is written, unless the
                fill was skipped.

        Raises:
            LeaseLostError: The lease on the table ended or was taken over.
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
        """Delete a plan's pending fills of a table.

        Raises:
            LeaseLostError: The lease on the table ended or was taken over.
        """

        def work(conn: Connection) -> None:
            self.leases.check(conn, lease)
            own = (_ROW.plan_id == plan_id, _ROW.table_id == table_id)
            conn.execute(delete(schema.pending).where(*own))

        self.database.run_transaction(work, name="state.drop_pending")

    def forget_commit(self, connection: Connection, filled: FillRecord) -> None:
        """Delete the pending fill with the same table and commit as `filled`."""
        connection.execute(
            delete(schema.pending).where(
                _ROW.table_id == filled.table_id,
                _ROW.iceberg_snapshot_id == filled.iceberg_snapshot_id,
            )
        )

    def all(self) -> dict[str, list[FillRecord]]:
        query = select(schema.pending).order_by(_ROW.table_id, _ROW.start_at)
        found: dict[str, list[FillRecord]] = {}
        for row in self.database.rows(query):
            found.setdefault(row.table_id, []).append(read_fill(row))
        return found

    def for_plan(
        self, plan_id: str, connection: Connection | None = None, *, table_id: str | None = None
    ) -> list[FillRecord]:
        """Return the fills that wait for the publication of one plan, in order of writing."""
        query = select(schema.pending).where(_ROW.plan_id == plan_id).order_by(*_IN_ORDER)
        if table_id is not None:
            query = query.where(_ROW.table_id == table_id)
        return [read_fill(row) for row in self.database.rows(query, connection)]

    def settle(
        self, connection: Connection, plan_id: str, table_ids: Iterable[str] | None = None
    ) -> None:
        """Make pending fills count as filled ranges, when they are published.

        Args:
            table_ids: Ids of the tables that the publication moves; None for all. Skipped fills are
                always included.
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
