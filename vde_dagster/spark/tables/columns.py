"""Columns for Spark: types as SQL text, casts to a table's types, and physical names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.errors import ExecutionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from vde_dagster.planning.engine_tasks import FillTask
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.nested_fields import Fields, ShownFields


def spark_type(data_type: DataType) -> str:
    """Write a data type as Spark SQL, in lower case, with names of fields quoted as needed."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(data_type, ArrayType):
        return f"array<{spark_type(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{spark_type(data_type.keyType)},{spark_type(data_type.valueType)}>"
    if isinstance(data_type, StructType):
        # `DataType.simpleString` does not quote names, so Spark could not read back a field `a b`.
        names = (f.name if f.name.isidentifier() else quote(f.name) for f in data_type.fields)
        types = (spark_type(field.dataType) for field in data_type.fields)
        return f"struct<{','.join(map(':'.join, zip(names, types, strict=True)))}>"
    return str(data_type.simpleString())


def cast_column(snapshot: Snapshot, column: str, has: str, wanted: str, added: Fields = ()) -> str:
    """Write the cast of a column to its table's type, with fields of structs matched by name.

    Args:
        added: Fields of the table's column that were added in place.

    Raises:
        ExecutionError: A struct of the rows has a field that the table's type lacks.
    """
    from vde_dagster.sql.casts import UnmatchedField, cast_by_name

    fields = used_fields(snapshot, column, wanted, added)
    strict = snapshot.forward is None or snapshot.model.kind.on_additive_change != "ignore"
    try:
        if fields is not None:
            return fields.stored(quote(column), has, strict=strict)
        return cast_by_name(quote(column), has, wanted, strict=strict)
    except UnmatchedField as error:
        cause = (
            f"the query's column '{column}' has the field '{error.field}', which "
            f"the table's type {fields.shown if fields is not None else wanted} lacks"
        )
        raised = ExecutionError(
            f"{snapshot.name}: {cause}",
            hint=f"rename the field to one of {', '.join(error.known)}, leave it out, or add it to "
            "the declared type",
            location=snapshot.model.location,
        )
        raised.cause = cause
        raise raised from error


def used_fields(snapshot: Snapshot, column: str, type_: str, added: Fields) -> ShownFields | None:
    """Return the struct fields of a table's column that a model uses, or None for all fields.

    Args:
        type_: Spark SQL type of the table's column.
        added: Fields of the table's column that were added in place.
    """
    from vde_dagster.planning.tables.nested_fields import select_fields

    shown = snapshot.forward.column_fields(column) if snapshot.forward is not None else ()
    return select_fields(type_, added, shown) if added or shown else None


def is_storable(data_type: str) -> bool:
    """Return whether a table can store a type. It cannot store an interval or an untyped NULL."""
    return "void" not in data_type.lower() and not data_type.lower().startswith("interval")


_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[A-Za-z_]\w*|.", re.DOTALL)


def rename_columns(expression: str, physical: Mapping[str, str]) -> str:
    """Replace output columns in a short SQL expression such as `days(ts)`.

    `physical` has the physical names by column name in lower case.
    """
    tokens = _TOKEN.findall(expression)
    out: list[str] = []
    for position, token in enumerate(tokens):
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if name.lower() not in physical or not (token.startswith("`") or token[0].isidentifier()):
            out.append(token)
            continue
        before = "".join(tokens[:position]).rstrip()
        after = "".join(tokens[position + 1 :]).lstrip()
        if before.endswith(".") or (after.startswith("(") and not token.startswith("`")):
            out.append(token)
        else:
            out.append(quote(physical[name.lower()]))
    return "".join(out)


def cast_to_table(
    frame: DataFrame, task: FillTask, types: Mapping[str, str], kept: Sequence[str] = ()
) -> DataFrame:
    """Select a query's columns by name, cast to the types of a task's physical table.

    Args:
        types: Spark SQL type by physical column. A column that the query lacks becomes NULL.
        kept: Further columns of the frame to return.
    """
    computed = {column.name for column in task.snapshot.computed_columns}
    output_of = {physical: output for output, physical in task.columns if output in computed}
    added = {column.name: column.fields for column in task.table.columns}
    given = {field.name.lower(): spark_type(field.dataType) for field in frame.schema.fields}

    def value(physical: str, type_: str) -> str:
        if physical not in output_of:
            return f"CAST(NULL AS {type_})"
        output = output_of[physical]
        # Spark names the columns that it has instead of one that the rows lack.
        has = given.get(output.lower(), type_)
        return cast_column(task.snapshot, output, has, type_, added.get(physical, ()))

    return frame.selectExpr(
        *(f"{value(physical, type_)} AS {quote(physical)}" for physical, type_ in types.items()),
        *map(quote, kept),
    )
