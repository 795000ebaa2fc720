"""The outbox: records of changes in the store, ordered so that readers miss none.

A writer adds its records in the transaction that makes the change. PostgreSQL assigns `seq` before
a transaction commits, so a reader that remembers the highest `seq` would skip a row whose
transaction commits late. Rows are therefore numbered when they are read: one reader at a time
assigns the next numbers to all visible rows that have none. A row that becomes visible later gets a
later number. A writer that has read a record gets higher numbers than that record. Writers never
wait.

A consumer stores the last number that it has read. Exporters store it in the outbox's own table.
Dagster stores it in a sensor's cursor, because several code locations may read one state.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, ScalarResult, delete, func, insert, select, text, update

from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.guards.write_views import writes_by_views
from vde_dagster.state.db.rows import from_micros

RecordKind = Literal[
    "store",
    "plan",
    "failed",
    "rejected",
    "begun",
    "computed",
    "broken",
    "waiting",
    "fill",
    "published",
    "audit",
    "dropped",
    "test",
    "told",
    "late",
    "held",
]

_ROW = schema.outbox.c
_CURSOR = "cursor"
_LEFT = "#left"
_IS_RECORD = _ROW.kind.not_in(("store", _CURSOR))
"""Condition for records; other rows have the store's name or the cursor of a consumer."""
_UNNUMBERED = select(_ROW.seq).where(_ROW.number.is_(None), _ROW.kind != _CURSOR).order_by(_ROW.seq)
_STORE = select(_ROW.seq).where(_ROW.kind == "store")
"""The only row with the store's name: the lock on numbering."""
_INSERT = insert(schema.outbox)


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """Record of a committed change, which exporters and Dagster read.

    Args:
        kind: `plan`: a plan was stored; `failed`: applying a plan failed; `rejected`: a plan was
            rejected; `begun`: an attempt to fill a range of a table began; `computed`: the
            attempt's rows are on a branch, ready for audits; `broken`: the attempt failed or was
            stopped; `waiting`: the attempt's rows wait for a publication; `fill`: a range counts as
            filled; `published`: an environment has a new version; `audit`: audits of an environment
            ended; `dropped`: a physical table was deleted completely; `test`: a unit test ran with
            a plan; `told`: a notification was sent; `late`: tables of an environment are older than
            their models promise; `held`: rules prevented an apply.
    """

    number: int
    kind: RecordKind
    subject: dict[str, Any]
    origin: str
    at: datetime

    @property
    def interval(self) -> Interval:
        """Range of the recorded fill."""
        return Interval(from_micros(self.subject["start"]), from_micros(self.subject["end"]))

    @property
    def dagster_run(self) -> str | None:
        """Id of the Dagster run that wrote the record, or None."""
        try:
            return str(uuid.UUID(self.origin.rpartition("/")[2])) if "/" in self.origin else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class OutboxRange:
    """The numbers of the oldest and newest records in an outbox, with the store's name."""

    store: str
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Outbox:
    database: Database

    def number(self) -> OutboxRange:
        """Assign numbers to new records, and return the range of all records' numbers."""
        waiting = self.database.row(_UNNUMBERED.limit(1))
        if waiting is not None:
            self.database.run_transaction(self._number, name="outbox.number")
        query = select(
            select(_ROW.subject).where(_ROW.kind == "store").scalar_subquery(),
            select(func.min(_ROW.number)).where(_IS_RECORD).scalar_subquery(),
            select(func.max(_ROW.number)).scalar_subquery(),
        )
        row = self.database.row(query)
        return OutboxRange(row[0], row[1] or row[2], row[2])

    def since(self, number: int, limit: int) -> list[OutboxRecord]:
        """Return the records after the given number, in order."""
        query = select(schema.outbox).where(_ROW.number > number, _IS_RECORD)
        return self._read(query.order_by(_ROW.number).limit(limit))

    def by(
        self, origin: str, after: int | None = None, until: int | None = None
    ) -> list[OutboxRecord]:
        """Return the records that one process, such as a Dagster run, wrote.

        If given, `after` and `until` select numbered records: after < number <= until.
        """
        query = select(schema.outbox).where(_ROW.origin == origin, _IS_RECORD)
        if after is not None:
            query = query.where(_ROW.number > after)
        if until is not None:
            query = query.where(_ROW.number <= until)
        return self._read(query.order_by(_ROW.seq))

    def for_plan(self, plan_id: str, until: int) -> list[OutboxRecord]:
        """Return a plan's records, ordered by number, with numbers of at most `until`."""
        named = _ROW.subject.contains(f'"plan": {json.dumps(plan_id)}', autoescape=True)
        query = select(schema.outbox).where(named, _ROW.number <= until, _IS_RECORD)
        return self._read(query.order_by(_ROW.number))

    def with_kind(self, kind: RecordKind) -> list[OutboxRecord]:
        return self._read(select(schema.outbox).where(_ROW.kind == kind).order_by(_ROW.seq))

    def last_before(self, at: datetime) -> int:
        """Return the number of the last record before an instant (UTC), or 0."""
        self.number()
        query = select(func.max(_ROW.number)).where(_ROW.at < at, _IS_RECORD)
        return int(self.database.value(query) or 0)

    def cursor(self, consumer: str) -> int:
        """Return the number of the last record that a consumer has processed, or 0."""
        query = select(_ROW.subject).where(_ROW.kind == _CURSOR, _ROW.origin == consumer)
        return int(self.database.value(query) or 0)

    def move_cursor(self, consumer: str, number: int) -> None:
        """Store the last number that a consumer has processed. A smaller number is ignored."""

        self._set_cursor(consumer, lambda known: max(known, number))

    def last_remaining(self) -> int | None:
        """Return the number that the newest call of `set_remaining` stored, or None."""
        query = select(_ROW.subject).where(
            _ROW.kind == _CURSOR, _ROW.origin.endswith(_LEFT, autoescape=True)
        )
        found = self.database.value(query.order_by(_ROW.at.desc(), _ROW.seq.desc()).limit(1))
        return None if found is None else int(found)

    def set_remaining(self, consumer: str, number: int) -> None:
        """Store the number of items that a consumer still has to process."""
        if self.last_remaining() != number:
            self._set_cursor(f"{consumer}{_LEFT}", lambda _: number)

    def has_work_outside_dagster(self) -> bool:
        """Return whether a process outside of Dagster has published a version."""
        outside = _ROW.origin.not_like("%/%")
        query = select(_ROW.seq).where(_ROW.kind == "published", outside).limit(1)
        return self.database.row(query) is not None

    def _set_cursor(self, consumer: str, moved: Callable[[int], int]) -> None:
        def work(conn: Connection) -> None:
            own = (_ROW.kind == _CURSOR, _ROW.origin == consumer)
            known = int(conn.execute(select(_ROW.subject).where(*own)).scalar() or 0)
            conn.execute(delete(schema.outbox).where(*own))
            row = {"kind": _CURSOR, "subject": str(moved(known)), "origin": consumer}
            conn.execute(_INSERT, {**row, "at": self.database.clock.now()})

        self.database.run_transaction(work, name="outbox.move_cursor")

    def add(self, kind: RecordKind, subjects: Sequence[Mapping[str, Any]]) -> None:
        """Write records of one kind, in a new transaction."""

        def work(conn: Connection) -> None:
            for subject in subjects:
                add_record(self.database, conn, kind, **subject)

        if subjects:
            self.database.run_transaction(work, name="outbox.add")

    def _read(self, query: Any) -> list[OutboxRecord]:
        return [
            OutboxRecord(row.number or 0, row.kind, json.loads(row.subject), row.origin, row.at)
            for row in self.database.rows(query)
        ]

    def _number(self, conn: Connection) -> None:
        if not self.database.is_sqlite:
            # It must see what others commit while it waits for the lock, and numbering must not
            # roll back the writers of the numbered rows: hence not SERIALIZABLE.
            conn.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
            if writes_by_views(conn):
                conn.execute(text("SELECT vde_number_news()"))
                return
            conn.execute(_STORE.with_for_update())
        last = conn.execute(select(func.max(_ROW.number))).scalar() or 0
        rows: ScalarResult[int] = conn.execute(_UNNUMBERED).scalars()
        for number, seq in enumerate(rows.all(), last + 1):
            conn.execute(update(schema.outbox).where(_ROW.seq == seq).values(number=number))


def add_record(
    database: Database, connection: Connection, kind: RecordKind, **subject: Any
) -> None:
    """Add a record of a change to the outbox, in the transaction that makes the change."""
    row = {
        "kind": kind,
        "subject": json.dumps(subject),
        "origin": database.origin,
        "at": database.clock.now(),
    }
    connection.execute(_INSERT, row)


def forget_records(connection: Connection, before: datetime) -> None:
    """Delete the numbered records older than an instant (UTC), except the newest record."""
    # From the newest record's number, readers can detect that they missed records.
    newest = connection.execute(select(func.max(_ROW.number))).scalar() or 0
    connection.execute(
        delete(schema.outbox).where(_ROW.at < before, _ROW.number < newest, _IS_RECORD)
    )
