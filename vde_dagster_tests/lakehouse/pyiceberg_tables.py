"""The catalog in the state's database for PyIceberg, with which tests write tables."""

from __future__ import annotations

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.tables.table import TableRef


def pyiceberg_catalog(lakehouse: Lakehouse) -> SqlCatalog:
    """Return a lakehouse's catalog as PyIceberg has it."""
    engine = lakehouse.store.database.engine
    found = SqlCatalog(
        lakehouse.catalog_name,
        uri=engine.url.render_as_string(hide_password=False),
        warehouse=lakehouse.warehouse,
        init_catalog_tables="false",
        **lakehouse.files._properties,
    )
    # The engine that it made has asked for its tables, and keeps that connection.
    found.engine.dispose()
    found.engine = engine
    return found


def writable(lakehouse: Lakehouse, ref: TableRef) -> Table:
    """Return a table that can be written."""
    return pyiceberg_catalog(lakehouse).load_table((ref.namespace, ref.name))
