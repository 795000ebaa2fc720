"""The log: every act that changes what people see or what is computed, as a chain of hashes.

An act is one row, written in the transaction that makes it true. Each row has the SHA-256 of the
row before it and of its own content, so a row that is changed, removed or put in between no longer
fits (Haber and Stornetta, "How to time-stamp a digital document", 1991). Whoever can rewrite every
row after it can make a whole chain that fits: that is seen by somebody who kept a hash of it.

It is a list of its own, not a chain over the outbox: records of the outbox are forgotten, numbered
when they are read, and written by every fill of workers that must not wait for each other. Acts are
few, so they may wait: of two at once, one finds the other's number taken and tries again.

On PostgreSQL number, time, the database's own user and hashes are set by the database (`guards`),
which lets nobody change a row. A SQLite file has no users: who did it is what the client says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Connection, insert, select

from vde_dagster.base.names import current_user
from vde_dagster.errors import UsageError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import made_of, to_micros

Act = Literal[
    "publish",
    "rollback",
    "hold",
    "freeze",
    "drop",
    "views",
    "expire",
    "apply",
    "restate",
    "run",
    "reject",
    "sign",
    "clean up",
    "give up",
    "remove",
    "token",
    "revoke token",
    "roles",
    "grant",
    "revoke",
    "import",
    "sql",
]
FIRST = "0" * 64
"""What the first row names as the hash before it."""
_ROW = schema.log.c
_LAST = select(_ROW.number, _ROW.hash).order_by(_ROW.number.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A row of the log.

    Args:
        db_user: The user by whom PostgreSQL knows the connection; None on SQLite.
        who: The name that the client gave.
        act: What was done; `sql`: an environment was changed around the program.
        version: The environment's version that it made.
        detail: More about it, as JSON.
        previous: The hash of the row before.
    """

    number: int
    at: datetime
    db_user: str | None
    who: str
    act: str
    environment: str | None
    version: int | None
    detail: str
    previous: str
    hash: str

    @property
    def own_hash(self) -> str:
        """The hash that the content of the row has."""
        parts = (
            self.number,
            to_micros(self.at),
            self.db_user,
            self.who,
            self.act,
            self.environment,
            self.version,
            self.detail,
            self.previous,
        )
        return sha256(b"".join(map(_encoded, parts))).hexdigest()

    @property
    def details(self) -> dict[str, Any]:
        """What more is said of it, or nothing where somebody spoilt it."""
        try:
            found = json.loads(self.detail)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _encoded(part: str | int | None) -> bytes:
    """Write a value so that no two sequences are written alike; `guards` writes it the same."""
    if part is None:
        return b"-"
    text = str(part).encode("utf-8", "surrogatepass")
    return b"%d:%b" % (len(text), text)


@dataclass(frozen=True, slots=True)
class Verified:
    """What a check of the log found.

    Args:
        number: The first row that is not what it was, or the place where one is missing.
        wrong: What is wrong there; None where the chain holds.
    """

    rows: int
    head: str
    number: int | None = None
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class LogStore:
    """Reading the log, and checking it."""

    database: Database

    def latest(self, environment: str | None = None, limit: int = 20) -> list[LogEntry]:
        """Return the latest acts, newest first."""
        query = select(schema.log).order_by(_ROW.number.desc()).limit(limit)
        if environment is not None:
            query = query.where(_ROW.environment == environment)
        return [made_of(LogEntry, row) for row in self.database.rows(query)]

    def verify(self, head: str | None = None) -> Verified:
        """Check the chain, and that it has every version of an environment since its first there.

        Args:
            head: A hash that was the last one once, or its beginning of eight or more digits.

        Raises:
            UsageError: It is no such text.
        """
        if head is not None and not is_hash(head):
            raise UsageError(
                f"'{head}' is no hash of the log",
                hint="give the one that `vde log verify` printed, at least its first eight digits",
            )
        with self.database.reading() as conn:
            found = conn.execution_options(yield_per=1000).execute(
                select(schema.log).order_by(_ROW.number)
            )
            rows = [made_of(LogEntry, row) for row in found]
            checked = check(rows, head)
            return checked if checked.wrong else _without_gaps(conn, rows, checked)


def is_hash(text: str) -> bool:
    """Say whether a text may be a hash of the log, or its beginning."""
    return 8 <= len(text) <= 64 and set(text.lower()) <= set("0123456789abcdef")


def check(rows: Sequence[LogEntry], head: str | None = None) -> Verified:
    """Check that rows, by number, are a chain, and that a hash that was kept is in it."""
    last, kept = FIRST, head is None
    for expected, row in enumerate(rows, 1):
        wrong = None
        if row.number != expected:
            wrong = (
                f"row {expected} is not there: it was removed"
                if row.number > expected
                else (f"there is another row {row.number}")
            )
        elif row.previous != last:
            wrong = f"row {expected} does not follow the row before it: one of them was changed, "
            wrong += "removed or put in"
        elif row.hash != row.own_hash:
            wrong = f"row {expected} was changed"
        if wrong is not None:
            return Verified(len(rows), last, expected, wrong)
        last = row.hash
        kept = kept or last.startswith((head or "").lower())
    if not kept:
        wrong = (
            f"no row has the hash {head}: the log was rewritten, or rows at its end were removed"
        )
        return Verified(len(rows), last, len(rows) + 1, wrong)
    return Verified(len(rows), last)


def _without_gaps(conn: Connection, rows: Iterable[LogEntry], checked: Verified) -> Verified:
    """Look for versions that were made since the log began, and that it does not have."""
    logged: dict[str, set[int]] = {}
    for row in rows:
        if row.environment is not None and row.version is not None:
            logged.setdefault(row.environment, set()).add(row.version)
    version = schema.environment_versions.c
    query = select(version.environment, version.version)
    kept: Iterable[Any] = conn.execute(query.order_by(version.environment, version.version))
    for name, number in kept:
        known = logged.get(name)
        if known and number > min(known) and number not in known:
            wrong = f"version {number} of '{name}' is in no row: its row at the end was removed"
            return Verified(checked.rows, checked.head, checked.rows + 1, wrong)
    return checked


def record(
    database: Database,
    connection: Connection,
    act: Act,
    environment: str | None = None,
    version: int | None = None,
    *,
    who: str | None = None,
    detail: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write an act, in the transaction that makes it true.

    Args:
        who: As the client says; the system user by default.
        detail: More about it, as plain JSON data; what is None is left out.
    """
    known = {key: value for key, value in detail.items() if value is not None}
    of = LogEntry(
        number=0,
        at=database.clock.now(),
        db_user=None,
        who=(who or current_user())[:255],
        act=act,
        environment=environment,
        version=version,
        detail=json.dumps(known, sort_keys=True, separators=(",", ":")),
        previous=FIRST,
        hash="",
    )
    if database.is_sqlite:
        last = connection.execute(_LAST).first()
        of = _after(of, last.number, last.hash) if last is not None else _after(of, 0, FIRST)
    connection.execute(insert(schema.log), _values(of))


def _after(of: LogEntry, number: int, previous: str) -> LogEntry:
    values = {**_values(of), "number": number + 1, "previous": previous}
    numbered = LogEntry(**values)
    return LogEntry(**{**values, "hash": numbered.own_hash})


def _values(of: LogEntry) -> dict[str, Any]:
    return {name: getattr(of, name) for name in LogEntry.__slots__}
