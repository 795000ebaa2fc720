"""Counts and samples of the rows that audits select, each in one Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.spark.session.connect import query_frame
from vde_dagster.spark.session.failures import as_subquery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAMPLE_ROWS = 20
_ROW_IN_PARTITION = (1 << 33) - 1


def count_failing_rows(session: SparkSession, queries: Sequence[str]) -> list[int]:
    counts = (
        f"SELECT {number} AS audit, count(1) AS failed FROM ({as_subquery(query)})"
        for number, query in enumerate(queries)
    )
    rows = query_frame(session, " UNION ALL ".join(counts)).collect()
    found = {int(row[0]): int(row[1]) for row in rows}
    return [found[number] for number in range(len(queries))]


def sample_failing_rows(
    session: SparkSession, query: str
) -> tuple[int, tuple[dict[str, str | None], ...]]:
    frame = query_frame(session, as_subquery(query))
    columns = frame.columns
    aliases = [f"c{position}" for position in range(len(columns))]
    texts = ", ".join(f"CAST({quote(alias)} AS STRING)" for alias in aliases)
    # One aggregate counts and samples: every partition contributes its count and its first rows.
    # The lower 33 bits of `monotonically_increasing_id` are a row's number in its partition.
    row = (
        frame.toDF(*aliases)
        .selectExpr(
            f"IF(monotonically_increasing_id() & {_ROW_IN_PARTITION} < {_SAMPLE_ROWS}, "
            f"array({texts}), NULL) AS sample"
        )
        .selectExpr("count(1)", f"slice(collect_list(sample), 1, {_SAMPLE_ROWS})")
        .collect()[0]
    )
    return int(row[0]), tuple(dict(zip(columns, values, strict=True)) for values in row[1])
