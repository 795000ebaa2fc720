"""Incremental kinds: fills overwrite intervals or partitions, or append rows."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import quote
from vde_dagster.lakehouse.metadata.commit_summaries import FILL_KEY
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import TimeColumn
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import (
    IncrementalByPartition,
    IncrementalByTimeRange,
    IncrementalUnmanaged,
)
from vde_dagster.spark.session.failures import java_causes
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, strategy_for

_PARTIAL = "Cannot delete file where some, but not all, rows match filter"


@strategy_for(IncrementalByTimeRange)
class TimeRange(Strategy):
    """Overwrites the rows of an interval, by a filter on the time column."""

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        kind = IncrementalByTimeRange.from_model(snapshot.model)
        type_ = next((t for n, t in types.items() if n.lower() == kind.time_column.lower()), "")
        unit = snapshot.cadence.unit
        return Layout((_partition_transform(quote(kind.time_column), type_.lower(), unit),))

    def digest_condition(self, write: Write, interval: Interval) -> str | None:
        return _time_column(write).condition(interval)

    def write(self, write: Write) -> None:
        rows = _time_column(write).condition(write.task.interval)
        frame = write.frame.where(rows)
        try:
            write.overwrite(frame, write.task.branch, rows)
        except Exception as error:
            # Iceberg refuses to overwrite a file if only some of its rows match the filter. The
            # default layout, one partition per interval, avoids such files.
            if not any(_PARTIAL in message for _, message in java_causes(error)):
                raise

            def put_together(staging: str) -> None:
                write.session.sql(f"DELETE FROM {write.target(staging)} WHERE {rows}")
                write.writer(frame, staging).append()

            write.staged(put_together, "replaced")


def _time_column(write: Write) -> TimeColumn:
    model = write.task.snapshot.model
    kind = IncrementalByTimeRange.from_model(model)
    name = write.physical_name(kind.time_column)
    return TimeColumn(name, write.types[name], kind.time_format, model.allow_partials)


def _partition_transform(column: str, type_: str, unit: IntervalUnit) -> str:
    if type_.startswith("timestamp"):
        by = {IntervalUnit.DAY: "days", IntervalUnit.MONTH: "months", IntervalUnit.YEAR: "years"}
        return f"{by.get(unit, 'hours')}({column})"
    if type_ == "date" and unit in (IntervalUnit.MONTH, IntervalUnit.YEAR):
        return f"{'months' if unit is IntervalUnit.MONTH else 'years'}({column})"
    return column


@strategy_for(IncrementalByPartition)
class Partitions(Strategy):
    """Replaces each partition that has new rows, all in one commit."""

    def digests_table(self, write: Write) -> bool:
        return True

    def write(self, write: Write) -> None:
        if write.task.anew:
            # The table may have partitions for which no source has rows now.
            write.overwrite(write.frame, write.task.branch)
            return
        write.writer(write.frame, write.task.branch).overwritePartitions()
        write.table.refresh()
        mark = {FILL_KEY: write.summary[FILL_KEY]}
        # Without rows, Spark made no commit: an empty one marks the fill.
        if write.table.find_commit(write.task.branch, mark) is None:
            write.writer(write.frame.limit(0), write.task.branch).append()


@strategy_for(IncrementalUnmanaged)
class Unmanaged(Partitions):
    """Appends the rows, or replaces partitions if the model sets `insert_overwrite`."""

    def digests_table(self, write: Write) -> bool:
        kind = IncrementalUnmanaged.from_model(write.task.snapshot.model)
        return kind.insert_overwrite

    def write(self, write: Write) -> None:
        kind = IncrementalUnmanaged.from_model(write.task.snapshot.model)
        if kind.insert_overwrite or write.task.anew:
            super().write(write)
        else:
            # No interval is added twice, even after a crash: each commit names its interval, so the
            # next process finds the interval's branch, and reuses or drops it.
            write.writer(write.frame, write.task.branch).append()
