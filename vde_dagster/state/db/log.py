"""The log: every act that changes environments or computed data, as a chain of hashes.

An act is one row, written in the transaction that performs it. Each row has a SHA-256 over its
content and the hash of the row before, so a changed, removed or inserted row breaks the chain
(Haber and Stornetta, "How to time-stamp a digital document", 1991). A writer who can replace all
later rows can build a consistent chain; an earlier copy of a hash proves the replacement.

The outbox is separate: its records are deleted after a while, are numbered only when they are read,
and must not make a fill wait. Acts are rare, so they may wait: of two concurrent acts, one finds
the other's number in use and tries again.

On PostgreSQL the database sets number, time, database user and hashes (`guards`), and rejects
changes of rows. A SQLite file has no users: `who` is the name that the client gave.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Connection, insert, select

from vde_dagster.base.names import current_user
from vde_dagster.errors import UsageError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import row_from_value, to_micros, value_from_row

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
"""Value of `previous` in the first row of the log."""
_ROW = schema.log.c
_LAST = select(_ROW.number, _ROW.hash).order_by(_ROW.number.desc()).limit(1)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A row of the log: one act, such as a publication.

    Args:
        db_user: The user of the connection on PostgreSQL; None on SQLite.
        who: The name that the client gave.
        act: The kind of act; `sql` means that SQL outside of this program changed an environment.
        version: The environment's version that the act created.
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
    def computed_hash(self) -> str:
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
        """`detail` as a dictionary; empty if the stored text is damaged."""
        try:
            found = json.loads(self.detail)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _encoded(part: str | int | None) -> bytes:
    """Encode a value for hashing, in the same way as the SQL in `guards`."""
    if part is None:
        return b"-"
    text = str(part).encode("utf-8", "surrogatepass")
    # The length in front prevents that different sequences of values have equal bytes.
    return b"%d:%b" % (len(text), text)


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of checking the log's hashes.

    Args:
        number: The number of the first wrong or missing row; None if the chain is intact.
        wrong: The problem at that row; None if the chain is intact.
    """

    rows: int
    head: str
    number: int | None = None
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class LogStore:
    database: Database

    def latest(self, environment: str | None = None, limit: int = 20) -> list[LogEntry]:
        """Return the latest acts, newest first."""
        query = select(schema.log).order_by(_ROW.number.desc()).limit(limit)
        if environment is not None:
            query = query.where(_ROW.environment == environment)
        return [value_from_row(LogEntry, row) for row in self.database.rows(query)]

    def was_published(self, environment: str, plan_id: str) -> bool:
        """Return whether a plan published a version of an environment, even one deleted since."""
        part = json.dumps({"plan": plan_id}, separators=(",", ":"))[1:-1]
        query = select(_ROW.number).where(
            _ROW.environment == environment,
            _ROW.version.is_not(None),
            _ROW.detail.contains(part, autoescape=True),
        )
        return self.database.value(query.limit(1)) is not None

    def record(
        self,
        connection: Connection,
        act: Act,
        environment: str | None,
        detail: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        record(self.database, connection, act, environment, detail=detail)

    def verify(self, head: str | None = None) -> Verified:
        """Check the log's hashes, and that each kept version of an environment has a row.

        A version is checked only if the log has an earlier version of the same environment.

        Args:
            head: A hash that the log had earlier and must still have, or at least its first eight
                digits.

        Raises:
            UsageError: `head` is not a hash.
        """
        if head is not None and not is_hash(head):
            raise UsageError(
                f"'{head}' is not a hash of the log",
                hint="pass a hash that `vde log verify` printed, at least its first eight digits",
            )
        with self.database.reading() as conn:
            found = conn.execution_options(yield_per=1000).execute(
                select(schema.log).order_by(_ROW.number)
            )
            rows = [value_from_row(LogEntry, row) for row in found]
            checked = check(rows, head)
            return checked if checked.wrong else _with_gaps_checked(conn, rows, checked)


def is_hash(text: str) -> bool:
    """Check whether a text has the form of a hash, or of its first eight or more digits."""
    return 8 <= len(text) <= 64 and set(text.lower()) <= set("0123456789abcdef")


def check(rows: Sequence[LogEntry], head: str | None = None) -> Verified:
    """Check that each hash fits its row and the row before, and that a row has the hash `head`."""
    last, kept = FIRST, head is None
    for expected, row in enumerate(rows, 1):
        wrong = None
        if row.number != expected:
            wrong = f"there is a second row {row.number}"
            if row.number > expected:
                wrong = f"row {expected} was removed"
        elif row.previous != last:
            wrong = f"row {expected} does not follow the row before it: one of them was changed, "
            wrong += "removed or inserted"
        elif row.hash != row.computed_hash:
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


def _with_gaps_checked(conn: Connection, rows: Iterable[LogEntry], checked: Verified) -> Verified:
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
            wrong = f"version {number} of '{name}' has no row: rows at the end were removed"
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
    """Write an act to the log, in the transaction that makes the change.

    Args:
        who: The client's name for its user; the system user by default.
        detail: Further details, as plain JSON data; None values are dropped.
    """
    details = {key: value for key, value in detail.items() if value is not None}
    entry = LogEntry(
        number=0,
        at=database.clock.now(),
        db_user=None,
        who=(who or current_user())[:255],
        act=act,
        environment=environment,
        version=version,
        detail=json.dumps(details, sort_keys=True, separators=(",", ":")),
        previous=FIRST,
        hash="",
    )
    if database.is_sqlite:
        last = connection.execute(_LAST).first()
        number, previous = (last.number + 1, last.hash) if last else (1, FIRST)
        entry = replace(entry, number=number, previous=previous)
        entry = replace(entry, hash=entry.computed_hash)
    connection.execute(insert(schema.log), row_from_value(entry, schema.log))
