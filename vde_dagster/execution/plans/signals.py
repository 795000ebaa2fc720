"""Signals of models: functions that choose which intervals may be filled, and their `context`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from vde_dagster.base.failures import describe_exception, find_project_line
from vde_dagster.base.names import ModelName
from vde_dagster.base.times import utc
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import Ready
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Signal

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from vde_dagster.execution.handles import Handles


Pair = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Batch(Sequence[Pair]):
    """The intervals in a range (UTC), for a model's signal. Each is created on access."""

    unit: IntervalUnit
    interval: Interval

    def __len__(self) -> int:
        return self.unit.count(self.interval)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self._pair(number) for number in numbers]
        return self._pair(numbers)

    def _pair(self, number: int) -> Pair:
        start = self.unit.shift(self.unit.floor(self.interval.start), number)
        end = min(self.unit.shift(start, 1), self.interval.end)
        return max(start, self.interval.start), end


def signal_caller(
    environment: str, now: datetime, context: Callable[[ModelName], object] = lambda name: None
) -> Ready:
    """Return a function that asks a model's signals which missing intervals may be filled."""

    # Signals are called once, while planning. An apply fills the intervals that were ready then,
    # because these were approved. Intervals that become ready later are left to the next run.
    def ready(snapshot: Snapshot, missing: IntervalSet) -> IntervalSet:
        values = {
            "execution_time": now,
            "environment": environment,
            "model": str(snapshot.name),
            "context": context(snapshot.name),
        }
        for signal in snapshot.model.signals:
            missing = _ready_intervals(signal, snapshot, missing, values)
        return missing

    return ready


def _ready_intervals(
    signal: Signal, snapshot: Snapshot, missing: IntervalSet, values: dict[str, Any]
) -> IntervalSet:
    from vde_dagster.project.python.files import run_source

    out = IntervalSet()
    try:
        function = run_source(signal.python)
        arguments = {**_accepted_values(function, values), **dict(signal.arguments)}
        for interval in missing:
            batch = Batch(snapshot.cadence.unit, interval)
            result = function(batch, **arguments)
            if isinstance(result, bool):
                found = IntervalSet((interval,)) if result else IntervalSet()
            else:
                ranges = IntervalSet.of(Interval(utc(start), utc(end)) for start, end in result)
                batch_range = IntervalSet((interval,))
                found = snapshot.cadence.fully_filled(ranges & batch_range, batch_range)
            out = out | found
    except (Exception, SystemExit) as error:
        path, _, _ = signal.python.entrypoint.rpartition(":")
        raise ProjectError(
            f"{snapshot.name}: signal '{signal.name}' failed: {describe_exception(error)}",
            hint="a signal must return true, false, or a list of the batch's intervals",
            location=find_project_line(error, Path(path)),
        ) from error
    return out


def _accepted_values(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return values
    return {one.name: values[one.name] for one in list(parameters)[1:] if one.name in values}


@dataclass(frozen=True, slots=True)
class SignalContext:
    """The argument `context` of signals, which reads published models."""

    # Spark starts only when a signal reads rows. Models refer to the environment at the time of
    # planning, or to production if the environment does not exist yet.
    handles: Handles
    environment: str
    execution_time: datetime
    model: ModelName

    @property
    def engine_adapter(self) -> SignalContext:
        """This object: SQLMesh's signals call `context.engine_adapter.fetchdf`."""
        return self

    @property
    def logger(self) -> logging.Logger:
        return logging.getLogger(f"vde.signal.{self.model}")

    @property
    def spark(self) -> SparkSession:
        """Spark session for signals. Models do not see changes of this session."""
        return self.handles.engine().guest_session

    def var(self, name: str, default: Any = None) -> Any:
        """Return a variable of `[tool.vde.variables]`, or the default."""
        known = {key.lower(): value for key, value in self.handles.settings.variables.items()}
        return known.get(name.lower(), default)

    def resolve_table(self, name: str) -> str:
        """Return a published model's quoted view or table name, or raise UsageError."""
        settings = self.handles.settings
        model = ModelName.parse(name, settings.default_namespace)
        shown = self._published_environment()
        current = self.handles.store.environments.get(shown) if shown else None
        if current is None or model not in current.entries:
            raise UsageError(
                f"{model} is not published in environment '{self.environment}'",
                hint="publish it first: a signal reads tables published before the plan is created",
            )
        return current.views.quoted(model, settings.catalog)

    def table(self, name: str) -> DataFrame:
        """Return a published model's rows as a Spark DataFrame."""
        return self.spark.table(self.resolve_table(name))

    def fetchdf(self, query: str) -> pd.DataFrame:
        """Run a query over models and tables, and return its rows as a pandas DataFrame.

        Raises:
            UsageError: Spark cannot parse or resolve the query.
            ExecutionError: The query failed while it ran.
        """
        import pandas as pd

        names, rows = self._run_query(query)
        return pd.DataFrame(rows, columns=names)

    def fetchall(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query over models and tables, and return its rows as tuples."""
        return self._run_query(query)[1]

    def fetchone(self, query: str) -> tuple[Any, ...] | None:
        """Run a query over models and tables, and return its first row, or None."""
        return next(iter(self._run_query(query, 1)[1]), None)

    def _published_environment(self) -> str | None:
        exists = self.handles.store.environments.exists
        return next((name for name in (self.environment, PRODUCTION) if exists(name)), None)

    def _run_query(self, query: str, limit: int | None = None) -> tuple[list[str], list[Any]]:
        shown = self._published_environment()
        if shown is None:  # Nothing is published yet, so all names refer to tables.
            columns, rows = self.handles.engine().query(query, limit)
        else:
            # The project's code may read anything.
            from vde_dagster.execution.query.query import Queries

            found = Queries(self.handles).run(shown, query, limit, raw=True)
            columns, rows = found.columns, found.rows
        return [name for name, _ in columns], list(rows)
