"""SEED: the rows of a CSV file, written whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.errors import ExecutionError
from vde_dagster.planning.work import FillTask
from vde_dagster.project.kinds import Seed
from vde_dagster.spark.strategies.base import strategy_for
from vde_dagster.spark.strategies.whole_table import WholeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@strategy_for(Seed)
class SeedFile(WholeTable):
    """Replaces all rows by the file's."""

    def rows(self, session: SparkSession, task: FillTask, project_root: Path | None) -> DataFrame:
        """Read the file's values as text; the projection casts them to the table's types."""
        from vde_dagster.project.reading.seeds import read_seed

        if project_root is None:
            raise ExecutionError(
                f"the seed {task.snapshot.name} cannot be read: the engine knows no project folder",
                hint="give SparkEngine its project_root",
            )
        return session.createDataFrame(read_seed(project_root, task.snapshot.model))
