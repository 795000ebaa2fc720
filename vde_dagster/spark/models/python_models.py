"""Running Python models: what their functions get, and what they may return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.spark.models.model_context import ModelContext, model_context
from vde_dagster.spark.strategies import find_strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_python_model(
    snapshot: Snapshot,
    context: ModelContext,
    columns: Mapping[str, str],
    project_root: Path | None,
) -> DataFrame:
    """Call a Python model and return its rows as a Spark DataFrame.

    Args:
        columns: Spark SQL type by output column.

    Raises:
        ExecutionError: The function failed, returned something else than a pandas or Spark
            DataFrame (or a generator of them), or left a declared column out.
    """
    from vde_dagster.project.python.files import run_source

    model = snapshot.model
    assert model.python is not None
    what = f"{model.name} {context.interval.text}"
    try:
        function = run_source(model.python, project_root)
        positional, named = _arguments(function, context)
        result = function(*positional, **named)
        parts = list(result) if isinstance(result, GeneratorType) else [result]
    except ExecutionError:
        raise
    except Exception as error:
        from vde_dagster.spark.session.failures import execution_error

        raised = execution_error(error, f"the Python model {what}")
        raised.location = raised.location or model.location
        raise raised from error
    return _as_spark(snapshot, context.spark, parts, columns)


def _arguments(
    function: Callable[..., Any], context: ModelContext
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that a model's function takes, by position and by name.

    The full form is `(context, start, end, execution_time, **kwargs)`, as in SQLMesh; a function
    may take fewer, in any order, and variables by name. One with other names gets them by position.
    """
    known = context.keywords
    parameters = list(inspect.signature(function).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    given = {one.name: known[one.name] for one in named if one.name in known}
    ordered = [one for one in parameters if one.kind in kinds]
    variadic = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    by_name = not variadic and all(
        one.kind is not inspect.Parameter.POSITIONAL_ONLY
        and (one.name in known or one.default is not inspect.Parameter.empty)
        for one in ordered[1:]
    )
    if not by_name:
        full = [context, *(known[name] for name in ("start", "end", "execution_time"))]
        return (full if variadic else full[: len(ordered)]), given
    given |= {one.name: known[one.name] for one in ordered[1:] if one.name in known}
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        given = {**known, **given}
    if ordered:
        given.pop(ordered[0].name, None)
    return ([context] if ordered else []), given


def _as_spark(
    snapshot: Snapshot, spark: SparkSession, parts: list[Any], columns: Mapping[str, str]
) -> DataFrame:
    import pandas as pd
    from pyspark.sql import DataFrame

    frame_type = DataFrame if parts and isinstance(parts[0], DataFrame) else pd.DataFrame
    for part in parts:
        if not isinstance(part, frame_type):
            raise ExecutionError(
                f"the Python model {snapshot.name} returned {type(part).__name__}",
                hint="return a pandas or a Spark DataFrame, or yield frames of one of the two",
                location=snapshot.model.location,
            )
        present = {str(name).lower() for name in part.columns}
        missing = [name for name in columns if name.lower() not in present]
        if missing:
            raise ExecutionError(
                f"the Python model {snapshot.name} returned no column "
                + ", ".join(f"'{name}'" for name in missing),
                hint=f"it returned {', '.join(map(str, part.columns))}; "
                f"declared are {', '.join(columns)}",
                location=snapshot.model.location,
            )
    if frame_type is DataFrame:
        return reduce(lambda whole, part: whole.unionByName(part), parts)
    names = {column.lower(): column for column in columns}
    frames = [
        part.rename(columns={c: names.get(str(c).lower(), c) for c in part.columns})[list(columns)]
        for part in parts
    ]
    rows: Any = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    schema = ", ".join(f"{quote(name)} {type_}" for name, type_ in columns.items())
    return spark.createDataFrame([] if rows.empty else rows, schema)


def source_frame(
    session: SparkSession, task: FillTask, types: Mapping[str, str], project_root: Path | None
) -> DataFrame:
    """Return a task's rows, selected by name and cast to the physical table's types.

    Columns that the query does not make (retired ones, and those that the kind adds) become NULL.
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
