"""Rows that a query returned, for JSON and for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vde_dagster.cli.output import simple_table
from vde_dagster.cli.values import json_value, text_value

if TYPE_CHECKING:
    from rich.console import Console


def rows_json(
    columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> dict[str, Any]:
    """Return the documented JSON form of rows.

    Args:
        columns: (name, Spark SQL type), in order.
        rows: The rows.
    """
    return {
        "columns": [{"name": name, "type": kind} for name, kind in columns],
        "rows": [[json_value(value) for value in row] for row in rows],
    }


def show_rows(
    console: Console, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Print rows as a table.

    Args:
        console: Where to.
        columns: (name, Spark SQL type), in order.
        rows: The rows.
    """
    console.print(
        simple_table(
            [name for name, _ in columns], [[text_value(value) for value in row] for row in rows]
        )
    )
