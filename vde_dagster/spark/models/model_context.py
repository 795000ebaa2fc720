"""The context that a Python model's function gets as its first argument."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.snapshots.snapshot import Snapshot

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
        execution_time: The instant that the run calls now (UTC).
        dialect: SQLGlot dialect of the texts that its methods get.
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

    @property
    def end(self) -> datetime:
        """The end of the interval, as functions get it: the first instant after it (UTC)."""
        return self.interval.end

    @property
    def keywords(self) -> dict[str, Any]:
        """Arguments that functions get by name."""
        return {
            **self._settings,
            "start": self.interval.start,
            "end": self.end,
            "execution_time": self.execution_time,
            "latest": self.execution_time,
        }

    @property
    def engine_adapter(self) -> ModelAdapter:
        """An SQL runner with the method names of SQLMesh's engine adapters."""
        return ModelAdapter(self)

    @property
    def gateway(self) -> Any:
        """The default gateway's name in a SQLMesh configuration, or None."""
        return self.var("gateway")

    def var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the settings, or the default."""
        return self._settings.get(name.lower(), default)

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._variables.get(name.lower(), default)

    def table(self, name: str) -> Any:
        """Return the rows of a model in `depends_on`, as its environment sees them."""
        return self.spark.sql(self._source(name))

    def resolve_table(self, name: str) -> str:
        """Return a name for SQL that stands for the rows of a model in `depends_on`."""
        query = self._source(name)
        parsed = ModelName.parse(name)
        number = list(self._sources).index(parsed)  # `a.b_c` and `a_b.c` are two.
        view = f"vde_source_{number}_" + re.sub(r"\W+", "_", str(parsed)).lower()
        self.spark.sql(query).createOrReplaceTempView(view)
        return view

    def sql(self, query: str | exp.Expr) -> DataFrame:
        """Run a query in which the names of models mean what they mean to this model."""
        from vde_dagster.planning.rendering.render import replace_tables

        return self.spark.sql(replace_tables(self._spark_sql(query), self._sources.get))

    def fetch_pyspark_df(self, query: str | exp.Expr, quote_identifiers: bool = False) -> DataFrame:
        """Run a query over models and tables; return its rows as a DataFrame of Spark's."""
        return self.sql(query)

    def fetchdf(self, query: str | exp.Expr, quote_identifiers: bool = False) -> pd.DataFrame:
        """Run a query over models and tables; return its rows as a pandas DataFrame."""
        rows: pd.DataFrame = self.sql(query).toPandas()
        return rows

    def _source(self, name: str) -> str:
        query = self._sources.get(ModelName.parse(name))
        if query is None:
            raise ExecutionError(
                f"{self.model} reads {name}, which it does not declare",
                hint=f"add '{name}' to depends_on in @model(...)",
            )
        return query

    def _spark_sql(self, query: str | exp.Expr) -> str:
        if isinstance(query, str) and self.dialect == "spark":
            return query
        from sqlglot import exp, parse_one
        from sqlglot.errors import SqlglotError

        from vde_dagster.sql.other_dialects import Unwritable
        from vde_dagster.sql.other_dialects.translate import spark_text

        try:
            tree = query if isinstance(query, exp.Expr) else parse_one(query, dialect=self.dialect)
        except SqlglotError as error:
            message = str(error).splitlines()[0]
            raise ExecutionError(f"{self.model}: the query cannot be read: {message}") from None
        try:
            return spark_text(tree.copy())
        except Unwritable as wrong:
            raise ExecutionError(
                f"{self.model}: a query cannot be written in Spark SQL: {wrong}",
                hint="write it in Spark SQL and run it by context.spark.sql(…)",
            ) from None


class SqlmeshModelContext(ModelContext):
    """The context of a model whose decorator is SQLMesh's, with that one's conventions."""

    __slots__ = ()

    @property
    def end(self) -> datetime:
        """The interval's last instant, a microsecond before the next one begins (UTC)."""
        return self.interval.end - timedelta(microseconds=1)

    @property
    def default_dialect(self) -> str:
        """SQLGlot dialect of the texts that the methods get."""
        return self.dialect

    @property
    def default_catalog(self) -> None:
        """None: names of the project's own tables have no catalog."""
        return None

    def table(self, name: str) -> str:
        """Return the same as `resolve_table`."""
        return self.resolve_table(name)


@dataclass(frozen=True, slots=True)
class ModelAdapter:
    """The methods of SQLMesh's engine adapters that read."""

    context: ModelContext

    @property
    def dialect(self) -> str:
        """SQLGlot dialect of the texts that the methods get."""
        return self.context.dialect

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        return self.context.spark

    def fetchdf(self, query: str | exp.Expr, quote_identifiers: bool = False) -> pd.DataFrame:
        """Run a query; return its rows as a pandas DataFrame."""
        return self.context.fetchdf(query)

    def fetch_pyspark_df(self, query: str | exp.Expr, quote_identifiers: bool = False) -> DataFrame:
        """Run a query; return its rows as a DataFrame of Spark's."""
        return self.context.fetch_pyspark_df(query)

    def fetchall(self, query: str | exp.Expr, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        """Run a query; return its rows."""
        return [tuple(row) for row in self.context.sql(query).collect()]

    def fetchone(self, query: str | exp.Expr, *_: Any, **__: Any) -> tuple[Any, ...] | None:
        """Run a query; return its first row, or None."""
        rows = self.context.sql(query).take(1)
        return tuple(rows[0]) if rows else None

    def execute(self, expressions: Any, *_: Any, **__: Any) -> None:
        """Run statements in the model's own session; nothing versions what they write elsewhere."""
        listed = expressions if isinstance(expressions, list | tuple) else [expressions]
        for one in listed:
            self.spark.sql(self.context._spark_sql(one))

    def table_exists(self, table_name: Any) -> bool:
        """Say whether Spark knows a table, or the model reads a model of this name."""
        name = table_name if isinstance(table_name, str) else table_name.sql("spark")
        known = ModelName.parse(name) in self.context._sources
        return known or bool(self.spark.catalog.tableExists(name))


def model_context(
    spark: SparkSession,
    snapshot: Snapshot,
    sources: Mapping[ModelName, str],
    interval: Interval,
    execution_time: datetime,
) -> ModelContext:
    """Return the context of one call of a Python model."""
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
    )
