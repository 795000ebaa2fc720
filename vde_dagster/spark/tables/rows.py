"""Columns and rows of a query as Python values, and counts and samples of rows that audits select.

Every TIMESTAMP becomes an instant in UTC.

Rows with a TIMESTAMP are read as Arrow, because `DataFrame.collect` goes through local time, which
fails for the first and last day that a datetime can represent. Intervals of years and months, which
`collect` does not support, are read as Spark's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import quote
from vde_dagster.errors import UsageError
from vde_dagster.spark.session.connect import query_frame
from vde_dagster.spark.session.failures import as_subquery
from vde_dagster.spark.tables.columns import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

Columns = tuple[tuple[str, str], ...]
Rows = tuple[tuple[Any, ...], ...]
_TEXTS = ("YearMonthIntervalType", "CalendarIntervalType")


def frame_columns(frame: DataFrame) -> Columns:
    return tuple((field.name, spark_type(field.dataType)) for field in frame.schema.fields)


def collect_result(frame: DataFrame) -> tuple[Columns, Rows]:
    return frame_columns(frame), collect_rows(frame)


def collect_rows(frame: DataFrame) -> Rows:
    """Run a query, and return its rows with structs and maps as dictionaries.

    A map whose keys are nested values becomes a list of pairs.

    Raises:
        UsageError: A DATE or TIMESTAMP is outside of the years 1 to 9999.
    """
    types = [field.dataType for field in frame.schema.fields]
    texts = [_contains(data_type, *_TEXTS) for data_type in types]
    if any(texts):
        aliases = [f"c{position}" for position in range(len(types))]
        frame = frame.toDF(*aliases).selectExpr(
            *(
                f"CAST({quote(alias)} AS STRING) AS {quote(alias)}" if is_text else quote(alias)
                for alias, is_text in zip(aliases, texts, strict=True)
            )
        )
        types = [field.dataType for field in frame.schema.fields]
    instants = any(_contains(data_type, "TimestampType") for data_type in types)
    variants = any(_contains(data_type, "VariantType") for data_type in types)
    try:
        rows = _arrow_rows(frame) if instants and not variants else frame.collect()
        return tuple(
            tuple(_python_value(value, kind) for value, kind in zip(row, types, strict=True))
            for row in rows
        )
    except (OverflowError, ValueError) as error:
        if "out of range" not in str(error):
            raise
        raise UsageError(
            f"a date or timestamp in the rows cannot be represented: {error}",
            hint="only years 1 to 9999 are supported; write CAST(… AS STRING) for other years",
        ) from error


def _arrow_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    table = frame.toDF(*(f"c{position}" for position in range(len(frame.columns)))).toArrow()
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def _contains(data_type: DataType, *names: str) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, ArrayType):
        return _contains(data_type.elementType, *names)
    if isinstance(data_type, MapType):
        nested = (data_type.keyType, data_type.valueType)
        return any(_contains(inner, *names) for inner in nested)
    if isinstance(data_type, StructType):
        return any(_contains(field.dataType, *names) for field in data_type.fields)
    return data_type.__class__.__name__ in names


def _python_value(value: Any, data_type: DataType) -> Any:
    """Convert a value from `collect`, or from Arrow with maps as lists of pairs."""
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType

    if value is None:
        return None
    if isinstance(data_type, TimestampType):
        return value.astimezone(timezone.utc)
    if isinstance(data_type, ArrayType):
        return [_python_value(item, data_type.elementType) for item in value]
    if isinstance(data_type, MapType):
        pairs = [
            (_python_value(key, data_type.keyType), _python_value(item, data_type.valueType))
            for key, item in (value.items() if isinstance(value, dict) else value)
        ]
        nested = isinstance(data_type.keyType, ArrayType | MapType | StructType)
        return [list(pair) for pair in pairs] if nested else dict(pairs)
    if isinstance(data_type, StructType):
        items = value.values() if isinstance(value, dict) else value
        return {
            field.name: _python_value(item, field.dataType)
            for field, item in zip(data_type.fields, items, strict=True)
        }
    return value


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
