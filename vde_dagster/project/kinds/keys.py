"""Keys of rows: columns, and expressions over columns."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from vde_dagster.base.names import quote
from vde_dagster.sql.expressions import in_spark, read_expression

if TYPE_CHECKING:
    from vde_dagster.project.reading.header import Value

_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED = re.compile(r"`(?:[^`]|``)+`")


def key_parts(value: Value) -> tuple[str, ...]:
    """Read the parts of a key as Spark SQL: names of columns, and expressions over columns.

    Raises:
        ProjectError: A part cannot be read, or names no column.
    """
    parts = []
    for item in value.items():
        text = item.raw
        try:
            if len(item.tokens) == 1 and text[:1] in "'\"":
                # SQLMesh's Python models and headers quote columns so.
                text = column_part(item.text())
            elif part_column(text) is None:
                text = in_spark(text, item.dialect)
            named = columns_of(text)
        except ValueError as error:
            raise item.error(
                f"'{text}' in '{value.name}' is no column and no expression: {error}",
                "write columns, or Spark SQL expressions over them: (id, COALESCE(part, ''))",
            ) from None
        if not named:
            raise item.error(
                f"'{text}' in '{value.name}' names no column", "a key is made of columns of a row"
            )
        parts.append(text)
    if not parts:
        raise value.error(
            f"property '{value.name}' names no column", f"write {value.name} (column, …)"
        )
    return tuple(parts)


def column_part(column: str) -> str:
    """Write a column as a part of a key."""
    return column if _WORD.fullmatch(column) else quote(column)


def part_column(part: str) -> str | None:
    """Return the column that a part of a key is, or None for an expression."""
    if _WORD.fullmatch(part):
        return part
    return part[1:-1].replace("``", "`") if _QUOTED.fullmatch(part) else None


@lru_cache(maxsize=4096)
def columns_of(part: str) -> tuple[str, ...]:
    """Return the columns that a part of a key is made of.

    Raises:
        ValueError: It is not an expression over the columns of one row.
    """
    column = part_column(part)
    if column is not None:
        return (column,)
    mentions = [parts for parts, _ in read_expression(part).mentions]
    if any(len(parts) > 1 for parts in mentions):
        raise ValueError("columns are written without a table")
    return tuple(dict.fromkeys(parts[0] for parts in mentions))


def key_columns_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that a key is made of."""
    found: dict[str, str] = {}
    for part in parts:
        for column in columns_of(part):
            found.setdefault(column.lower(), column)
    return tuple(found.values())
