"""The project's Spark session for users' own assets, as a resource of dagster-pyspark."""

# Dagster reads the annotations of its resources, so they are not postponed here.
from pathlib import Path
from typing import Any

from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from vde_dagster.errors import UsageError
from vde_dagster.orchestration.resource import WorkspaceResource


class VdePySparkResource(LazyPySparkResource):
    """A session beside those that models run in: same JVM, same Iceberg catalog, started late.

    What an asset sets in it (configuration, temporary views, the current catalog) is seen by
    other assets of the run and by no model.
    """

    spark_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Left empty: the project's settings say how Spark is configured.",
    )
    vde: WorkspaceResource

    @property
    def spark_session(self) -> Any:
        """The session; the first use in a run starts Spark."""
        from vde_dagster.spark import SparkEngine

        engine = self.vde.get().engine()
        if not isinstance(engine, SparkEngine):
            raise UsageError(f"{type(engine).__name__} has no Spark session")
        return engine.guest_session

    @property
    def spark_context(self) -> Any:
        """The Spark context, of which a process has one and Spark Connect none."""
        from vde_dagster.spark.session.connect import is_remote

        session = self.spark_session
        if is_remote(session):
            raise UsageError(
                "a session of Spark Connect has no SparkContext, so no RDDs",
                hint="use spark_session and DataFrames, or a spark.master that is no sc://… with "
                "warm = false under [tool.vde.spark]",
            )
        return session.sparkContext


def spark_config(project_root: str | Path) -> dict[str, str]:
    """Return the configuration of a Spark session that a project can join.

    For a resource of your own: `LazyPySparkResource(spark_config={**spark_config(root), …})`.
    """
    from vde_dagster.project.loading.loader import read_settings
    from vde_dagster.spark import SessionSettings
    from vde_dagster.spark.session.settings import context_config, session_config

    settings = SessionSettings.of(read_settings(Path(project_root).resolve()))
    return {**context_config(settings), **session_config(settings)}
