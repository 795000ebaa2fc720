"""Replacement of some rows of a table, in the way that costs writers and readers least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote, string_literal
from vde_dagster.spark.session.failures import has_java_cause
from vde_dagster.spark.strategies.base import Rewrite, Write, conflict_error, table_digester
from vde_dagster.spark.tables.digests import Digester
from vde_dagster.spark.tables.iceberg import CONFLICTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODE = "write.delete.mode"
COPY_ON_WRITE = "copy-on-write"
MERGE_ON_READ = "merge-on-read"
_NEW = "vde_new"
_SMALL_BYTES = 4 * 2**20
"""Size up to which rewriting a table or a file costs less than the fixed costs of a write."""
_MOST_DELETED = 0.1
"""Share of deleted rows above which the files are rewritten; the janitor has the same limit."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """Rows to delete, with the rows and bytes of all files that contain them."""

    rows: int
    touched_rows: int
    touched_bytes: int

    @property
    def mode(self) -> str:
        """Iceberg's delete mode with the lower cost of deletion and of reads until compaction."""
        if self.touched_bytes <= _SMALL_BYTES:
            return COPY_ON_WRITE
        return MERGE_ON_READ if self.rows <= _MOST_DELETED * self.touched_rows else COPY_ON_WRITE


def replace_rows(
    write: Write,
    condition: str,
    rows: DataFrame,
    *,
    head: int | None = None,
    deletion: Deletion | None = None,
) -> None:
    """Delete the rows that meet a condition, and add rows, in one visible change.

    In the condition, the table has the name `target`.

    Args:
        head: The branch's head that the rows were derived from, or None to allow any head.
        deletion: The rows to delete, if they were measured at `head`.

    Raises:
        ConflictError: The branch has another head now.
    """
    small = _is_small(write, write.task.branch)
    if small and _is_mode_free(write) and _rewrite(write, condition, rows):
        return

    def put_together(staging: str) -> None:
        if head is not None and write.table.head(staging) != head:
            raise conflict_error(write.task, "changed", attempts=1)
        _delete(write, staging, condition, deletion)
        write.writer(rows, staging).append()

    write.staged(put_together, "changed")


def _rewrite(write: Write, condition: str, rows: DataFrame) -> bool:
    """Overwrite the table: keep rows that do not meet the condition, and add the new rows.

    Return False after a conflict, or for a branch without a commit.
    """
    from pyspark.sql import functions

    head = write.table.head(write.task.branch)
    if head is None:
        return False
    names = ", ".join(map(quote, write.frame_types))
    kept = write.session.sql(
        f"SELECT {names}, false AS {_NEW} FROM {write.target(write.task.branch)} AS target "
        f"WHERE ({condition}) IS NOT TRUE"
    )
    counter = Digester((), ((write.task.interval, _NEW),), whole=False)
    both = counter.watch(kept.unionByName(rows.withColumn(_NEW, functions.lit(True))))
    digester = table_digester(write.task) if write.task.digest_sets else None
    writer = write.writer(both.drop(_NEW), write.task.branch, digester)
    # Iceberg refuses the commit if the table has changed since its rows were read.
    writer = writer.option("isolation-level", "serializable")
    try:
        writer.option("validate-from-snapshot-id", str(head)).overwrite(functions.lit(True))
    except Exception as error:
        if not has_java_cause(error, *CONFLICTS):
            raise
        return False
    counted = counter.result(None)
    write.rewrites.append(Rewrite(counted.tiles[0].rows if counted else None, digester))
    return True


def measures_deletions(write: Write) -> bool:
    """Return whether `replace_rows` measures the rows to delete, in order to choose a mode."""
    return _is_mode_free(write) and not _is_small(write, write.task.branch)


def select_with_files(
    write: Write, branch: str | None, condition: str, names: Sequence[str] = ()
) -> str:
    """Write a query of the rows that meet a condition, with each row's file as `vde_file`."""
    listed = "".join(f"{quote(name)}, " for name in names)
    rows = f"(SELECT *, _file AS vde_file FROM {write.target(branch)}) AS target"
    return f"SELECT {listed}vde_file FROM {rows} WHERE {condition}"


def measure_deletion(write: Write, branch: str | None, files: str) -> Deletion:
    """Measure a deletion; the query `files` has a row with `vde_file` for each row to delete."""
    totals = _totals(write, branch)
    (found,) = write.session.sql(
        f"SELECT count(1), sum(n) FROM (SELECT count(1) AS n FROM ({files}) GROUP BY vde_file)"
    ).collect()
    touched = int(found[0]) / max(totals.files, 1)
    deleted = int(found[1] or 0)
    return Deletion(deleted, round(totals.rows * touched), round(totals.size * touched))


def _delete(write: Write, branch: str, condition: str, deletion: Deletion | None) -> None:
    # The mode is chosen for each deletion, unless the model has it among its properties.
    if _is_mode_free(write):
        # A small table is not measured.
        if deletion is None and not _is_small(write, branch):
            files = select_with_files(write, branch, condition)
            deletion = measure_deletion(write, branch, files)
        if deletion is not None and not deletion.rows:
            return
        mode = deletion.mode if deletion is not None else COPY_ON_WRITE
        # Iceberg reads the mode from the table's properties. It stays there until a deletion needs
        # the other one.
        if write.table.properties.get(MODE, COPY_ON_WRITE) != mode:
            pair = f"{string_literal(MODE)} = {string_literal(mode)}"
            write.session.sql(f"ALTER TABLE {write.target(None)} SET TBLPROPERTIES ({pair})")
    write.session.sql(f"DELETE FROM {write.target(branch)} AS target WHERE {condition}")


def _is_mode_free(write: Write) -> bool:
    return MODE not in dict(write.task.snapshot.model.table_properties)


def _is_small(write: Write, branch: str | None) -> bool:
    return _totals(write, branch).size <= _SMALL_BYTES


@dataclass(frozen=True, slots=True)
class _Totals:
    size: int
    files: int
    rows: int


def _totals(write: Write, branch: str | None) -> _Totals:
    head = write.table.head(branch)
    summary = write.table.summary(head) if head is not None else {}
    # A commit of another program may lack these figures: they count as 0.
    size, files, rows = (
        int(summary.get(f"total-{name}") or 0) for name in ("files-size", "data-files", "records")
    )
    return _Totals(size, files, rows)
