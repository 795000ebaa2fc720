"""SEED: tables with the rows of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.project.kinds import Seed
from vde_dagster.spark.strategies.base import strategy_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from vde_dagster.spark.strategies.simple import WholeTable


@strategy_for(Seed)
class SeedFile(WholeTable):
    """Replaces all rows of the table with the rows of the file."""

    def rows(self, session: SparkSession, task: FillTask, project_root: Path | None) -> DataFrame:
        """Read the file's rows with all values as text, to be cast to the table's types later."""
        from vde_dagster.project.reading.seeds import read_seed

        if project_root is None:
            raise ExecutionError(
                f"the seed {task.snapshot.name} cannot be read: the engine has no project folder",
                hint="pass project_root to SparkEngine",
            )
        rows = read_seed(project_root, task.snapshot.model)
        if not rows.num_rows:  # Spark cannot infer the schema of a table without rows.
            columns = ", ".join(f"{quote(name)} STRING" for name in rows.column_names)
            return session.createDataFrame([], columns)
        return session.createDataFrame(rows)
