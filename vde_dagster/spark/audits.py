"""Running audits: how many rows fail, and a few of them, in one Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
