"""Triggers, as SQL, that reject rows or fill in columns, for every program.

On both databases no row of the log can be changed or deleted. On PostgreSQL the database sets the
columns that a client could forge: number, time, user and hashes. The owner of the tables and
superusers can drop triggers; if such a user rewrites the log, an earlier copy of a hash proves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, text

from vde_dagster.planning.environments.environment import PRODUCTION

_SQLITE = tuple(
    f"CREATE TRIGGER IF NOT EXISTS vde_log_{what.lower()} BEFORE {what} ON vde_log "
    "BEGIN SELECT RAISE(ABORT, 'the log is only added to'); END"
    for what in ("UPDATE", "DELETE")
)

_OWN = "SET search_path = {schema}, pg_temp"
"""Clause of functions that use the state's own tables, whatever search path a session has."""


def put_guards(connection: Connection) -> None:
    """Create or replace the triggers that protect the log and fill in its columns."""
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE:
            connection.exec_driver_sql(statement)
        return
    run_statements(connection, (*read_statements("owner"), *read_statements("log")))


def read_statements(name: str) -> list[str]:
    """Read the SQL statements of a file of this folder. Blank lines separate them."""
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8").split("\n\n")


def run_statements(connection: Connection, statements: Iterable[str]) -> None:
    """Run SQL statements after replacing `{own}` and `{production}` in their texts."""
    place: str = connection.execute(text("SELECT quote_ident(current_schema())")).scalar_one()
    own = _OWN.format(schema=place)
    for statement in statements:
        written = statement.replace("{own}", own).replace("{production}", PRODUCTION)
        connection.exec_driver_sql(written.replace("%", "%%"))  # A single % starts a parameter.
