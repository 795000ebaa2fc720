"""Rows that a fill computes once and reads several times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


_MOST_ROWS = 2_000
"""Maximum number of rows that become part of the queries that read them."""
_EXACT_IN_ARROW = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "float", "double"),
    *("string", "binary", "date", "timestamp", "timestamp_ntz"),
)


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Rows that were computed once, so that each read returns the same rows.

    Args:
        frame: The rows, without the query that computed them.
        count: The number of rows, or None for many rows.
    """

    frame: DataFrame
    count: int | None

    @property
    def is_empty(self) -> bool:
        return self.frame.isEmpty() if self.count is None else self.count == 0

    @property
    def is_known_empty(self) -> bool:
        """Whether the number of rows is known to be 0."""
        return self.count == 0

    def select(self, *columns: str) -> ComputedRows:
        return ComputedRows(self.frame.selectExpr(*columns), self.count)

    def where(self, condition: str) -> ComputedRows:
        rows = self.frame.where(condition)
        # Spark filters a local relation without a job.
        count = None if self.count is None else len(rows.select().collect())
        return ComputedRows(rows, count)


@contextmanager
def compute_once(frame: DataFrame) -> Iterator[ComputedRows]:
    """Compute the rows of a frame once, and yield rows that Spark does not compute again."""
    # Unlike `persist`, a checkpoint lets Spark join the many small partitions of a shuffle, each of
    # which would become a task of every read, and a file of the table.
    computed = frame.localCheckpoint()
    few = _collect_few(computed)
    # Few rows are a local relation: Spark reads it without a job and joins it without a shuffle.
    yield few if few is not None else ComputedRows(computed, None)


def _collect_few(frame: DataFrame) -> ComputedRows | None:
    """Return the rows as a local relation, or None if they are many or of nested types."""
    if not all(_is_exact_in_arrow(field.dataType) for field in frame.schema.fields):
        return None
    rows = frame.limit(_MOST_ROWS + 1).toArrow()
    if rows.num_rows > _MOST_ROWS:
        return None
    return ComputedRows(frame.sparkSession.createDataFrame(rows, frame.schema), rows.num_rows)


def _is_exact_in_arrow(data_type: DataType) -> bool:
    """Return whether a type's values are the same after a conversion to Arrow and back."""
    return data_type.simpleString().partition("(")[0] in _EXACT_IN_ARROW
