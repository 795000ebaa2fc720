"""Rows that a fill computes once and reads several times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST_ROWS = 2_000
"""Maximum number of rows that become part of the queries that read them."""
_TEXTS = ("string", "binary")
_FIXED_SIZE = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "float", "double"),
    *("date", "timestamp", "timestamp_ntz"),
)
_EXACT_IN_ARROW = (*_FIXED_SIZE, *_TEXTS)
"""Types whose values are the same after a conversion to Arrow and back."""
_ROW_BYTES = 16
_COLUMN_BYTES = 16
"""Size of a value in a row of Spark, without the bytes of texts."""


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """Rows that were computed once, the same for each read; `count` is None if unknown."""

    frame: DataFrame
    count: int | None

    @property
    def is_empty(self) -> bool:
        return self.frame.isEmpty() if self.count is None else self.count == 0

    def select(self, *columns: str) -> ComputedRows:
        return ComputedRows(self.frame.selectExpr(*columns), self.count)

    def where(self, condition: str) -> ComputedRows:
        rows = self.frame.where(condition)
        # Spark filters a local relation without a job.
        count = None if self.count is None else len(rows.select().collect())
        return ComputedRows(rows, count)


def compute_once(frame: DataFrame) -> ComputedRows:
    """Compute the rows of a frame once, and return rows that Spark does not compute again."""
    # Unlike `persist`, a checkpoint lets Spark join the many small partitions of a shuffle, each of
    # which would become a task of every read, and a file of the table.
    computed = frame.localCheckpoint()
    few = _collect_few(computed)
    # Few rows are a local relation: Spark reads it without a job and joins it without a shuffle.
    return few if few is not None else ComputedRows(computed, None)


def _collect_few(frame: DataFrame) -> ComputedRows | None:
    """Return the rows as a local relation, or None if they are many or of nested types."""
    types = [field.dataType.simpleString().partition("(")[0] for field in frame.schema.fields]
    if not all(type_ in _EXACT_IN_ARROW for type_ in types):
        return None
    rows = frame.limit(_MOST_ROWS + 1).toArrow()
    if rows.num_rows > _MOST_ROWS:
        return None
    return ComputedRows(frame.sparkSession.createDataFrame(rows, frame.schema), rows.num_rows)


def write_size(types: Mapping[str, str]) -> str:
    """Write the aggregate that estimates the size of rows in bytes; NULL if it is unknown."""
    size = f"count(1) * {_ROW_BYTES + _COLUMN_BYTES * len(types)}"
    for name, type_ in types.items():
        kind = type_.partition("(")[0]
        if kind in _TEXTS:
            size += f" + coalesce(sum(octet_length({quote(name)})), 0)"
        elif kind not in _FIXED_SIZE:
            return "CAST(NULL AS BIGINT)"
    return size
