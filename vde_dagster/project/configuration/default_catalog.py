"""The catalog that names without one are in, as a SQLMesh connection says it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

_KEYS = {
    "snowflake": "database",
    "bigquery": "project",
    "databricks": "catalog",
    "spark": "catalog",
    "trino": "catalog",
    "postgres": "database",
    "gcp_postgres": "database",
    "redshift": "database",
    "mssql": "database",
    "azuresql": "database",
    "fabric": "database",
}
"""Which key of a connection is its catalog, by the type of the engine."""


def default_catalog(connection: Any) -> str | None:
    """Return the default catalog of a connection, as far as it is written there.

    >>> default_catalog({"type": "duckdb", "database": "data/shop.duckdb"})
    'shop'
    """
    if not isinstance(connection, Mapping):
        return None
    type_ = str(connection.get("type") or "").lower()
    if type_ in ("duckdb", "motherduck"):
        return _of_duckdb(connection)
    value = connection.get(_KEYS.get(type_, ""))
    return str(value) if isinstance(value, str) and value else None


def _of_duckdb(connection: Mapping[str, Any]) -> str:
    catalogs = connection.get("catalogs")
    if isinstance(catalogs, Mapping) and catalogs:
        return str(next(iter(catalogs)))
    database = connection.get("database")
    if not isinstance(database, str) or database in ("", ":memory:"):
        return "memory"
    return PurePath(database.removeprefix("md:")).stem
