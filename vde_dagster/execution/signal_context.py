"""What a signal may ask: the environment's rows, its tables, the project's variables."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.query import query_environment
from vde_dagster.planning.environment import PRODUCTION

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from vde_dagster.execution.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class SignalContext:
    """The argument `context` of signals; Spark starts when one asks for rows, not before.

    Models mean what the environment shows while the plan is made, or what production shows where
    there is no such environment yet.

    Args:
        warehouse: The project's warehouse.
        environment: The environment that is planned.
        execution_time: The plan's instant (UTC).
        model: The model whose intervals are asked about.
    """

    warehouse: Warehouse
    environment: str
    execution_time: datetime
    model: ModelName

    @property
    def engine_adapter(self) -> SignalContext:
        """This object, under the name by which signals of SQLMesh ask for `fetchdf`."""
        return self

    @property
    def logger(self) -> logging.Logger:
        """A logger named after the model."""
        return logging.getLogger(f"vde.signal.{self.model}")

    @property
    def spark(self) -> SparkSession:
        """A Spark session in which models see nothing of what a signal changes.

        Raises:
            UsageError: The project's engine is not Spark.
        """
        from vde_dagster.spark import SparkEngine

        engine = self.warehouse.engine()
        if not isinstance(engine, SparkEngine):
            raise UsageError("this engine has no Spark session", hint="use context.fetchdf")
        return engine.guest_session

    def var(self, name: str, default: Any = None) -> Any:
        """Return a variable of `[tool.vde.variables]`, or the default."""
        known = {key.lower(): value for key, value in self.warehouse.settings.variables.items()}
        return known.get(name.lower(), default)

    def resolve_table(self, name: str) -> str:
        """Return the quoted name of the view or table that shows a model, for SQL.

        Raises:
            UsageError: Nothing is published of it.
        """
        settings = self.warehouse.settings
        model = ModelName.parse(name, settings.default_namespace)
        shown = self._shown()
        current = self.warehouse.store.environments.get(shown) if shown else None
        if current is None or model not in current.entries:
            raise UsageError(
                f"nothing is published of {model} that environment '{self.environment}' could read",
                hint="a signal sees what is published when the plan is made, not what it will fill",
            )
        return current.views.quoted(model, settings.catalog)

    def table(self, name: str) -> DataFrame:
        """Return a published model's rows as a Spark DataFrame."""
        return self.spark.table(self.resolve_table(name))

    def fetchdf(self, query: str) -> pd.DataFrame:
        """Run a query over models and tables; return its rows as a pandas DataFrame.

        Raises:
            UsageError: Spark does not understand the query.
            ExecutionError: The query failed while it ran.
        """
        import pandas as pd

        names, rows = self._rows(query)
        return pd.DataFrame(rows, columns=names)

    def fetchall(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query over models and tables; return its rows as tuples."""
        return self._rows(query)[1]

    def fetchone(self, query: str) -> tuple[Any, ...] | None:
        """Run a query over models and tables; return its first row, or None."""
        return next(iter(self._rows(query, 1)[1]), None)

    def _shown(self) -> str | None:
        exists = self.warehouse.store.environments.exists
        return next((name for name in (self.environment, PRODUCTION) if exists(name)), None)

    def _rows(self, query: str, limit: int | None = None) -> tuple[list[str], list[Any]]:
        shown = self._shown()
        if shown is None:  # Nothing is published yet, so that all names are those of tables.
            columns, rows = self.warehouse.engine().query(query, limit)
        else:
            # The project's own code may read what it likes.
            found = query_environment(self.warehouse, shown, query, limit, raw=True)
            columns, rows = found.columns, found.rows
        return [name for name, _ in columns], list(rows)
