"""The rows that a task is to write, as a DataFrame in the table's own columns and types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.planning.work import FillTask
from vde_dagster.spark.model_context import model_context
from vde_dagster.spark.python_models import run_python_model
from vde_dagster.spark.strategies import find_strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def source_frame(
    session: SparkSession, task: FillTask, types: Mapping[str, str], project_root: Path | None
) -> DataFrame:
    """Return a task's rows, selected by name and cast to the physical table's types.

    Columns of the table that the query does not make (retired ones, and those that the kind adds)
    become NULL.

    Args:
        session: The session to build them in.
        task: The task.
        types: Spark SQL type by physical column, as the table has them.
        project_root: Where seeds lie, and files beside Python models.

    Raises:
        ExecutionError: The query, the code or the file cannot be read, or a column is missing.
    """
    computed = {column.name for column in task.snapshot.computed_columns}
    made = [(output, physical) for output, physical in task.columns if output in computed]
    outputs = {output: types[physical] for output, physical in made}
    frame = _rows(session, task, outputs, project_root)
    output_of = {physical: quote(output) for output, physical in made}
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
        return run_python_model(task.snapshot, context, outputs, project_root)
    return find_strategy(task.snapshot).rows(session, task, project_root)
