"""Replaces `:name` in a notebook's SQL by the value of a variable, written as a literal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from vde_dagster.base.names import string_literal
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.scanner import SourceText, Token


def insert_values(sql: str, variables: Mapping[str, Any]) -> str:
    r"""Replace each `:name` in a query by the variable's value as a SQL literal.

    Strings and comments stay as they are.

    >>> insert_values("SELECT ':a', x::INT WHERE b = :b AND c IN :c", {"b": "x'", "c": [1]})
    "SELECT ':a', x::INT WHERE b = 'x\\'' AND c IN (1)"

    Raises:
        UsageError: The variable does not exist, or its value has no literal.
    """
    return _replace_parameters(sql, lambda name: _parameter_literal(name, variables))


def blank_parameters(sql: str) -> str:
    """Replace `:name` in a query with `(NULL)`, to parse the query without its values.

    >>> blank_parameters("SELECT a FROM t WHERE b IN :names")
    'SELECT a FROM t WHERE b IN (NULL)'
    """
    return _replace_parameters(sql, lambda name: "(NULL)")


def _replace_parameters(sql: str, value: Callable[[str], str]) -> str:
    tokens = [None, *Token.split(SourceText(Path("query"), sql))]
    edits = [
        Edit(colon.start, word.end, _after(sql[: colon.start], value(word.text)))
        for before, colon, word in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if colon is not None
        and word is not None
        and colon.text == ":"
        and word.kind == "word"
        and word.start == colon.end
        and _begins_parameter(before, colon)
    ]
    return apply_edits(sql, edits)


def _after(before: str, literal: str) -> str:
    # Two minus signs would begin a comment.
    return f" {literal}" if before.endswith("-") and literal.startswith("-") else literal


def _begins_parameter(before: Token | None, colon: Token) -> bool:
    if before is None or before.end < colon.start:
        return True
    return before.kind == "punct" and before.text not in (")", "]", "}")


def _parameter_literal(name: str, variables: Mapping[str, Any]) -> str:
    if name not in variables:
        known = [one for one in variables if not one.startswith("_")]
        raise UsageError(
            f"the notebook has no variable for the query's parameter :{name}",
            hint=suggest(name, known, "variables")
            if known
            else f"assign {name} in an earlier cell",
        )
    value = variables[name]
    if isinstance(value, list | tuple | Set):
        if not value:
            raise UsageError(
                f"the parameter :{name} is an empty list, which SQL does not support",
                hint=f"omit the condition if {name} is empty",
            )
        return f"({', '.join(_literal(name, one) for one in value)})"
    return _literal(name, value)


def _literal(name: str, value: Any) -> str:
    if hasattr(value, "item") and hasattr(value, "dtype") and not value.shape:  # NumPy's scalars
        type_ = str(value.dtype)  # Scalars of PyTorch have types without a name.
        if type_ in ("datetime64[ns]", "timedelta64[ns]"):  # Their items are numbers.
            value = value.astype(type_.replace("ns", "us"))
        value = value.item()
    if value is None or (isinstance(value, date) and value != value):  # pandas' NaT
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}BD"
    if isinstance(value, datetime):
        form = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{form}'{value.isoformat(sep=' ', timespec='microseconds')}'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    raise UsageError(
        f"the parameter :{name} is of type {type(value).__name__}, which has no SQL literal",
        hint="use a text, number, boolean, date, datetime, bytes, None, or a list of them",
    )
