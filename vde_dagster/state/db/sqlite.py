"""SQLite as the state's database: its transactions, and checks of the file.

The file has a write-ahead log. Every writing transaction begins with `BEGIN IMMEDIATE`. Otherwise a
transaction could fail at its first write after a read, if another process wrote in between.
`synchronous=FULL` is set because an acknowledged publication must survive a power cut: in WAL mode
NORMAL may lose the last commits.
"""

from __future__ import annotations

import os
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.util import LRUCache

from vde_dagster.errors import StoreError

_BUSY_TIMEOUT_MS = 30_000
BEGIN = "vde_begin"
"""Execution option with the statement that begins a writing transaction."""
_DAMAGED = ("disk image is malformed", "file is not a database")


def make_sqlite_engine(url: sa.URL) -> sa.Engine:
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the folder {folder} of the state store cannot be created: {error.strerror}",
            hint="correct the setting state_url (or VDE_STATE_URL), or the permissions of the "
            "state store's folder",
        ) from error
    dialect, compiled = _sqlite_statements()
    engine = sa.create_engine(
        url,
        connect_args={"timeout": _BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
        execution_options={"compiled_cache": compiled},
        max_overflow=-1,  # No thread waits for others, in particular a lease's heartbeat.
    )
    engine.dialect = dialect  # Statements are cached by dialect instance, not by dialect class.

    @sa.event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # `begin` below writes BEGIN itself.
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.DatabaseError as error:
            raise_damaged(url, error)
            raise
        _require_whole_pages(url, cursor)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        statement = connection.get_execution_options().get(BEGIN)
        if statement is None:  # For a reader, which waits for nothing and fails for nothing.
            connection.connection.cursor().execute("BEGIN")
        else:
            connection.exec_driver_sql(statement)

    return engine


# Compiling a statement takes longer than running it, and a process may open many stores.
@cache
def _sqlite_statements() -> tuple[sa.Dialect, LRUCache[Any, Any]]:
    engine = sa.create_engine("sqlite://")
    engine.connect().close()
    return engine.dialect, LRUCache(2000)


def _require_whole_pages(url: sa.URL, cursor: Any) -> None:
    # SQLite would read missing bytes as zeros. The file is not opened here: closing it would
    # release the locks of the process's other connections.
    log = Path(f"{url.database}-wal")
    size = cursor.execute("PRAGMA page_size").fetchone()[0]
    there = os.path.getsize(str(url.database))
    # While there is a log, it may contain the pages at the file's end.
    if there % size and not (log.exists() and log.stat().st_size):
        raise _damaged(url, f"it ends within a page, at {there:,} bytes")


def raise_damaged(url: sa.URL, error: BaseException) -> None:
    if any(phrase in str(error) for phrase in _DAMAGED):
        raise _damaged(url, error) from error


def _damaged(url: sa.URL, damage: object) -> StoreError:
    return StoreError(
        f"the state database {url.database} is damaged: {damage}",
        hint="stop all processes that use the database, and restore it from a backup; see "
        "`vde fsck`",
    )
