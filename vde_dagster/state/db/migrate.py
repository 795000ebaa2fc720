"""Creating and upgrading the store's tables.

Opening a store that is up to date costs one query; Alembic is imported only for an upgrade. New
stores are created from the current schema. Revisions are numbered, which distinguishes "newer than
this code" from "older than the first release".
"""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_mock_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from vde_dagster.errors import StoreError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, is_disconnect, is_transient
from vde_dagster.state.db.guards.acts import put_guards
from vde_dagster.state.db.rights import has_rights, renew
from vde_dagster.state.db.rows import EPOCH

# Key of the advisory lock on upgrades; any number that no other program uses will do.
_POSTGRES_LOCK = 7_033_221_701


def ensure_schema(database: Database) -> None:
    """Create the tables of a new state database, or upgrade an older one.

    Raises:
        StoreError: The database cannot be reached, or was written by newer code.
    """
    found = _stored_version(database)
    if found == schema.SCHEMA_VERSION:
        return
    _refuse_unknown(found)
    database.run_transaction(_upgrade, name="state.migrate")


def _stored_version(database: Database) -> str | None:
    try:
        with database.engine.connect() as conn:
            row = conn.execute(text(f"SELECT version_num FROM {schema.VERSION_TABLE}")).first()
            return str(row[0]) if row else None
    except DBAPIError as error:
        if is_disconnect(error) or is_transient(error) or not _table_missing(database):
            raise database.unusable(error) from error
        return None


def _table_missing(database: Database) -> bool:
    try:
        return not inspect(database.engine).has_table(schema.VERSION_TABLE)
    except DBAPIError as error:
        raise database.unusable(error) from error


def _refuse_unknown(found: str | None) -> None:
    if found is not None and found > schema.SCHEMA_VERSION:
        raise StoreError(
            f"the state store was written by a newer version of this package (schema {found}; "
            f"this version supports up to {schema.SCHEMA_VERSION})",
            hint="upgrade vde-dagster on this machine",
        )
    if found is not None and found < schema.FIRST_VERSION:
        raise StoreError(
            f"the state store was written before the first release (schema {found}; this version "
            f"upgrades from {schema.FIRST_VERSION} on)",
            hint="open the state store once with an earlier commit of this package whose schema is "
            f"{schema.FIRST_VERSION}, then with this one; or begin with an empty store",
        )


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # At a stricter level it would look for tables in a snapshot from before it got the lock.
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
    inspector, found = inspect(connection), None
    if inspector.has_table(schema.VERSION_TABLE):
        found = connection.execute(text(f"SELECT version_num FROM {schema.VERSION_TABLE}")).scalar()
        if found == schema.SCHEMA_VERSION:
            return  # another process was faster
        _refuse_unknown(found)
    for statement in schema.ICEBERG_DDL:
        connection.execute(text(statement))
    columns = {column["name"] for column in inspector.get_columns("iceberg_tables")}
    if "iceberg_type" not in columns:
        connection.execute(text("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"))
    if found is None:
        _create(connection)
        return
    _run_migrations(connection)
    if has_rights(connection):
        renew(connection)


def _create(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        for index in (
            index for table in schema.metadata.tables.values() for index in table.indexes
        ):
            options = index.dialect_options
            options["postgresql"]["where"] = options["sqlite"]["where"]
        schema.metadata.create_all(connection, checkfirst=False)
    else:
        for statement in _tables_of_sqlite():
            connection.exec_driver_sql(statement)
    put_guards(connection)
    own = {"number": 1, "kind": "store", "subject": uuid.uuid4().hex, "origin": "", "at": EPOCH}
    connection.execute(schema.outbox.insert().values(own))
    connection.execute(
        text(f"CREATE TABLE {schema.VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    )
    connection.execute(
        text(f"INSERT INTO {schema.VERSION_TABLE} VALUES ('{schema.SCHEMA_VERSION}')")
    )


# Cached, because compiling the statements takes longer than running them.
@cache
def _tables_of_sqlite() -> tuple[str, ...]:
    statements: list[str] = []

    def write(statement: Any, *_: Any) -> None:
        statements.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine("sqlite://", write)
    schema.metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
