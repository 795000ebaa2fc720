"""INCREMENTAL_BY_TIME_RANGE: filling an interval replaces exactly the interval's rows."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import quote
from vde_dagster.planning.cadence import IntervalUnit
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.spark.failures import java_causes
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, condition, strategy_for
from vde_dagster.spark.strategies.staging import write_staged

_PARTIAL = "Cannot delete file where some, but not all, rows match filter"


@strategy_for(IncrementalByTimeRange)
class TimeRange(Strategy):
    """Overwrites by a filter on the time column; rows outside the interval never get in.

    Iceberg overwrites by filter without reading a file when every file lies inside or outside of
    the filter, which the default layout makes the rule: one partition per interval. It refuses
    files that match in part (say after a year was filled at once into an unpartitioned table);
    then the rows are deleted and added on a branch that nobody sees, which is put in place by a
    fast-forward: one atomic step again.
    """

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Partition by the time column at the unit of the cron."""
        kind = snapshot.model.kind
        assert isinstance(kind, IncrementalByTimeRange)
        type_ = next((t for n, t in types.items() if n.lower() == kind.time_column.lower()), "")
        unit = snapshot.cadence.unit
        return Layout((_partition(quote(kind.time_column), type_.lower(), unit),))

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        """Return the filter that replaces the interval's rows."""
        return _column(write).condition(interval)

    def write(self, write: Write) -> None:
        """Overwrite the interval."""
        column = _column(write)
        rows = condition(column.condition(write.task.interval))
        frame = write.frame.where(rows)
        try:
            write.writer(frame, write.task.branch).overwrite(rows)
        except Exception as error:
            if not any(_PARTIAL in message for _, message in java_causes(error)):
                raise
            _replace_rows(write, column.condition(write.task.interval))


def _column(write: Write) -> TimeColumn:
    model = write.task.snapshot.model
    kind = model.kind
    assert isinstance(kind, IncrementalByTimeRange)
    name = write.physical_name(kind.time_column)
    return TimeColumn(name, write.types[name], kind.time_format, model.allow_partials)


def _partition(column: str, type_: str, unit: IntervalUnit) -> str:
    if type_.startswith("timestamp"):
        by = {IntervalUnit.DAY: "days", IntervalUnit.MONTH: "months", IntervalUnit.YEAR: "years"}
        return f"{by.get(unit, 'hours')}({column})"
    if type_ == "date" and unit in (IntervalUnit.MONTH, IntervalUnit.YEAR):
        return f"{'months' if unit is IntervalUnit.MONTH else 'years'}({column})"
    return column


def _replace_rows(write: Write, rows: str) -> None:
    """Delete and add the interval's rows beside the table, and put the result in its place."""
    frame = write.frame.where(condition(rows))

    def put_together(staging: str) -> None:
        write.session.sql(f"DELETE FROM {write.target(staging)} WHERE {rows}")
        write.writer(frame, staging).append()

    write_staged(write, put_together, "replaced")
