"""Rows that a notebook's step reads through its model's context, and their transport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote, string_literal
from vde_dagster.base.texts import find_column
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from vde_dagster.lakehouse.rows.row_filters import Condition
    from vde_dagster.spark.models.python_models import ModelContext


def read_parent(
    context: ModelContext,
    model: str,
    columns: Sequence[str] = (),
    where: str | None = None,
    order_by: Sequence[str] = (),
    limit: int | None = None,
) -> pa.Table:
    """Read rows of one of the notebook's input models, with the arguments of `Queries.read`.

    Raises:
        UsageError: The model is not an input, a column is missing, or the condition is invalid.
    """
    from pyspark.sql import functions

    from vde_dagster.lakehouse.rows.row_filters import parse_filter

    name = context.names.read(model)
    if name not in context.reads:
        raise UsageError(
            f"{context.model} reads {name}, which is not named in its header or cells",
            hint=f"add {name} to depends_on (…) of the notebook's header",
        )
    frame: DataFrame = context.table(str(name))
    if where is not None:
        floats = dict(_float_types(frame.schema.fields))
        frame = frame.where(functions.expr(spark_condition(parse_filter(where), floats)))
    keys = [key for text in order_by for key in _sort_keys(frame, name, text)]
    shown = [find_column(name, column, frame.columns) for column in columns] or frame.columns
    if keys:
        frame = frame.orderBy(*keys)
    if limit is not None:
        frame = frame.limit(limit)
    return frame.select(*map(quote, shown)).toArrow()


def query_parents(context: ModelContext, sql: str, limit: int | None = None) -> pa.Table:
    """Run a query over the models that a notebook reads.

    Raises:
        UsageError: The query is invalid, or names a table other than these models.
    """
    from vde_dagster.execution.query.query_rules import check_query

    check_query(sql, context.reads, context.names)
    frame = context.sql(sql.strip().rstrip(";"))
    return (frame if limit is None else frame.limit(limit)).toArrow()


def _sort_keys(frame: DataFrame, model: ModelName, text: str) -> list[Column]:
    from pyspark.sql import functions

    name = find_column(model, text.removeprefix("-"), frame.columns)
    column = functions.col(quote(name))
    by_value = column.desc_nulls_last() if text.startswith("-") else column.asc_nulls_last()
    if dict(frame.dtypes)[name] not in ("float", "double"):
        return [by_value]
    rank = functions.when(column.isNull(), 2).when(functions.isnan(column), 1).otherwise(0)
    return [rank.asc(), by_value]


def spark_condition(condition: Condition, floats: Mapping[tuple[str, ...], str]) -> str:
    """Write a condition of `parse_filter` as Spark SQL: `day >= '2026-01-01'`.

    Args:
        floats: Type (`float` or `double`) of each floating-point column or nested field, by its
            path in lower case.
    """
    from vde_dagster.lakehouse.rows.row_filters import Always, Among, Both, Comparison, Like, Not

    if isinstance(condition, Always):
        return "TRUE" if condition.value else "FALSE"
    if isinstance(condition, Both):
        joint = " OR " if condition.either else " AND "
        return joint.join(f"({spark_condition(part, floats)})" for part in condition.parts)
    if isinstance(condition, Not):
        return f"NOT ({spark_condition(condition.part, floats)})"
    column = quote(*condition.column)
    type_ = floats.get(tuple(name.lower() for name in condition.column))
    if isinstance(condition, Comparison):
        return f"{column} {condition.sign} {_literal(condition.value, type_)}"
    if isinstance(condition, Among):
        values = (_literal(value, type_) for value in condition.values)
        return f"{column} IN ({', '.join(values)})"
    if isinstance(condition, Like):
        return f"{column} LIKE {string_literal(condition.pattern)}"
    return f"isnan({column})" if condition.nan else f"{column} IS NULL"


def _float_types(
    fields: Sequence[StructField], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in fields:
        own, type_ = (*path, field.name.lower()), field.dataType
        yield from _float_types(getattr(type_, "fields", ()), own)
        if type_.simpleString() in ("float", "double"):
            yield own, type_.simpleString()


def _literal(value: Any, type_: str | None) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if type_ is not None:
        # A FLOAT differs from most decimals; it is compared with the nearest FLOAT.
        return f"CAST({string_literal(str(value))} AS {type_})"
    return string_literal(value) if isinstance(value, str) else f"{value:f}"


def encode_rows(rows: pa.Table) -> memoryview:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue())


def decode_rows(content: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()
