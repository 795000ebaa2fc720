"""What a Spark session needs to know, and Spark's own configuration made from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote as quote_url

from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.project.settings import Settings

ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE_PACKAGE = "org.xerial:sqlite-jdbc:3.49.1.0"
POSTGRES_PACKAGE = "org.postgresql:postgresql:42.7.7"

_DRIVERS = {"sqlite": "org.sqlite.JDBC", "postgresql": "org.postgresql.Driver"}

JAR_CACHE_VARIABLE = "VDE_JAR_CACHE"
"""Environment variable with the directory that downloaded jars are kept in."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The input of this layer.

    Args:
        catalog: Name of the Iceberg catalog in Spark.
        state_url: SQLAlchemy URL of the database that holds state and catalog.
        warehouse: URI of the directory that new tables are put in.
        master: Spark's master URL.
        config: Further Spark properties; they win over the defaults below.
        packages: Further Maven coordinates; one of the same group and artifact as a default
            package replaces it.
        log_file: Where the JVM's output goes, or None for a temporary file.
        project_root: The project's directory, which seeds are read from.
    """

    catalog: str
    state_url: str = field(repr=False)
    warehouse: str
    master: str = "local[*]"
    config: dict[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()
    log_file: Path | None = None
    project_root: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> SparkSettings:
        """Take what Spark needs from a project's settings.

        Raises:
            ProjectError: A setting names an environment variable that is not set.
        """
        return cls(
            catalog=settings.catalog,
            state_url=settings.resolved_state_url,
            warehouse=settings.resolved_warehouse,
            master=settings.spark.master,
            config=settings.spark.resolved_config(),
            packages=settings.spark.packages,
            log_file=settings.work_dir / "spark.log",
            project_root=settings.root,
        )


def catalog_config(settings: SparkSettings) -> dict[str, str]:
    """Return the properties of the Iceberg catalog, which may be set on a running session.

    The catalog is Iceberg's JDBC catalog on the state database; schema version V1 is what makes
    views possible. Its cache is off: with it a session serves tables that are up to 30 s old.
    """
    prefix = f"spark.sql.catalog.{settings.catalog}"
    config = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.warehouse": settings.warehouse,
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.cache-enabled": "false",
        "spark.sql.defaultCatalog": settings.catalog,
    }
    config.update({f"{prefix}.{key}": value for key, value in jdbc_options(settings).items()})
    return config


def session_config(settings: SparkSettings) -> dict[str, str]:
    """Return every property of a session that may differ between sessions of one JVM."""
    return {
        **catalog_config(settings),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.sources.partitionOverwriteMode": "static",
        **settings.config,
    }


def context_config(settings: SparkSettings) -> dict[str, str]:
    """Return the configuration of a new JVM's Spark context; sessions add their catalogs."""
    config = {
        "spark.app.name": "vde",
        "spark.master": settings.master,
        "spark.jars.packages": ",".join(packages(settings)),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        **settings.config,
    }
    if settings.master.startswith("local"):
        config.setdefault("spark.driver.host", "127.0.0.1")
        config.setdefault("spark.driver.bindAddress", "127.0.0.1")
    cache = os.environ.get(JAR_CACHE_VARIABLE)
    if cache:
        config.setdefault("spark.jars.ivy", str(Path(cache).expanduser().absolute()))
    return config


def command_line_config(config: dict[str, str]) -> dict[str, str]:
    """Return what the JVM must know before it runs: what may stand on a command line.

    Storage keys and passwords (`spark.hadoop.…`, `spark.sql.catalog.…`) are left out, as every
    user of the machine can read command lines; they are handed over once the JVM is up.
    """
    return {
        key: value
        for key, value in config.items()
        if not key.startswith(("spark.hadoop.", "spark.sql."))
    }


def packages(settings: SparkSettings) -> tuple[str, ...]:
    """Return the Maven coordinates that the session loads."""
    driver = SQLITE_PACKAGE if _backend(settings.state_url) == "sqlite" else POSTGRES_PACKAGE
    chosen = {_artifact(package): package for package in (ICEBERG_PACKAGE, driver)}
    chosen.update({_artifact(package): package for package in settings.packages})
    return tuple(chosen.values())


def jdbc_driver(settings: SparkSettings) -> str:
    """Return the class of the state database's JDBC driver."""
    return _DRIVERS[_backend(settings.state_url)]


def jdbc_options(settings: SparkSettings) -> dict[str, str]:
    """Translate the SQLAlchemy URL of the state database to the JDBC catalog's options.

    Raises:
        UsageError: The database is neither SQLite nor PostgreSQL.
    """
    from sqlalchemy.engine import make_url

    url = make_url(settings.state_url)
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError(
                "the state database is in memory, where Spark cannot reach it",
                hint="set state_url to a file, for example sqlite:////data/vde.db",
            )
        path = Path(url.database).absolute()
        return {"uri": f"jdbc:sqlite:{path}?busy_timeout=30000&journal_mode=WAL"}
    if url.get_backend_name() != "postgresql":
        raise UsageError(
            f"the state database is of the unknown kind '{url.get_backend_name()}'",
            hint="use a sqlite:/// or postgresql:// URL",
        )
    port = f":{url.port}" if url.port else ""
    query = dict(url.query)
    host = url.host or str(query.pop("host", "localhost"))
    if host.startswith("/"):
        raise UsageError(
            "the state database is reached through a Unix socket, which Java's driver cannot",
            hint="name the server's host and port in state_url",
        )
    parameters = "&".join(f"{key}={quote_url(str(value))}" for key, value in query.items())
    options = {
        "uri": f"jdbc:postgresql://{host}{port}/{url.database or ''}"
        + (f"?{parameters}" if parameters else "")
    }
    if url.username:
        options["jdbc.user"] = url.username
    if url.password:
        options["jdbc.password"] = str(url.password)
    return options


def _backend(state_url: str) -> str:
    return state_url.partition(":")[0].partition("+")[0]


def _artifact(package: str) -> str:
    return ":".join(package.split(":")[:2])
