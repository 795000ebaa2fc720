"""What became true in the store, in an order in which nothing is ever missed.

Whoever changes the store tells so in the same transaction. PostgreSQL gives `seq` before a
transaction commits, so a reader that remembers the highest `seq` would skip a row whose transaction
commits late. Rows are therefore numbered when they are read: one reader at a time gives the next
numbers to all rows that it sees and that have none. A row that appears later gets a later number,
and what was written with another row in sight gets a higher one. Writers wait for nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, ScalarResult, delete, func, insert, select, text, update

from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database

NewsKind = Literal["store", "plan", "failed", "rejected", "fill", "published", "audit", "test"]

# Any number will do as long as nobody else uses it: the key of the lock on numbering.
_POSTGRES_LOCK = 7_033_221_702
_NEWS = schema.news.c
_CURSOR = "cursor"
_IS_NEWS = _NEWS.kind.not_in(("store", _CURSOR))
"""Beside news there are the store's name and, as their origins, exporters with how far they are."""
_UNNUMBERED = (
    select(_NEWS.seq).where(_NEWS.number.is_(None), _NEWS.kind != _CURSOR).order_by(_NEWS.seq)
)
_INSERT = insert(schema.news)


@dataclass(frozen=True, slots=True)
class News:
    """One thing that became true.

    Args:
        number: Its place among all news of the store; 0 as long as it has none.
        kind: `plan`: a plan was stored; `failed`: applying one failed;
            `rejected`: it never will be applied; `fill`: a range counts as
            filled; `published`: an environment has a new version; `audit`: audits of an
            environment ended; `test`: a unit test ran with a plan.
        subject: The keys of what it is about.
        origin: Who wrote it, see `Database.origin`.
    """

    number: int
    kind: NewsKind
    subject: dict[str, Any]
    origin: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NewsPlace:
    """How far the news of a store go.

    Args:
        store: The store's own name, which no other store has.
        oldest: The number of the oldest news that is kept.
        newest: The number of the newest.
    """

    store: str
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class NewsStore:
    """Reading news."""

    database: Database

    def place(self) -> NewsPlace:
        """Number what is new, and return how far the news go."""
        with self.database.reading() as conn:
            waiting = conn.execute(_UNNUMBERED.limit(1)).first()
        if waiting is not None:
            self.database.run_transaction(self._number, name="news.number")
        query = select(
            select(_NEWS.subject).where(_NEWS.kind == "store").scalar_subquery(),
            select(func.min(_NEWS.number)).where(_IS_NEWS).scalar_subquery(),
            select(func.max(_NEWS.number)).scalar_subquery(),
        )
        with self.database.reading() as conn:
            row = conn.execute(query).one()
        return NewsPlace(row[0], row[1] or row[2], row[2])

    def name(self) -> str:
        """Return the store's own name, which no other store has."""
        with self.database.reading() as conn:
            query = select(_NEWS.subject).where(_NEWS.kind == "store")
            return str(conn.execute(query).scalar_one())

    def since(self, number: int, limit: int) -> list[News]:
        """Return the news after a number, in order.

        Args:
            number: The last number that is known.
            limit: The most to return.
        """
        query = select(schema.news).where(_NEWS.number > number, _IS_NEWS)
        return self._read(query.order_by(_NEWS.number).limit(limit))

    def by(self, origin: str, after: int | None = None, until: int | None = None) -> list[News]:
        """Return the events of one origin.

        Args:
            after: Only greater numbers; by default, what has no number yet is among them.
            until: Only numbers up to this one.
        """
        query = select(schema.news).where(_NEWS.origin == origin)
        if after is not None:
            query = query.where(_NEWS.number > after)
        if until is not None:
            query = query.where(_NEWS.number <= until)
        return self._read(query.order_by(_NEWS.seq))

    def exported(self, exporter: str) -> int:
        """Return the number of the last news that an exporter was given; 0 for none."""
        query = select(_NEWS.subject).where(_NEWS.kind == _CURSOR, _NEWS.origin == exporter)
        with self.database.reading() as conn:
            return int(conn.execute(query).scalar() or 0)

    def set_exported(self, exporter: str, number: int) -> None:
        """Remember the last news that an exporter was given; never goes back."""

        def work(conn: Connection) -> None:
            own = (_NEWS.kind == _CURSOR, _NEWS.origin == exporter)
            known = int(conn.execute(select(_NEWS.subject).where(*own)).scalar() or 0)
            conn.execute(delete(schema.news).where(*own))
            row = {"kind": _CURSOR, "subject": str(max(known, number)), "origin": exporter}
            conn.execute(_INSERT, {**row, "at": self.database.clock.now()})

        self.database.run_transaction(work, name="news.export")

    def of_kind(self, kind: NewsKind) -> list[News]:
        """Return all news of a kind that are kept, oldest first."""
        return self._read(select(schema.news).where(_NEWS.kind == kind).order_by(_NEWS.seq))

    def tell(self, kind: NewsKind, subjects: Sequence[Mapping[str, Any]]) -> None:
        """Write news that no change of the store comes with, in a transaction of their own.

        Args:
            subjects: What each is about, as JSON has it.
        """

        def work(conn: Connection) -> None:
            for subject in subjects:
                tell(self.database, conn, kind, **subject)

        if subjects:
            self.database.run_transaction(work, name="state.tell_news")

    def _read(self, query: Any) -> list[News]:
        with self.database.reading() as conn:
            return [
                News(row.number or 0, row.kind, json.loads(row.subject), row.origin, row.at)
                for row in conn.execute(query)
            ]

    def _number(self, conn: Connection) -> None:
        if not self.database.is_sqlite:
            # What others commit while this waits for the lock has to be seen, and nobody is to
            # be rolled back because rows are numbered that they write: hence not SERIALIZABLE.
            conn.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
            conn.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
        last = conn.execute(select(func.max(_NEWS.number))).scalar() or 0
        rows: ScalarResult[int] = conn.execute(_UNNUMBERED).scalars()
        for number, seq in enumerate(rows.all(), last + 1):
            conn.execute(update(schema.news).where(_NEWS.seq == seq).values(number=number))


def tell(database: Database, connection: Connection, kind: NewsKind, **subject: Any) -> None:
    """Write news, in the transaction that makes them true.

    Args:
        subject: The keys of what it is about, as JSON has them.
    """
    row = {
        "kind": kind,
        "subject": json.dumps(subject),
        "origin": database.origin,
        "at": database.clock.now(),
    }
    connection.execute(_INSERT, row)


def forget_news(connection: Connection, before: datetime) -> None:
    """Delete old news; the newest stay, so that readers can tell that they missed some."""
    newest = connection.execute(select(func.max(_NEWS.number))).scalar() or 0
    connection.execute(
        delete(schema.news).where(_NEWS.at < before, _NEWS.number < newest, _IS_NEWS)
    )
