"""Digests of the rows that a fill wrote, taken while writing or by reading them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.lakehouse.metadata.fill_summaries import PLAN_KEY
from vde_dagster.lakehouse.publishing.table_history import is_quiet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.table_contents import Output
from vde_dagster.spark.strategies import Strategy, Write
from vde_dagster.spark.tables.digests import Digester
from vde_dagster.spark.tables.iceberg import Commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MOST_BYTES = 16 * 2**20
"""The largest table, in bytes of its files, that is read whole after a fill of a part of it."""


def digester_of(strategy: Strategy, write: Write) -> Digester | None:
    """Return the digester for a task; None for kinds that have none."""
    task = write.task
    try:
        tiles = tuple(
            (interval, strategy.digest_condition(write, interval))
            for interval in task.digest_ranges or (task.interval,)
        )
    except NotImplementedError:
        return None
    whole = meaning_of(task.snapshot.model.kind).replaces_all
    return Digester(task.digest_sets, tiles, whole)


def output_of(strategy: Strategy, write: Write, commit: Commit) -> Output | None:
    """Return the digests of a fill; None where they are not asked for or not known."""
    task, digester = write.task, write.digester
    if digester is not None:
        return digester.seen(commit.added_records) or _read_again(write, commit, digester)
    wanted = task.digest_sets and task.completes and not task.after
    return _of_table(write, commit) if wanted and strategy.digests_table(write) else None


def _read_again(write: Write, commit: Commit, digester: Digester) -> Output | None:
    """Read the rows of a fill again, where the write looked at them twice."""
    rows = write.committed(commit)
    conditions = [f"({text})" for _, text in digester.tiles if text is not None]
    if conditions:
        rows = rows.where(" OR ".join(conditions))
    return digester.read(rows.select(*map(quote, write.types)), commit.added_records)


def _of_table(write: Write, commit: Commit) -> Output | None:
    """Read all rows of a table of which a plan changed some, where they are few."""
    summary = write.table.summary(commit.snapshot_id)
    size = summary.get("total-files-size")
    if size is None or int(size) > MOST_BYTES:
        return None
    if is_quiet(summary) and not _continues(write, commit):
        return None  # What stood before the plan is still true.
    digester = Digester(write.task.digest_sets, ((write.task.interval, None),), whole=True)
    return digester.read(write.committed(commit), None)


def _continues(write: Write, commit: Commit) -> bool:
    """Say whether the commit before a commit is the same plan's."""
    before = write.table.parent(commit.snapshot_id)
    if before is None:
        return False
    return write.table.summary(before).get(PLAN_KEY) == write.task.plan_id


SAMPLE_ROWS = 20
_ROW_IN_PARTITION = (1 << 33) - 1


def failing_rows(
    session: SparkSession, query: str
) -> tuple[int, tuple[dict[str, str | None], ...]]:
    """Count the rows of a query and return up to twenty of them as text.

    One aggregate does both: every partition contributes its count and at most twenty rows, which
    the lower 33 bits of `monotonically_increasing_id` (the row's number in its partition) pick.

    Returns:
        The count, and rows as dictionaries by column.
    """
    frame = session.sql(query)
    columns = frame.columns
    aliases = [f"c{position}" for position in range(len(columns))]
    texts = ", ".join(f"CAST({quote(alias)} AS STRING)" for alias in aliases)
    row = (
        frame.toDF(*aliases)
        .selectExpr(
            f"IF(monotonically_increasing_id() & {_ROW_IN_PARTITION} < {SAMPLE_ROWS}, "
            f"array({texts}), NULL) AS sample"
        )
        .selectExpr("count(1)", f"slice(collect_list(sample), 1, {SAMPLE_ROWS})")
        .collect()[0]
    )
    return int(row[0]), tuple(dict(zip(columns, values, strict=True)) for values in row[1])
