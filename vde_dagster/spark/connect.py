"""Spark Connect: sessions of a server, which have no JVM to ask.

What a classic session asks its JVM is told here otherwise: Iceberg's API by statements
(`remote_table.py`), the jobs of a plan by tags of operations (`jobs.py`).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.base.package_version import how_to_install
from vde_dagster.errors import NoSparkError, StoreError
from vde_dagster.spark.failures import cause_line, hush_pyspark
from vde_dagster.spark.masters import without_parameters
from vde_dagster.spark.settings import SessionSettings, packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"


def is_server(master: str) -> bool:
    """Say whether a master is a Spark Connect server: `sc://host:15002`."""
    return master.startswith(SCHEME)


def is_remote(session: Any) -> bool:
    """Say whether a session is one of a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def require_client(master: str) -> None:
    """Make sure that PySpark's client of servers is installed.

    Raises:
        NoSparkError: It is not.
    """
    if find_spec("grpc") is None:
        raise NoSparkError(
            f"the Spark master {without_parameters(master)} needs PySpark's client of Spark "
            "Connect",
            hint=how_to_install("connect"),
        )


def connect(settings: SessionSettings) -> SparkSession:
    """Begin a session of its own on the server, with the defaults of that server.

    Raises:
        StoreError: PySpark's extra is not installed, this process has a JVM of its own, or the
            server refuses or lacks Iceberg.
    """
    require_client(settings.master)
    where = without_parameters(settings.master)
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise StoreError(
            f"this process has started Spark itself, so it cannot use {where}",
            hint="projects on Spark Connect and others need a process each",
        )
    hush_pyspark()
    try:
        session: SparkSession = SparkSession.builder.remote(settings.master).create()
        extensions = session.conf.get("spark.sql.extensions", "") or ""
    except PySparkException as error:
        raise StoreError(
            f"the Spark Connect server {where} refuses a session: {cause_line(error)}",
            hint="its version has to be that of PySpark here",
        ) from error
    if "iceberg" not in extensions.lower():
        raise StoreError(
            f"the Spark Connect server {where} has no Iceberg",
            hint=_lacks(settings),
        )
    return session


def use_catalog(session: SparkSession, settings: SessionSettings) -> None:
    """Let a session load the catalog, which is what shows that the server can.

    Raises:
        StoreError: It cannot.
    """
    from pyspark.errors import PySparkException

    where = without_parameters(settings.master)
    try:
        session.sql(f"USE {quote(settings.catalog)}").collect()
    except PySparkException as error:
        raise StoreError(
            f"the Spark Connect server {where} cannot open the catalog "
            f"'{settings.catalog}': {cause_line(error)}",
            hint=f"it has to reach the database and the warehouse. {_lacks(settings)}",
        ) from error


def _lacks(settings: SessionSettings) -> str:
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return (
        f"start it with --packages {','.join(packages(settings))} "
        f"--conf spark.sql.extensions={extensions}"
    )
