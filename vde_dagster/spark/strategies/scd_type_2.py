"""SCD_TYPE_2_BY_TIME and SCD_TYPE_2_BY_COLUMN: versions end and begin, in one MERGE."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.work import FillTask
from vde_dagster.project.kinds import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, condition, strategy_for
from vde_dagster.spark.strategies.staging import write_staged
from vde_dagster.spark.strategies.versions import Versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"


@strategy_for(ScdType2ByTime, ScdType2ByColumn)
class Scd(Strategy):
    """Compares the query's rows with the latest version of each key, and changes what differs.

    What is to be done is worked out from the table and then merged into it, so the table must be
    the same at both times: the work is done on a branch that nobody else writes, which is put in
    place by a fast-forward, one atomic step. When somebody was faster, it is done anew.

    Rows of one key are told apart and taken like those of INCREMENTAL_BY_UNIQUE_KEY, by the column
    that says when a row was updated first. The table merges on read: a row that does not change
    is neither written nor deleted.
    """

    own_session = True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Merge on read."""
        return Layout(properties={"write.merge.mode": "merge-on-read"})

    def write(self, write: Write) -> None:
        """Bring the table up to date, again when another commit was faster."""
        kind = write.task.snapshot.model.kind
        assert isinstance(kind, ScdType2)
        for name in (*kind.named_columns, *(column.name for column in kind.added_columns)):
            write.physical_name(name)
        versions = Versions(kind, write.types, write.physical, _now(kind, write.task))
        source = f"vde_source_{uuid.uuid4().hex}"
        write.frame.createOrReplaceTempView(source)
        try:
            with write.committing(), _in_utc(write.session):
                rows = f"SELECT * FROM {source}"
                write_staged(write, lambda at: _write(write, versions, rows, at), "merged")
        finally:
            write.session.catalog.dropTempView(source)


def _now(kind: ScdType2, task: FillTask) -> datetime:
    """Return the instant at which what the query says is taken to be so.

    A batch reads what a source says of an interval: it was so from the interval's start. A query
    that is not cut to intervals says what is so when it runs.
    """
    return task.execution_time if kind.batch_size is None else task.interval.start


def _write(write: Write, versions: Versions, source: str, staging: str) -> None:
    if write.task.anew or not write.table.was_filled(staging):
        # The table is loaded for the first time, or again from its beginning.
        rows = write.session.sql(versions.first(source))
        write.writer(rows, staging).overwrite(condition("true"))
    else:
        write.session.sql(versions.merge(write.target(staging), source))


@contextmanager
def _in_utc(session: SparkSession) -> Iterator[None]:
    """Compute instants in UTC; the session is ours alone until the write is done."""
    zone = session.conf.get(_ZONE)
    session.conf.set(_ZONE, "UTC")
    try:
        yield
    finally:
        session.conf.set(_ZONE, str(zone))
