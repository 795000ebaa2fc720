"""Resource of dagster-pyspark with the project's Spark session, for users' own assets."""

# Dagster evaluates the annotations of resources, so they are not postponed here.
from pathlib import Path
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from vde_dagster.errors import UsageError
from vde_dagster.orchestration.resource import WorkspaceResource
from vde_dagster.project.loading.loader import read_settings


class VdePySparkResource(LazyPySparkResource):
    """Separate Spark session in the models' JVM, with the same Iceberg catalog.

    Settings that an asset makes in this session (configuration, temporary views, the current
    catalog) affect other assets of the run, but no model.
    """

    spark_config: dict[str, Any] = Field(
        default_factory=dict, description="Leave empty: the project's settings configure Spark."
    )
    vde: WorkspaceResource

    @property
    def spark_session(self) -> Any:
        """The Spark session, started when it is first used."""
        from vde_dagster.spark.engine import SparkEngine

        engine = self.vde.get().engine()
        if not isinstance(engine, SparkEngine):
            raise UsageError(f"{type(engine).__name__} has no Spark session")
        return engine.guest_session

    @property
    def spark_context(self) -> Any:
        """The process's only Spark context; not available with Spark Connect."""
        from vde_dagster.spark.session.connect import is_remote

        session = self.spark_session
        if is_remote(session):
            raise UsageError(
                "a Spark Connect session has no SparkContext and no RDDs",
                hint="use spark_session and DataFrames; or set `master` to an address other "
                "than sc://… and warm = false under [tool.vde.spark]",
            )
        return session.sparkContext


def spark_config(project_root: str | Path) -> dict[str, str]:
    """Return the configuration that your own Spark session needs to run a project's models.

    For your own resource: `LazyPySparkResource(spark_config={**spark_config(root), …})`.
    """
    from vde_dagster.spark.session.settings import SessionSettings, context_config, session_config

    settings = SessionSettings.from_settings(read_settings(Path(project_root).resolve()))
    return {**context_config(settings), **session_config(settings)}
