"""Running Python models: the context that they get, and what they may return."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ModelContext:
    """What a Python model's function gets as its first argument.

    Args:
        spark: The Spark session, of this run only.
        interval: The half-open UTC range to compute.
        execution_time: The instant that the run calls now (UTC).
        logger: A logger named after the model.
        model: The model's name.
    """

    spark: SparkSession
    interval: Interval
    execution_time: datetime
    logger: logging.Logger
    model: ModelName
    _sources: Mapping[ModelName, str] = field(repr=False)
    _variables: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._variables.get(name.lower(), default)

    def table(self, name: str) -> DataFrame:
        """Return the rows of a model that this one depends on, as its environment sees them.

        Raises:
            ExecutionError: The model does not declare it in `depends_on`.
        """
        query = self._sources.get(ModelName.parse(name))
        if query is None:
            raise ExecutionError(
                f"{self.model} reads {name}, which it does not declare",
                hint=f"add '{name}' to depends_on in @model(...)",
            )
        return self.spark.sql(query)

    def sql(self, query: str) -> DataFrame:
        """Run a query in which the names of models mean what they mean to this model."""
        from vde_dagster.planning.render import replace_tables

        return self.spark.sql(replace_tables(query, self._sources.get))


def model_context(
    spark: SparkSession,
    snapshot: Snapshot,
    sources: Mapping[ModelName, str],
    interval: Interval,
    execution_time: datetime,
) -> ModelContext:
    """Return the context of one call of a Python model."""
    logger = logging.getLogger(f"vde.model.{snapshot.name}")
    variables = snapshot.model.python.variables if snapshot.model.python else {}
    return ModelContext(spark, interval, execution_time, logger, snapshot.name, sources, variables)


def run_python_model(
    snapshot: Snapshot,
    context: ModelContext,
    columns: Mapping[str, str],
    function: Callable[..., Any] | None = None,
) -> DataFrame:
    """Call a Python model and return its rows as a Spark DataFrame.

    Args:
        snapshot: The model.
        context: Its first argument.
        columns: Spark SQL type by output column, as the result is to be typed.
        function: The model's function, or None to build it from the snapshot's source.

    Raises:
        ExecutionError: The function failed, returned something else than a pandas or Spark
            DataFrame (or a generator of them), or left a declared column out.
    """
    from vde_dagster.project.python.runtime import run_source

    model = snapshot.model
    assert model.python is not None
    what = f"{model.name} {context.interval}"
    try:
        function = function or run_source(model.python)
        result = function(*_arguments(function, context))
        parts = list(result) if isinstance(result, GeneratorType) else [result]
    except ExecutionError:
        raise
    except Exception as error:
        from vde_dagster.spark.failures import execution_error

        raised = execution_error(error, f"the Python model {what}")
        raised.location = raised.location or model.location
        raise raised from error
    return _as_spark(snapshot, context.spark, parts, columns)


def _arguments(function: Callable[..., Any], context: ModelContext) -> list[Any]:
    """Return the positional arguments that a model's function takes.

    The full form is `(context, start, end, execution_time, **kwargs)`, as in SQLMesh; a function
    may take fewer. `end` is exclusive.
    """
    full = [context, context.interval.start, context.interval.end, context.execution_time]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return full
    return full[: sum(p.kind in kinds for p in parameters)]


def _as_spark(
    snapshot: Snapshot, spark: SparkSession, parts: list[Any], columns: Mapping[str, str]
) -> DataFrame:
    import pandas as pd
    from pyspark.sql import DataFrame

    if parts and all(isinstance(part, DataFrame) for part in parts):
        for part in parts:
            _check_columns(snapshot, part.columns, columns)
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.unionByName(part)
        return whole
    if all(isinstance(part, pd.DataFrame) for part in parts):
        for part in parts:
            _check_columns(snapshot, part.columns, columns)
        names = {column.lower(): column for column in columns}
        frames = [
            part.rename(columns={c: names.get(str(c).lower(), c) for c in part.columns})[
                list(columns)
            ]
            for part in parts
        ]
        frame = (
            pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(columns))
        )
        return pandas_to_spark(spark, frame, columns)
    wrong = next(part for part in parts if not isinstance(part, pd.DataFrame | DataFrame))
    raise ExecutionError(
        f"the Python model {snapshot.name} returned {type(wrong).__name__}",
        hint="return a pandas or a Spark DataFrame, or yield pandas ones",
        location=snapshot.model.location,
    )


def pandas_to_spark(spark: SparkSession, frame: Any, columns: Mapping[str, str]) -> DataFrame:
    """Turn a pandas DataFrame into a Spark one with explicit types, NaN and NaT as NULL."""
    from vde_dagster.base.names import quote

    schema = ", ".join(f"{quote(name)} {type_}" for name, type_ in columns.items())
    if frame.empty:
        return spark.createDataFrame([], schema)
    return spark.createDataFrame(frame, schema)


def _check_columns(snapshot: Snapshot, found: Iterable[Any], columns: Mapping[str, str]) -> None:
    present = {str(name).lower() for name in found}
    missing = [name for name in columns if name.lower() not in present]
    if missing:
        raise ExecutionError(
            f"the Python model {snapshot.name} returned no column "
            + ", ".join(f"'{name}'" for name in missing),
            hint=f"it returned {', '.join(map(str, found))}; declared are {', '.join(columns)}",
            location=snapshot.model.location,
        )
