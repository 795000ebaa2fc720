"""Tables of a test as queries."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import quote
from vde_dagster.execution.unit_testing.literals import literal
from vde_dagster.project.unit_values import TestTable


def as_query(table: TestTable, types: Mapping[str, str | None]) -> str:
    """Write a test's table as a Spark SQL query that returns its rows.

    Args:
        table: The table.
        types: Spark SQL type by column, of every column that the query is to have; a column that
            the test does not mention is NULL. The test's own declarations win.
    """
    if table.query is not None:
        return table.query
    declared = dict(table.types)
    columns = list(dict.fromkeys([*table.columns, *types]))
    rows = table.rows or ((None,) * len(table.columns),)
    selects = []
    for row in rows:
        values = dict(zip(table.columns, row, strict=True))
        selects.append(
            "SELECT "
            + ", ".join(
                f"{literal(values.get(column), declared.get(column, types.get(column)))}"
                f" AS {quote(column)}"
                for column in columns
            )
        )
    query = " UNION ALL ".join(selects)
    return query if table.rows else f"{query} WHERE FALSE"
