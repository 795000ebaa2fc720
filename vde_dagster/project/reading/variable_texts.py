"""Values of variables as SQL text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vde_dagster.sql.scanner import BACKSLASH_DIALECTS


def sql_literal(value: Any, dialect: str = "spark") -> str:
    """Write a variable of the settings in SQL: lists in brackets, tables as maps.

    Args:
        value: What YAML, TOML or Python have.
        dialect: The dialect of the query that it is put into.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        if dialect in BACKSLASH_DIALECTS:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | tuple):
        return f"({', '.join(sql_literal(one, dialect) for one in value)})"
    if isinstance(value, Mapping):
        return _map(value, dialect)
    return repr(value)


def _map(value: Mapping[str, Any], dialect: str) -> str:
    if dialect == "spark":
        return f"MAP({', '.join(sql_literal(one) for pair in value.items() for one in pair)})"
    from sqlglot import exp

    return exp.convert(dict(value)).sql(dialect=dialect)
