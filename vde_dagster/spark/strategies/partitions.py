"""INCREMENTAL_BY_PARTITION and INCREMENTAL_UNMANAGED: Iceberg's dynamic overwrite, or an append."""

from __future__ import annotations

from vde_dagster.lakehouse.fill_summaries import FILL_KEY
from vde_dagster.project.kinds import IncrementalByPartition, IncrementalUnmanaged
from vde_dagster.spark.strategies.base import Strategy, Write, condition, strategy_for


@strategy_for(IncrementalByPartition)
class Partitions(Strategy):
    """Replaces the partitions that the rows are of, all in one commit; others stay."""

    def digests_table(self, write: Write) -> bool:
        """Partitions may be replaced by what they held."""
        return True

    def write(self, write: Write) -> None:
        """Overwrite partitions; without rows there are none, and an empty commit says so."""
        if write.task.anew:
            # What the table holds may have partitions that no source has now.
            write.writer(write.frame, write.task.branch).overwrite(condition("true"))
            return
        write.writer(write.frame, write.task.branch).overwritePartitions()
        write.table.refresh()
        mark = {FILL_KEY: write.summary[FILL_KEY]}
        if write.table.find_commit(write.task.branch, mark) is None:
            write.writer(write.frame.limit(0), write.task.branch).append()


@strategy_for(IncrementalUnmanaged)
class Unmanaged(Partitions):
    """Adds the rows, or replaces partitions where the model says so.

    That no interval is added twice is not decided here: a fill is written to a branch, and its
    commit says which interval it is, so whoever comes after a crash takes it over or drops it.
    """

    def digests_table(self, write: Write) -> bool:
        """Rows that are added change the table."""
        kind = write.task.snapshot.model.kind
        assert isinstance(kind, IncrementalUnmanaged)
        return kind.insert_overwrite

    def write(self, write: Write) -> None:
        """Append or overwrite."""
        kind = write.task.snapshot.model.kind
        assert isinstance(kind, IncrementalUnmanaged)
        if kind.insert_overwrite or write.task.anew:
            super().write(write)
        else:
            write.writer(write.frame, write.task.branch).append()
