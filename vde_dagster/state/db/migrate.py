"""Creating and upgrading the store's tables.

Opening a store that is up to date costs one query; Alembic is imported only when there is
something to do. Revisions are numbered, so that "newer than this code" can be told apart.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from vde_dagster.errors import StoreError
from vde_dagster.state.db.database import Database, is_disconnect, is_transient
from vde_dagster.state.db.schema import ICEBERG_DDL, SCHEMA_VERSION, VERSION_TABLE

# Any number will do as long as nobody else uses it: the key of the lock on upgrading.
_POSTGRES_LOCK = 7_033_221_701


def ensure_schema(database: Database) -> None:
    """Create or upgrade the tables of a store.

    Raises:
        StoreError: The database cannot be reached, or was written by newer code.
    """
    found = _stored_version(database)
    if found == SCHEMA_VERSION:
        return
    _refuse_newer(found)
    database.run_transaction(_upgrade, name="state.migrate")


def _stored_version(database: Database) -> str | None:
    try:
        with database.engine.connect() as conn:
            row = conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).first()
            return str(row[0]) if row else None
    except DBAPIError as error:
        if is_disconnect(error) or is_transient(error) or not _table_missing(database):
            raise database.unusable(error) from error
        return None


def _table_missing(database: Database) -> bool:
    try:
        return not inspect(database.engine).has_table(VERSION_TABLE)
    except DBAPIError as error:
        raise database.unusable(error) from error


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > SCHEMA_VERSION:
        raise StoreError(
            f"the state store was written by a newer version of this package (schema {found}; "
            f"this one knows up to {SCHEMA_VERSION})",
            hint="upgrade vde-dagster on this machine",
        )


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # Any stricter one would look for tables in the picture from before it waited for the lock.
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        if found == SCHEMA_VERSION:
            return  # another process was faster
        _refuse_newer(found)
    for statement in ICEBERG_DDL:
        connection.execute(text(statement))
    columns = {column["name"] for column in inspector.get_columns("iceberg_tables")}
    if "iceberg_type" not in columns:
        connection.execute(text("ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"))
    run_migrations(connection, "head")


def run_migrations(connection: Connection, target: str) -> None:
    """Bring the tables to a revision inside the connection's transaction.

    Args:
        target: A revision's number or `head`.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)
