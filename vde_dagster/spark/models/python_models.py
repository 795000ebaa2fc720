"""Python models: the context of their functions, and conversion of the results to rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from pathlib import Path
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.engine_tasks import FillTask, notebook_path
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.table_names import TableNames
from vde_dagster.spark.session.connect import query_frame
from vde_dagster.spark.session.failures import as_subquery
from vde_dagster.spark.strategies import find_strategy
from vde_dagster.spark.tables.columns import cast_to_table, spark_type, used_fields

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The context that a Python model's function gets as its first argument.

    Args:
        spark: The Spark session, of this run only.
        interval: The half-open UTC range to compute.
        execution_time: The run's current instant (UTC).
        dialect: SQLGlot dialect of the queries that the code passes to the context's methods.
        files: Content of the files with the model's code, by path relative to the project's folder.
        root: The project's folder; None without a working copy.
        page: Path at which the code may write a notebook for Dagster to show.
        names: Rules by which names in the code mean models.
        trusted: Functions of the dialect that are assumed to return the same values on Spark.
        is_cancelled: Function that returns whether the plan was canceled. Long work in Python can
            call it between two steps, to end early.
    """

    spark: SparkSession
    interval: Interval
    execution_time: datetime
    logger: logging.Logger
    model: ModelName
    dialect: str
    _sources: Mapping[ModelName, str] = field(repr=False)
    _variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    _settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    root: Path | None = None
    page: Path | None = None
    is_cancelled: Callable[[], bool] = field(default=lambda: False, repr=False)
    trusted: frozenset[str] = frozenset()
    names: TableNames = field(default=TableNames("", "default"), repr=False)

    @property
    def reads(self) -> tuple[ModelName, ...]:
        """Names of the models that the code may read."""
        return tuple(self._sources)

    @property
    def end(self) -> datetime:
        """The argument `end` of models' functions: the first instant (UTC) after the interval."""
        return self.interval.end

    @property
    def keywords(self) -> dict[str, Any]:
        """Arguments that a model's function can take by name, such as `start`."""
        return {
            **self._settings,
            "start": self.interval.start,
            "end": self.end,
            "execution_time": self.execution_time,
            "latest": self.execution_time,
        }

    @property
    def engine_adapter(self) -> ModelContext:
        """This context, which has the read methods of SQLMesh's engine adapters."""
        return self

    @property
    def gateway(self) -> Any:
        """The default gateway's name in a SQLMesh configuration, or None."""
        return self.var("gateway")

    def var(self, name: str, default: Any = None) -> Any:
        return self._settings.get(name.lower(), default)

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._variables.get(name.lower(), default)

    def table(self, name: str) -> Any:
        """Return the rows of a model in `depends_on`, from its environment."""
        return self.spark.sql(self._source(name))

    def resolve_table(self, name: str) -> str:
        """Return the name of a temporary view with the rows of a model in `depends_on`."""
        query = self._source(name)
        parsed = self.names.read(name)
        number = list(self._sources).index(parsed)  # `a.b_c` and `a_b.c` are two.
        view = f"vde_source_{number}_" + re.sub(r"\W+", "_", str(parsed)).lower()
        self.spark.sql(query).createOrReplaceTempView(view)
        return view

    def sql(self, query: str | exp.Expr) -> DataFrame:
        """Run a query, after replacing each model's name with a query of the model's rows."""
        from vde_dagster.planning.rendering.render import replace_tables

        return self.spark.sql(replace_tables(self._spark_sql(query), self._sources.get, self.names))

    def fetch_pyspark_df(self, query: str | exp.Expr, quote_identifiers: bool = False) -> DataFrame:
        """Run a query over models and tables, and return its rows as a Spark DataFrame."""
        return self.sql(query)

    def fetchdf(self, query: str | exp.Expr, quote_identifiers: bool = False) -> pd.DataFrame:
        """Run a query over models and tables, and return its rows as a pandas DataFrame."""
        rows: pd.DataFrame = self.sql(query).toPandas()
        return rows

    def fetchall(self, query: str | exp.Expr, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.sql(query).collect()]

    def fetchone(self, query: str | exp.Expr, *_: Any, **__: Any) -> tuple[Any, ...] | None:
        rows = self.sql(query).take(1)
        return tuple(rows[0]) if rows else None

    def execute(self, expressions: Any, *_: Any, **__: Any) -> None:
        """Run statements in the model's own session. Tables that they write have no versions."""
        for one in expressions if isinstance(expressions, list | tuple) else [expressions]:
            self.spark.sql(self._spark_sql(one))

    def table_exists(self, table_name: Any) -> bool:
        """Return whether the name is a table in Spark, or a model that this model reads."""
        name = table_name if isinstance(table_name, str) else table_name.sql("spark")
        known = self._model_name(name) in self._sources
        return known or bool(self.spark.catalog.tableExists(name))

    def _source(self, name: str) -> str:
        query = self._sources.get(self.names.read(name))
        if query is None:
            raise ExecutionError(
                f"{self.model} reads {name}, which it does not declare",
                hint=f"add '{name}' to depends_on in @model(...)",
            )
        return query

    def _model_name(self, name: str) -> ModelName | None:
        return self.names.model_name_or_none(ModelName.split(name))

    def _spark_sql(self, query: str | exp.Expr) -> str:
        if isinstance(query, str) and self.dialect == "spark":
            return query
        return translate_query(query, self.model, self.dialect, self.trusted, self._column_types)

    def _column_types(self, name: str) -> Mapping[str, str] | None:
        known = self._model_name(name)
        source = self._sources.get(known) if known is not None else None
        if source is None and not self.spark.catalog.tableExists(name):
            return None
        frame = self.spark.table(name) if source is None else self.spark.sql(source)
        return {one.name: spark_type(one.dataType) for one in frame.schema.fields}


