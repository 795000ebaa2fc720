"""Ranges that are written to branches and become filled with a publication."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from vde_dagster.planning.contents import FillFacts
from vde_dagster.planning.contents_codec import dump_facts, load_facts
from vde_dagster.planning.interval import Interval
from vde_dagster.state import schema
from vde_dagster.state.database import Database
from vde_dagster.state.fills import FillStore


@dataclass(frozen=True, slots=True)
class PendingInterval:
    """A range that is written to a branch and becomes filled with the publication.

    Args:
        plan_id: The plan that wrote it.
        table_id: The table.
        branch: The Iceberg branch.
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
        database: Where that is.
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
