"""Positions of syncs, and the rows that sinks refused, in tables of a database.

A sink with transactions has these tables in its own database, and commits position and rows
together. For other sinks the tables are in the state's database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from vde_dagster.api.sinks import Delivery
    from vde_dagster.api.workspace import Workspace

Transact = Callable[[Callable[[sa.Connection], Any], str], Any]
metadata = sa.MetaData()


_KEY = ("project", "environment", "sync")

cursors = sa.Table(
    "vde_sync_cursors",
    metadata,
    *(sa.Column(name, sa.String(255), primary_key=True) for name in _KEY),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("publication", sa.String(64), nullable=False),
    sa.Column("shape", sa.String(64), nullable=False),
    sa.Column("pending", sa.Integer),
    sa.Column("sent", sa.BigInteger, nullable=False),
    sa.Column("unchanged", sa.BigInteger, nullable=False),
    sa.Column("refused", sa.BigInteger, nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
)

letters = sa.Table(
    "vde_sync_letters",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    *(sa.Column(name, sa.String(255), nullable=False) for name in _KEY),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("row", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
)


@dataclass(frozen=True, slots=True)
class SyncCursor:
    """The position of a sync: the version of the rows in the outside system.

    Args:
        version: The version of the environment; 0 before the first run.
        publication: Id of the version's publication.
        shape: See `ChangedRows.shape`.
        pending: The version of an interrupted step, or None.
        sent, unchanged, refused: Numbers of rows in the last step.
        at: Time of the last step (UTC).
    """

    version: int = 0
    publication: str = ""
    shape: str = ""
    pending: int | None = None
    sent: int = 0
    unchanged: int = 0
    refused: int = 0
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that the sink refused; if the row was to be deleted, only its key columns."""

    number: int
    version: int
    row: dict[str, Any]
    why: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Stores the position of a sync in one environment, and the rows that its sink refused."""

    transact: Transact
    project: str
    environment: str
    sync: str
    now: Callable[[], datetime]

    def cursor(self) -> SyncCursor:
        """Return the stored position. Before the first run, its version is 0."""
        query = sa.select(*(cursors.c[name] for name in SyncCursor.__dataclass_fields__))

        def work(conn: sa.Connection) -> SyncCursor:
            row = conn.execute(query.where(*self._key_conditions(cursors))).mappings().one_or_none()
            return SyncCursor(**row) if row is not None else SyncCursor()

        found: SyncCursor = self.transact(work, "sync.cursor_read")
        return found

    def record_begin(self, cursor: SyncCursor, until: int) -> str:
        """Record the version that is sent next, and the position that its changes start from.

        Returns:
            The run's id. A run that continues an interrupted run has the interrupted run's id.
        """
        since = {name: getattr(cursor, name) for name in ("version", "publication", "shape")}
        at = {} if cursor.pending == until else {"at": self.now()}
        counts = dict.fromkeys(("sent", "unchanged", "refused"), 0)
        self._write({**since, "pending": until, **at}, counts, "sync.begun")
        return f"{self.cursor().at:%Y%m%d%H%M%S%f}"

    def record_done(self, cursor: SyncCursor) -> None:
        """Record the position after all rows of a version were sent."""
        known = {name: getattr(cursor, name) for name in SyncCursor.__dataclass_fields__}
        self._write({**known, "at": self.now()}, {}, "sync.done")

    def store_refused(self, version: int, row: bytes, why: str) -> None:
        """Store a row (JSON) that the sink refused."""
        known = {**self._sync_key, "version": version, "row": row.decode(), "why": why[:2000]}
        query = sa.insert(letters).values(**known, at=self.now())
        self.transact(lambda conn: conn.execute(query) and None, "sync.refused")

    def refused_rows(self) -> list[RefusedRow]:
        query = sa.select(letters.c.number, letters.c.version, letters.c.row, letters.c.why)
        query = query.where(*self._key_conditions(letters)).order_by(letters.c.number)

        def work(conn: sa.Connection) -> list[RefusedRow]:
            rows: Iterable[Any] = conn.execute(query).all()
            return [RefusedRow(number, at, json.loads(row), why) for number, at, row, why in rows]

        found: list[RefusedRow] = self.transact(work, "sync.letters_read")
        return found

    def count_refused(self) -> int:
        query = (
            sa.select(sa.func.count()).select_from(letters).where(*self._key_conditions(letters))
        )
        return int(self.transact(lambda conn: conn.execute(query).scalar(), "sync.letters_read"))

    def delete_refused(self, numbers: Iterable[int]) -> None:
        query = sa.delete(letters).where(letters.c.number == sa.bindparam("own"))
        if known := [{"own": number} for number in numbers]:
            self.transact(lambda conn: conn.execute(query, known) and None, "sync.forgotten")

    @property
    def _sync_key(self) -> dict[str, str]:
        return {"project": self.project, "environment": self.environment, "sync": self.sync}

    def _key_conditions(self, table: sa.Table) -> list[Any]:
        return [table.c[name] == value for name, value in self._sync_key.items()]

    def _write(self, values: dict[str, Any], first: dict[str, Any], name: str) -> None:
        def work(conn: sa.Connection) -> None:
            known = sa.update(cursors).where(*self._key_conditions(cursors)).values(**values)
            if not conn.execute(known).rowcount:
                conn.execute(sa.insert(cursors).values(**self._sync_key, **first, **values))

        self.transact(work, name)


def open_ledger(
    workspace: Workspace,
    sync: str,
    delivery: Delivery,
    check: Callable[[sa.Connection], None] = lambda _: None,
) -> Ledger:
    """Return the ledger of a sync, in the sink's database if the sink has transactions.

    Args:
        sync: The sync and the environment: `customers/prod`.
        check: Checks the sync's lease in each transaction of the state's database. A sink with
            transactions locks its own database.
    """
    database = workspace.store.database
    transact: Transact | None = getattr(delivery, "transact", None)
    if transact is not None:
        transact(metadata.create_all, "sync.tables")
    else:
        database.ensure_tables(metadata)

    def transact_checked(work: Callable[[sa.Connection], Any], name: str) -> Any:
        def run(conn: sa.Connection) -> Any:
            check(conn)
            return work(conn)

        return database.run_transaction(run, name=name)

    project = workspace.settings.identity
    name, _, environment = sync.partition("/")
    return Ledger(
        transact or transact_checked,
        project.id or project.name,
        environment,
        name,
        database.clock.now,
    )
