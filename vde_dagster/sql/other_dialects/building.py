"""Building blocks of the rules that rewrite trees of other dialects."""

from __future__ import annotations

from sqlglot import exp

Made = exp.Expr | None
"""The replacement of a part of a query, or None where it stays as it is."""


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """Return a call of a function of Spark, with copies of its arguments."""
    return exp.Anonymous(this=name, expressions=[one.copy() for one in arguments])


def cast(value: exp.Expr, kind: str) -> exp.Cast:
    """Return a cast to a Spark SQL type."""
    return exp.cast(value, kind, dialect="spark")
