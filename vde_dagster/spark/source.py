"""The rows that a task is to write, as a DataFrame in the table's own columns and types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.work import FillTask
from vde_dagster.project.kinds import Seed
from vde_dagster.spark.python_models import model_context, run_python_model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source_frame(
    session: SparkSession, task: FillTask, types: Mapping[str, str], project_root: Path | None
) -> DataFrame:
    """Return a task's rows, selected by name and cast to the physical table's types.

    Columns of the table that the task does not fill (retired ones) become NULL.

    Args:
        session: The session to build them in.
        task: The task.
        types: Spark SQL type by physical column, as the table has them.
        project_root: Where seeds lie.

    Raises:
        ExecutionError: The query, the code or the file cannot be read, or a column is missing.
    """
    outputs = {output: types[physical] for output, physical in task.columns}
    frame = _rows(session, task, outputs, project_root)
    output_of = {physical: quote(output) for output, physical in task.columns}
    return frame.selectExpr(
        *(
            f"CAST({output_of.get(physical, 'NULL')} AS {type_}) AS {quote(physical)}"
            for physical, type_ in types.items()
        )
    )


def _rows(
    session: SparkSession, task: FillTask, outputs: Mapping[str, str], project_root: Path | None
) -> DataFrame:
    model = task.snapshot.model
    if task.query is not None:
        prepared: Any = task.prepared.handle if task.prepared is not None else None
        if prepared is not None and prepared.sparkSession is session:
            return prepared
        return session.sql(task.query)
    if model.python is not None:
        context = model_context(
            session, task.snapshot, task.sources, task.interval, task.execution_time
        )
        return run_python_model(task.snapshot, context, outputs)
    if isinstance(model.kind, Seed):
        return _seed_rows(session, task, project_root)
    raise ExecutionError(
        f"{model.name} has neither a query nor code nor a file to fill its table from",
        location=model.location,
    )


def _seed_rows(session: SparkSession, task: FillTask, project_root: Path | None) -> DataFrame:
    """Read a seed's values as text; the projection casts them to the table's types."""
    from vde_dagster.project.reading.seeds import read_seed

    if project_root is None:
        raise ExecutionError(
            f"the seed {task.snapshot.name} cannot be read: the engine knows no project folder",
            hint="give SparkEngine its project_root",
        )
    return session.createDataFrame(read_seed(project_root, task.snapshot.model))
