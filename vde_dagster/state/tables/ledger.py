"""The ledger's end: physical tables whatever their status, and how they are dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select, update

from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.db.rows import made_of
from vde_dagster.state.tables.tables import DROPPED, DROPPING, LIVE, TOMBSTONED, parse_place

_ENTRY = schema.entries.c
_SHOWING = (
    select(_ENTRY.environment)
    .where(_ENTRY.table_id == bindparam("of"), _ENTRY.valid_to.is_(None))
    .limit(1)
)


def is_shown(connection: Connection, table_id: str) -> bool:
    """Say whether the current version of any environment shows a table."""
    return connection.execute(_SHOWING, {"of": table_id}).first() is not None


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """A physical table as the ledger has it, whatever its status.

    Args:
        status: `live`, `tombstoned`, `dropping` or `dropped`.
        location: Where its files are, once that was needed to drop it.
        branch: The Iceberg branch that is all of it, of another one's table; None for `main`.
    """

    id: str
    ref: TableRef
    status: str
    created: bool
    location: str | None
    tombstoned_at: datetime | None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerStore:
    """Reading physical tables of any status, and dropping those that were given up."""

    database: Database
    leases: LeaseStore

    def tables(self, statuses: Iterable[str] = (LIVE,)) -> list[LedgerTable]:
        """Return the physical tables with one of the statuses, oldest first."""
        with self.database.reading() as conn:
            return read_ledger(conn, statuses)

    def start_dropping(self, connection: Connection, table_id: str, location: str | None) -> bool:
        """Claim a tombstoned table for deletion, after checking again that nothing shows it.

        Args:
            connection: The transaction that also removes it from the catalog.
            location: Where its files are; kept, so that a repetition can go on.

        Returns:
            False when an environment, a lease or somebody else has it.
        """
        if is_shown(connection, table_id) or table_id in self.leases.tables(connection):
            return False
        changed = connection.execute(
            update(schema.tables)
            .where(
                schema.tables.c.table_id == table_id,
                schema.tables.c.status.in_((TOMBSTONED, DROPPING)),
            )
            .values(status=DROPPING, location=location)
        )
        return changed.rowcount == 1

    def finish_dropping(self, table_id: str) -> None:
        """Record that nothing is left of a table; its id and name are never used again."""

        def work(conn: Connection) -> None:
            conn.execute(
                update(schema.tables)
                .where(schema.tables.c.table_id == table_id, schema.tables.c.status == DROPPING)
                .values(status=DROPPED)
            )
            for table in (
                schema.intervals,
                schema.fills,
                schema.outdated,
                schema.parts,
                schema.heads,
            ):
                conn.execute(delete(table).where(table.c.table_id == table_id))

        self.database.run_transaction(work, name="janitor.dropped")


def read_ledger(conn: Connection, statuses: Iterable[str]) -> list[LedgerTable]:
    """Return the tables with one of the statuses, oldest first."""
    table = schema.tables.c
    query = (
        select(schema.tables)
        .where(table.status.in_(list(statuses)))
        .order_by(table.registered_at, table.namespace, table.name)
    )
    return [_ledger_table(row) for row in conn.execute(query)]


def _ledger_table(row: Row[Any]) -> LedgerTable:
    name, branch = parse_place(row.name)
    ref = TableRef(row.namespace, name)
    return made_of(LedgerTable, row, id=row.table_id, ref=ref, branch=branch)
