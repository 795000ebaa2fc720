"""Settings of a Spark session, and their conversion to Spark's configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.secrets import names_secret
from vde_dagster.base.workers import usable_memory
from vde_dagster.spark.jvm.known_start import JAR_CACHE_VARIABLE
from vde_dagster.sql.spark_settings import ASSUMED

if TYPE_CHECKING:
    from vde_dagster.lakehouse.catalogs.catalog import SparkCatalog
    from vde_dagster.project.settings import Settings


ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"

MEMORY = "spark.driver.memory"

_SECOND_COMPILE_COUNTS = {
    "Invocation": 5_000,
    "MinInvocation": 600,
    "Compile": 15_000,
    "BackEdge": 40_000,
}
"""Number of executions, by HotSpot's own defaults, before code is compiled a second time."""

JAVA_OPTIONS = " ".join(
    (
        # Without this a thread that lacks memory dies alone, and Spark's scheduler is stuck.
        "-XX:+ExitOnOutOfMemoryError",
        # The second compiler takes a third of the processor's time while small models are built.
        # It waits until code has run a hundred times as often: loops over rows do within a second.
        *(
            f"-XX:Tier4{what}Threshold={100 * runs}"
            for what, runs in _SECOND_COMPILE_COUNTS.items()
        ),
        # A full code cache ends the JVM: "Out of space in CodeCache for adapters" is a fatal error
        # in the next thread that loads a class. Reserved address space is free until it is used.
        "-XX:ReservedCodeCacheSize=512m",
        "-XX:+IgnoreUnrecognizedVMOptions",
    )
)

_LEAST_MEMORY = 2 << 30


@dataclass(frozen=True, slots=True)
class WarmSettings:
    """Settings of a warm engine: a Spark that keeps running in the background.

    Args:
        folder: The folder with the file that describes the running engine.
        by_itself: Whether the engine starts when Spark is needed, or only by `vde engine start`.
        idle_seconds: Idle time in seconds after which the engine ends.
        warm_up: Whether the engine warms up while idle, see `warm_up.py`.
    """

    folder: Path
    by_itself: bool
    idle_seconds: float
    warm_up: bool = True

    @classmethod
    def from_settings(cls, settings: Settings) -> WarmSettings | None:
        """Read the settings of the warm engine.

        Return None if Spark runs on a cluster, or the system has no `flock`.
        """
        spark = settings.spark
        if not is_local(spark.master) or os.name != "posix":
            return None
        return cls(settings.work_dir / "engine", spark.warm, spark.warm_minutes * 60, spark.warm_up)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The part of a project's settings that Spark needs.

    Args:
        state_url: SQLAlchemy URL of the database with state and catalog.
        warehouse: URI of the directory for new tables.
        config: Further Spark properties, which take precedence over vde's defaults.
        packages: Further Maven coordinates, replacing defaults with the same group and artifact;
            None for no downloads, because the jars are in Spark's own folder.
        log_file: File for the JVM's output, or None for a temporary file.
        io: PyIceberg's settings for object stores.
        catalog_override: Spark's configuration for a catalog outside of `state_url`, or None.
        warm: Settings of the warm engine, if the project may have one.
    """

    catalog: str
    state_url: str = field(repr=False)
    warehouse: str
    master: str = "local[*]"
    config: dict[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] | None = ()
    log_file: Path | None = None
    project_root: Path | None = None
    io: dict[str, str] = field(default_factory=dict, repr=False)
    catalog_override: SparkCatalog | None = field(default=None, repr=False)
    warm: WarmSettings | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> SessionSettings:
        from vde_dagster.lakehouse.catalogs.by_settings import outside_catalog
        from vde_dagster.project.secrets import expand_secrets
        from vde_dagster.state.db.effects import NoEffects

        other = outside_catalog(settings, NoEffects())
        return cls(
            catalog=settings.catalog,
            state_url=settings.resolved_state_url,
            warehouse=settings.resolved_warehouse,
            master=settings.spark.master,
            config=expand_secrets(settings.spark.config),
            packages=settings.spark.packages or None,
            log_file=settings.work_dir / "spark.log",
            project_root=settings.root,
            io=expand_secrets(settings.io),
            catalog_override=other.for_spark() if other is not None else None,
            warm=WarmSettings.from_settings(settings),
        )

    @property
    def iceberg(self) -> SparkCatalog:
        """Spark's properties and packages for the Iceberg catalog."""
        from vde_dagster.lakehouse.catalogs.by_settings import spark_catalog

        return self.catalog_override or spark_catalog(self.state_url, self.warehouse, self.io)


def catalog_config(settings: SessionSettings) -> dict[str, str]:
    """Return the Spark properties of the Iceberg catalog. A running session accepts them."""
    prefix = f"spark.sql.catalog.{settings.catalog}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.iceberg.properties.items()},
        "spark.sql.defaultCatalog": settings.catalog,
    }


def session_config(settings: SessionSettings) -> dict[str, str]:
    """Return a session's Spark properties: the catalog's, vde's and the project's."""
    return {
        # No property limits how work is split into tasks: settings for small tables would put a
        # large table into one task. Settings that versions depend on are explicit, so that a
        # cluster's settings do not apply.
        **catalog_config(settings),
        **ASSUMED,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.sources.partitionOverwriteMode": "static",
        # Otherwise Spark replaces `${name}` in strings, also in the values of changed keys.
        "spark.sql.variable.substitute": "false",
        **settings.config,
    }


def context_config(settings: SessionSettings) -> dict[str, str]:
    """Return the Spark properties for the start of a new JVM, without catalogs."""
    config = {
        "spark.app.name": "vde",
        "spark.master": settings.master,
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,
    }
    if settings.packages is not None:
        config["spark.jars.packages"] = ",".join(packages(settings))
    config |= settings.config
    if is_local(settings.master):
        config.setdefault("spark.driver.host", "127.0.0.1")
        config.setdefault("spark.driver.bindAddress", "127.0.0.1")
        config.setdefault(MEMORY, f"{local_memory() >> 20}m")
    cache = os.environ.get(JAR_CACHE_VARIABLE)
    if cache:
        config.setdefault("spark.jars.ivy", str(Path(cache).expanduser().absolute()))
    return config


def is_local(master: str) -> bool:
    """Return whether tasks run in the driver's JVM (`local[*]`)."""
    return master.startswith("local")


def local_memory() -> int:
    """Return the bytes for a JVM that runs tasks: half of usable_memory(), at least 2 GiB."""
    return max(usable_memory() // 2, _LEAST_MEMORY)


def describe_memory(config: dict[str, str]) -> str:
    """Return the driver's memory in a configuration, for messages."""
    return config.get(MEMORY, "Spark's default memory")


def command_line_config(config: dict[str, str]) -> dict[str, str]:
    """Return the configuration for a command line, without keys that may have secrets."""
    # Every user of the machine can read command lines. Storage keys, passwords and tokens are
    # therefore passed after the JVM has started.
    return {
        key: value
        for key, value in config.items()
        if not (key.startswith(("spark.hadoop.", "spark.sql.")) or names_secret(key))
    }


def packages(settings: SessionSettings) -> tuple[str, ...]:
    """Return the Maven coordinates of the jars that the project needs."""
    needed = (ICEBERG_PACKAGE, *settings.iceberg.packages)
    chosen = {_artifact(package): package for package in needed}
    chosen.update({_artifact(package): package for package in settings.packages or ()})
    return tuple(chosen.values())


def _artifact(package: str) -> str:
    return ":".join(package.split(":")[:2])
