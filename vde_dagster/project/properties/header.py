"""Parser of `MODEL (…)` and `AUDIT (…)` headers in SQLMesh's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

from vde_dagster.project.kinds import column_properties
from vde_dagster.project.property_value import Value, read_properties
from vde_dagster.sql.scanner import SourceText, Token


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header: `MODEL (…)` or `AUDIT (…)`.

    Args:
        word: `MODEL` or `AUDIT`.
        properties: Values by lower-case property name.
        comment: Text of comments directly before the header.
    """

    word: str
    properties: dict[str, Value]
    source: SourceText
    start: int
    comment: str | None = None


def parse_header(source: SourceText, tokens: list[Token]) -> Header:
    """Parse the tokens of `MODEL (…)` or `AUDIT (…)`, without comments and the semicolon."""
    word = tokens[0]
    if len(tokens) < 2 or tokens[1].text != "(":
        raise source.error(
            f"'(' is missing after {word.text}", word.start, f"write {word.text.upper()} (name …);"
        )
    closing = source.closing(tokens, 1)
    if closing != len(tokens) - 1:
        extra = tokens[closing + 1]
        raise source.error(
            f"'{extra.text}' is not expected after the header",
            extra.start,
            f"end the {word.text.upper()} (…) header with a semicolon",
        )
    # In models the last value counts, as in SQLMesh, and the plan warns.
    last_counts = word.text.upper() == "MODEL"
    properties = read_properties(source, tokens[2:closing], last_counts=last_counts)
    return Header(word.text.upper(), properties, source, word.start)


_NAMING_COLUMNS = ("partitioned_by", "clustered_by", "grain", "grains")
"""Properties of models that name columns; their values are written without quotes."""


def property_text(key: str, value: Any, dialect: str = "spark", *, macros: bool = False) -> str:
    """Write a value from settings or a decorator in the syntax of a header.

    Args:
        dialect: Dialect for types and columns that are given as expressions.
        macros: Whether to write macros without quotes: `@NAME(…)`, and in a table every text that
            begins with `@`.
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
    if macros and isinstance(value, str) and value.startswith("@") and "(" in value:
        return value
    names_columns = key in _NAMING_COLUMNS or key in column_properties()
    return _in_dialect(value, dialect) if names_columns else header_literal(value)


def kind_text(kind: Any) -> str:
    """Write a kind (a name, or a dictionary) as in a header: `FULL`, `SEED (path 'a.csv')`."""
    kind = getattr(kind, "value", kind)
    if not isinstance(kind, Mapping):
        return str(kind)
    name = getattr(kind["name"], "value", kind["name"])
    given = ((key, value) for key, value in kind.items() if key != "name")
    inner = ", ".join(f"{key} {property_text(key, value)}" for key, value in given)
    return f"{name} ({inner})" if inner else str(name)


def header_literal(value: Any, *, macros: bool = False) -> str:
    """Write a Python value as a literal of a header: `'text'`, `true`, `('a', 'b')`."""
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
    return str(value.sql(dialect=dialect)) if hasattr(value, "sql") else str(value)
