"""What recorded fills remember of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select

from vde_dagster.planning.contents import FillFacts, Output, Skipped
from vde_dagster.planning.contents_codec import load_facts, load_output
from vde_dagster.planning.interval import Interval
from vde_dagster.state import schema
from vde_dagster.state.database import Database
from vde_dagster.state.fills import COUNTS
from vde_dagster.state.rows import chunks


@dataclass(frozen=True, slots=True)
class LastFill:
    """The record of a table's latest fill.

    Args:
        commit: The Iceberg snapshot that holds the rows, when known.
        rows: How many there are, when known.
        recorded_at: When it was recorded (UTC).
        bytes: Bytes of the files that it added, when known.
        seconds: How long it took, when known.
        facts: What it read and wrote.
    """

    commit: int | None
    rows: int | None
    recorded_at: datetime
    bytes: int | None
    seconds: float | None
    facts: FillFacts

    def as_skipped(self) -> Skipped:
        """Return what is to be said when its rows stay: who computed them, and what that cost."""
        if self.facts.skipped is not None:
            return self.facts.skipped
        return Skipped(self.recorded_at, self.seconds, self.bytes, self.commit)


@dataclass(frozen=True, slots=True)
class FactStore:
    """Reading what fills remember.

    Args:
        database: Where that is.
    """

    database: Database

    def latest(self, table_ids: Iterable[str]) -> dict[str, LastFill]:
        """Return the latest fill of tables, by table id; those without one are left out."""
        found: dict[str, LastFill] = {}
        fills = schema.fills
        newer = fills.alias("newer")
        newest = (
            select(func.max(newer.c.recorded_at))
            .where(newer.c.table_id == fills.c.table_id, newer.c.undone.is_not(True))
            .scalar_subquery()
        )
        with self.database.reading() as conn:
            for part in chunks(list(dict.fromkeys(table_ids))):
                query = (
                    select(fills)
                    .where(fills.c.table_id.in_(part), fills.c.recorded_at == newest, COUNTS)
                    .order_by(fills.c.table_id, fills.c.start_at)
                )
                found.update((row.table_id, _last_fill(row)) for row in conn.execute(query))
        return found

    def output(self, table_id: str, commit: int) -> Output | None:
        """Return what the fill of an Iceberg commit wrote, also when it waits on a branch."""
        with self.database.reading() as conn:
            for table in (schema.pending, schema.fills):
                query = select(table.c.output).where(
                    table.c.table_id == table_id,
                    table.c.iceberg_snapshot_id == commit,
                    table.c.output.is_not(None),
                    table.c.skipped.is_(None),
                )
                text = conn.execute(query).scalar()
                if text:
                    return load_output(text)
        return None

    def overlapping(
        self, table_id: str, interval: Interval, plan_id: str
    ) -> list[tuple[Interval, int | None, Output | None]]:
        """Return the fills of ranges that overlap one, newest first.

        Args:
            table_id: The table.
            interval: The range (UTC).
            plan_id: A plan whose fills count, too, that wait for its publication.
        """
        rows: list[Row[Any]] = []
        with self.database.reading() as conn:
            for table in (schema.pending, schema.fills):
                query = select(table).where(
                    table.c.table_id == table_id,
                    table.c.start_at < interval.end,
                    table.c.end_at > interval.start,
                )
                if table is schema.pending:
                    query = query.where(table.c.plan_id == plan_id)
                else:
                    query = query.where(COUNTS)
                rows += conn.execute(query).all()
        rows.sort(key=lambda row: row.recorded_at, reverse=True)
        return [
            (Interval(row.start_at, row.end_at), row.iceberg_snapshot_id, load_output(row.output))
            for row in rows
        ]


def _last_fill(row: Row[Any]) -> LastFill:
    return LastFill(
        commit=row.iceberg_snapshot_id,
        rows=row.row_count,
        recorded_at=row.recorded_at,
        bytes=row.byte_count,
        seconds=row.seconds,
        facts=load_facts(row.inputs, row.output, row.skipped, row.lacks),
    )