class SqlmeshModelContext(ModelContext):
    """The context of a Python model that uses SQLMesh's decorator."""

    __slots__ = ()

    @property
    def end(self) -> datetime:
        """The interval's last instant, a microsecond before the next one begins (UTC)."""
        return self.interval.end - timedelta(microseconds=1)

    @property
    def default_dialect(self) -> str:
        return self.dialect

    @property
    def default_catalog(self) -> None:
        """None, because names of the project's own tables have no catalog."""
        return None

    def table(self, name: str) -> str:
        return self.resolve_table(name)


def model_context(
    spark: SparkSession,
    snapshot: Snapshot,
    catalog: str,
    sources: Mapping[ModelName, str],
    interval: Interval,
    execution_time: datetime,
    root: Path | None = None,
    page: Path | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ModelContext:
    logger = logging.getLogger(f"vde.model.{snapshot.name}")
    python = snapshot.model.python
    assert python is not None
    made = SqlmeshModelContext if python.sqlmesh_dialect else ModelContext
    return made(
        spark,
        interval,
        execution_time,
        logger,
        snapshot.name,
        python.sqlmesh_dialect or "spark",
        sources,
        python.variables,
        python.settings,
        python.files,
        root,
        page,
        is_cancelled,
        frozenset(snapshot.model.dialect_trust),
        TableNames(catalog, python.default_namespace, python.catalogs),
    )


def run_python_model(
    snapshot: Snapshot, context: ModelContext, columns: Mapping[str, str], project_root: Path | None
) -> DataFrame:
    """Call a Python model's function and return its rows as a Spark DataFrame.

    Args:
        columns: Spark SQL type by output column.

    Raises:
        ExecutionError: The function failed, omitted a declared column, or returned something else
            than a pandas or Spark DataFrame, Arrow rows, or a generator of these.
    """
    from vde_dagster.project.python.arguments import match_arguments
    from vde_dagster.project.python.files import run_source

    model = snapshot.model
    assert model.python is not None
    what = f"{model.name} {context.interval.text}"
    try:
        function = run_source(model.python, project_root)
        known = {"context": context, **context.keywords}
        positional, named = match_arguments(function, known)
        result = function(*map(known.get, positional), **{name: known[name] for name in named})
        parts = list(result) if isinstance(result, GeneratorType) else [result]
    except ExecutionError:
        raise
    except Exception as error:
        from vde_dagster.spark.session.failures import execution_error

        raised = execution_error(error, f"the Python model {what}")
        raised.location = raised.location or model.location
        raise raised from error
    return _to_spark(snapshot, context.spark, parts, columns)


def _to_spark(
    snapshot: Snapshot, spark: SparkSession, parts: list[Any], columns: Mapping[str, str]
) -> DataFrame:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    parts = [_to_arrow(part) for part in parts]
    types = (DataFrame, pa.Table)
    frame_type = next((one for one in types if parts and isinstance(parts[0], one)), pd.DataFrame)
    for part in parts:
        if not isinstance(part, frame_type):
            raise ExecutionError(
                f"the Python model {snapshot.name} returned {type(part).__name__}",
                hint="return a pandas or a Spark DataFrame or an Arrow table, or yield several",
                location=snapshot.model.location,
            )
        given = list(map(str, part.column_names if frame_type is pa.Table else part.columns))
        present = {name.lower() for name in given}
        missing = [name for name in columns if name.lower() not in present]
        if missing:
            raise ExecutionError(
                f"the Python model {snapshot.name} returned no column "
                + ", ".join(f"'{name}'" for name in missing),
                hint=f"it returned {', '.join(given)}; the declared columns are "
                f"{', '.join(columns)}",
                location=snapshot.model.location,
            )
    if frame_type is DataFrame:
        return reduce(lambda whole, part: whole.unionByName(part), parts)
    names = {column.lower(): column for column in columns}
    if frame_type is pa.Table:
        renamed = [
            part.rename_columns([names.get(name.lower(), name) for name in part.column_names])
            for part in parts
        ]
        return spark.createDataFrame(pa.concat_tables(one.select(list(columns)) for one in renamed))
    frames = [
        part.rename(columns={c: names.get(str(c).lower(), c) for c in part.columns})[list(columns)]
        for part in parts
    ]
    rows: Any = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    schema = ", ".join(f"{quote(name)} {type_}" for name, type_ in columns.items())
    return spark.createDataFrame([] if rows.empty else rows, schema)


def _to_arrow(part: Any) -> Any:
    """Convert results of Polars, DuckDB or others to Arrow, but not results of pandas or Spark."""
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

    if isinstance(part, pd.DataFrame | DataFrame) or not hasattr(part, "__arrow_c_stream__"):
        return part
    # Polars' stream has string views, which Spark cannot read.
    return pa.table(part.to_arrow() if hasattr(part, "to_arrow") else part)


def source_frame(
    session: SparkSession,
    task: FillTask,
    types: Mapping[str, str],
    catalog: str,
    project_root: Path | None,
    is_cancelled: Callable[[], bool],
) -> DataFrame:
    """Build a DataFrame of a task's rows, with the columns and types of the task's table.

    Columns that the query lacks (retired columns, and columns that the kind adds) become NULL.
    """
    computed = {column.name for column in task.snapshot.computed_columns}
    made = [(output, physical) for output, physical in task.columns if output in computed]
    added = {column.name: column.fields for column in task.table.columns}
    outputs = {}
    for output, physical in made:
        type_ = types[physical]
        fields = used_fields(task.snapshot, output, type_, added.get(physical, ()))
        outputs[output] = type_ if fields is None else fields.shown
    return cast_to_table(
        _compute_rows(session, task, outputs, catalog, project_root, is_cancelled), task, types
    )


def _compute_rows(
    session: SparkSession,
    task: FillTask,
    outputs: Mapping[str, str],
    catalog: str,
    project_root: Path | None,
    is_cancelled: Callable[[], bool],
) -> DataFrame:
    model = task.snapshot.model
    if task.query is not None:
        prepared: Any = task.prepared.handle if task.prepared is not None else None
        if prepared is not None and prepared.sparkSession is session:
            return prepared
        return query_frame(session, as_subquery(task.query))
    if model.python is not None:
        page = notebook_path(task.plan_id, task.table.id, task.interval)
        context = model_context(
            *(session, task.snapshot, catalog, task.sources, task.interval, task.execution_time),
            root=project_root,
            page=None if project_root is None else project_root / page,
            is_cancelled=is_cancelled,
        )
        return run_python_model(task.snapshot, context, outputs, project_root)
    return find_strategy(task.snapshot).rows(session, task, project_root)


GetColumnTypes = Callable[[str], Mapping[str, str] | None]
"""Maps a table's dotted name to its columns' Spark SQL types; to None if no such table exists."""


def translate_query(
    query: str | exp.Expr,
    model: ModelName,
    dialect: str,
    trusted: frozenset[str],
    get_column_types: GetColumnTypes,
) -> str:
    """Translate a query of a Python model to Spark SQL.

    Args:
        query: A text of the dialect, or a tree, which has no dialect.
        trusted: Functions and operators that are assumed to return the same values on Spark.

    Raises:
        ExecutionError: The query cannot be parsed, or may have other values on Spark.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.other_dialects import SPARKS, Unwritable
    from vde_dagster.sql.other_dialects.translate import write_spark_sql
    from vde_dagster.sql.reading import parse_plain

    try:
        tree = query if isinstance(query, exp.Expr) else parse_plain(query, dialect)
    except SqlglotError as error:
        message = str(error).splitlines()[0]
        raise ExecutionError(f"{model}: the query cannot be parsed: {message}") from None
    written_in = dialect if isinstance(query, str) else ""
    hint = "write it in Spark SQL and run it with context.spark.sql(…)"
    try:
        text = write_spark_sql(tree.copy(), written_in, trusted)
    except Unwritable as wrong:
        trust = f"; or trust it: dialect_trust=[{wrong.function!r}]" if wrong.function else ""
        raise ExecutionError(
            f"{model}: a query cannot be written in Spark SQL: {wrong}", hint=hint + trust
        ) from None
    if written_in not in SPARKS:
        _check_operators(text, model, written_in, trusted, get_column_types)
    return text


def _check_operators(
    text: str,
    model: ModelName,
    dialect: str,
    trusted: frozenset[str],
    get_column_types: GetColumnTypes,
) -> None:
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.translated import find_operators
    from vde_dagster.sql.reading import find_tables_read, parse_plain

    origin = Origin(dialect, trusted)
    found = find_operators(text, {}, origin)
    if found:  # Spark is asked for types only where they matter.
        schema = {}
        for table in find_tables_read(parse_plain(text)):
            name = ".".join(part.name.lower() for part in table.parts)
            columns = get_column_types(name)
            if columns is not None:
                schema[name] = columns
        found = find_operators(text, schema, origin)
    if found:
        message = f"{model}: a query may return other values on Spark: {found[0].message}"
        raise ExecutionError(message, hint=found[0].hint)
