"""Conditions on rows as text: a request's, and those of tokens, which no request can widen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

_LONGEST = 2_000
_MOST_BRACKETS = 100


def parse_filter(text: str) -> BooleanExpression:
    """Read a condition: comparisons, IN, BETWEEN, LIKE 'a%', IS NULL, with AND, OR, NOT.

    Source: https://py.iceberg.apache.org/api/#query-the-data, the form of `row_filter`.

    Raises:
        UsageError: It is none, or too long.
    """
    from pyiceberg.expressions import BooleanExpression, parser
    from pyiceberg.expressions.visitors import rewrite_not

    if len(text) > _LONGEST:
        raise UsageError(
            f"a filter of {len(text)} characters is too long", hint=f"use at most {_LONGEST}"
        )
    # Each bracket is read again for everything that may stand before it.
    if text.count("(") > _MOST_BRACKETS:
        raise UsageError(
            f"a filter of {text.count('(')} brackets is too deep",
            hint=f"use at most {_MOST_BRACKETS}",
        )
    try:
        found = parser.parse(text)
    # Whatever its grammar and its literals raise, a text that cannot be read is the caller's.
    except Exception as error:
        raise _unreadable(text, _place(text, error)) from error
    if not isinstance(found, BooleanExpression):
        raise _unreadable(text, "no condition")
    return _as_in_sql(rewrite_not(found))


def _as_in_sql(condition: BooleanExpression) -> BooleanExpression:
    """Return a condition without NOT that no row fulfils by a NULL, but for IS NULL.

    PyIceberg lets NULLs through NOT IN and NOT LIKE, though not through `!=`.
    """
    from pyiceberg.expressions import And, NotIn, NotNull, NotStartsWith, Or

    if isinstance(condition, (And, Or)):
        return type(condition)(_as_in_sql(condition.left), _as_in_sql(condition.right))
    if isinstance(condition, (NotIn, NotStartsWith)):
        return And(NotNull(term=condition.term), condition)
    return condition


def bind_filter(condition: BooleanExpression, schema: Schema, whose: str) -> None:
    """Make sure that a condition is about columns of a table, with values of their types.

    Raises:
        UsageError: It is not.
    """
    from pyiceberg.expressions.visitors import bind

    try:
        bind(schema, condition, case_sensitive=False)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageError(
            f"{whose} does not fit this model: {_said(error)}",
            hint=f"its columns are {', '.join(schema.column_names)}",
        ) from error


def _said(error: Exception) -> str:
    return str(error).replace(", case_sensitive=False", "").replace("Could not", "could not")


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(
        f"the filter '{text}' cannot be read: {why}",
        hint="write it as: tenant = 7 AND day >= '2026-01-01'",
    )


def _place(text: str, error: Exception) -> str:
    """Return where reading ended; what could have stood there is the whole grammar."""
    at = getattr(error, "loc", None)
    if at is None:
        return (str(error).splitlines() or ["no condition"])[0][:200]
    rest = text[at : at + 30].strip()
    return f"at '{rest}'" if rest else "it ends too early"
