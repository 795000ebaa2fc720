"""Translation to Spark SQL of the queries that Python models run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError

if TYPE_CHECKING:
    from sqlglot import exp

GetColumnTypes = Callable[[str], Mapping[str, str] | None]
"""Maps a table's dotted name to its columns' Spark SQL types; to None if no such table exists."""


def translate_query(
    query: str | exp.Expr,
    model: ModelName,
    dialect: str,
    trusted: frozenset[str],
    get_column_types: GetColumnTypes,
) -> str:
    """Translate a query of a Python model to Spark SQL.

    Args:
        query: A text of the dialect, or a tree, which has no dialect.
        trusted: Functions and operators that are assumed to return the same values on Spark.

    Raises:
        ExecutionError: The query cannot be parsed, or may have other values on Spark.
    """
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.other_dialects import SPARKS, Unwritable
    from vde_dagster.sql.other_dialects.translate import write_spark_sql
    from vde_dagster.sql.reading import parse_plain

    try:
        tree = query if isinstance(query, exp.Expr) else parse_plain(query, dialect)
    except SqlglotError as error:
        message = str(error).splitlines()[0]
        raise ExecutionError(f"{model}: the query cannot be parsed: {message}") from None
    written_in = dialect if isinstance(query, str) else ""
    hint = "write it in Spark SQL and run it with context.spark.sql(…)"
    try:
        text = write_spark_sql(tree.copy(), written_in, trusted)
    except Unwritable as wrong:
        trust = f"; or trust it: dialect_trust=[{wrong.function!r}]" if wrong.function else ""
        raise ExecutionError(
            f"{model}: a query cannot be written in Spark SQL: {wrong}", hint=hint + trust
        ) from None
    if written_in not in SPARKS:
        _check_operators(text, model, written_in, trusted, get_column_types)
    return text


def _check_operators(
    text: str,
    model: ModelName,
    dialect: str,
    trusted: frozenset[str],
    get_column_types: GetColumnTypes,
) -> None:
    from vde_dagster.semantics.checks.operands import Origin
    from vde_dagster.semantics.translated import find_operators
    from vde_dagster.sql.reading import find_tables_read, parse_plain

    origin = Origin(dialect, trusted)
    found = find_operators(text, {}, origin)
    if found:  # Spark is asked for types only where they matter.
        schema = {}
        for table in find_tables_read(parse_plain(text)):
            name = ".".join(part.name.lower() for part in table.parts)
            columns = get_column_types(name)
            if columns is not None:
                schema[name] = columns
        found = find_operators(text, schema, origin)
    if found:
        message = f"{model}: a query may return other values on Spark: {found[0].message}"
        raise ExecutionError(message, hint=found[0].hint)
