"""Values of variables as SQL text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sql_literal(value: Any) -> str:
    """Write a variable of the settings in SQL: lists in brackets, tables as maps."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(sql_literal, value))})"
    if isinstance(value, Mapping):
        return f"MAP({', '.join(sql_literal(one) for pair in value.items() for one in pair)})"
    return repr(value)
