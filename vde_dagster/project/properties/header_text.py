"""Text of headers, written from values of Python: those of settings and of decorators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Any

from vde_dagster.project.kinds import column_properties

_OF_COLUMNS = ("partitioned_by", "clustered_by", "grain", "grains")
"""Properties of models whose values name columns, which are written without quotes."""


def property_text(key: str, value: Any, dialect: str = "spark", *, macros: bool = False) -> str:
    """Write a property's value, as settings and decorators have it, as a header has it.

    Args:
        key: The property's name.
        dialect: The dialect in which types and columns are written that are given as expressions.
        macros: Whether a text in a table that begins with `@` is a macro.
    """
    value = getattr(value, "value", value) if isinstance(value, Enum) else value
    if key == "kind":
        return kind_text(value)
    if key == "audits" and isinstance(value, Sequence) and not isinstance(value, str):
        return f"({', '.join(map(str, value))})"
    if isinstance(value, Mapping):
        if key == "columns":
            types = {name: _in_dialect(type_, dialect) for name, type_ in value.items()}
            return f"({', '.join(f'`{name}` {type_}' for name, type_ in types.items())})"
        if key == "time_column":
            column, form = value.get("column"), value.get("format")
            return f"({column}, {header_literal(form)})" if form else str(column)
        return header_literal(value, macros=macros)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"({', '.join(property_text(key, one, dialect, macros=macros) for one in value)})"
    if isinstance(value, datetime | date):
        return header_literal(value.isoformat())
    names_columns = key in _OF_COLUMNS or key in column_properties()
    return _in_dialect(value, dialect) if names_columns else header_literal(value)


def kind_text(kind: Any) -> str:
    """Write a kind, given by its name or as a table with it, as a header has it."""
    kind = getattr(kind, "value", kind)
    if not isinstance(kind, Mapping):
        return str(kind)
    name = getattr(kind["name"], "value", kind["name"])
    given = ((key, value) for key, value in kind.items() if key != "name")
    inner = ", ".join(f"{key} {property_text(key, value)}" for key, value in given)
    return f"{name} ({inner})" if inner else str(name)


def header_literal(value: Any, *, macros: bool = False) -> str:
    """Write a value of Python as a literal of a header."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, Mapping):
        parts = []
        for key, one in value.items():
            is_macro = macros and isinstance(one, str) and one.startswith("@")
            text = one if is_macro else header_literal(one, macros=macros)
            parts.append(f"{header_literal(str(key))} = {text}")
        return f"({', '.join(parts)})"
    if isinstance(value, Sequence):
        return f"({', '.join(map(header_literal, value))})"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _in_dialect(value: Any, dialect: str) -> str:
    """Write a type or a column, given as a text or as an expression of SQLGlot's."""
    return str(value.sql(dialect=dialect)) if hasattr(value, "sql") else str(value)
