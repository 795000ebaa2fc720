"""States as released versions left them, in SQLite and on a PostgreSQL server."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import BigInteger, Integer, MetaData, create_engine, func, make_url, select

from vde_dagster.state.db.guards.acts import put_guards

RELEASED = sorted((Path(__file__).parent / "released").glob("*.sql"))
LOG_SINCE = "0018"
"""First schema with the log, whose rows are guarded."""


def restore_in_sqlite(released: Path, path: Path) -> str:
    """Write a released state into a new file; return its URL."""
    with sqlite3.connect(path) as conn:
        conn.executescript(released.read_text())
    return f"sqlite:///{path}"


def restore_in_postgres(released: Path, scratch: Path, url: str) -> str:
    """Write a released state into an empty database of a server; return its URL.

    The tables have PostgreSQL's names of their types, as that release would have made them.

    Args:
        released: The state, as SQLite writes it.
        scratch: A file that is made on the way.
        url: The database.
    """
    source = create_engine(restore_in_sqlite(released, scratch))
    target = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    kept = MetaData()
    with source.connect() as old, target.begin() as new:
        kept.reflect(old)
        for table in kept.tables.values():
            for column in table.c:
                # Ids of snapshots are wider than SQLite's name of their type.
                generic = column.type.as_generic()
                column.type = BigInteger() if isinstance(generic, Integer) else generic
            for index in table.indexes:
                # An index of some rows: SQLite's condition is PostgreSQL's too.
                options = index.dialect_options
                options["postgresql"]["where"] = options["sqlite"]["where"]
        kept.create_all(new)
        for table in kept.sorted_tables:
            rows = [dict(row) for row in old.execute(table.select()).mappings()]
            if rows:
                new.execute(table.insert(), rows)
            own = table.autoincrement_column
            if own is not None and rows:
                sequence = func.pg_get_serial_sequence(table.name, own.name)
                new.execute(select(func.setval(sequence, max(row[own.name] for row in rows))))
        if released.stem >= LOG_SINCE:
            put_guards(new)
    source.dispose()
    target.dispose()
    return url
