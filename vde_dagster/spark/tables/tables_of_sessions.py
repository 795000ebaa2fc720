"""Iceberg tables by the session that they are used in: with a JVM to ask, or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vde_dagster.planning.tables.table import TableRef
from vde_dagster.spark.session.connect import is_remote
from vde_dagster.spark.tables import iceberg
from vde_dagster.spark.tables.iceberg import IcebergTable
from vde_dagster.spark.tables.remote_table import RemoteTable, remote_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vde_dagster.lakehouse import Lakehouse


Table: TypeAlias = IcebergTable | RemoteTable


def load_table(
    session: SparkSession, catalog: str, ref: TableRef, lakehouse: Lakehouse | None = None
) -> Table:
    """Load a table's metadata from the catalog.

    Args:
        catalog: The catalog's name in it.
        lakehouse: The same catalog without Spark, for sessions without a JVM.

    Raises:
        ExecutionError: There is no such table.
    """
    if is_remote(session):
        return remote_table(session, catalog, ref, lakehouse)
    return iceberg.load_table(session, catalog, ref)
