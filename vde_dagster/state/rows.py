"""Reading and writing rows by the hundred, in SQLite's and PostgreSQL's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Table

T = TypeVar("T")
_CHUNK = 500


def chunks(values: Sequence[T], size: int = _CHUNK) -> Iterator[Sequence[T]]:
    """Split a sequence, so that no statement has more parameters than databases allow."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def insert_if_absent(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, leaving alone those whose key is there."""
    if rows:
        connection.execute(upsert(connection, table).on_conflict_do_nothing(), rows)


def upsert(connection: Connection, table: Table) -> Any:
    """Begin an INSERT that may say ON CONFLICT, in the database's own dialect."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # 50 ms that SQLite need not pay.

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
