"""Intervals of other dialects whose length is computed, which Spark writes as a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_PLACES = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""What the arguments of MAKE_INTERVAL are, in their order."""


def with_made_intervals(tree: exp.Expr) -> exp.Expr:
    """Write `INTERVAL days DAY` as `MAKE_INTERVAL(0, 0, 0, CAST(days AS INT))`.

    In Spark's own syntax the length of an interval is a literal. Dates plus such intervals are
    dates, as they are elsewhere.

    Args:
        tree: A query or statement, which is changed.
    """
    from sqlglot import exp

    if isinstance(tree, exp.Interval):
        return _made(tree) or tree
    for interval in list(tree.find_all(exp.Interval)):
        made = _made(interval)
        if made is not None:
            interval.replace(made)
    return tree


def _made(interval: exp.Interval) -> exp.Expr | None:
    """Return the call, or None where Spark reads the interval as it is or nobody knows it."""
    from sqlglot import exp

    length, unit = interval.this, interval.args.get("unit")
    inner = length.unnest() if length is not None else None
    if inner is None or not isinstance(unit, exp.Var):
        return None
    if isinstance(inner, exp.Literal) or (
        isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal)
    ):
        return None
    name = unit.name.upper().removesuffix("S")
    if name == "QUARTER":
        name, inner = "MONTH", exp.Mul(this=exp.paren(inner.copy()), expression=_number("3"))
    if name not in _PLACES:
        return None
    kind = "DECIMAL(18, 6)" if name == "SECOND" else "INT"
    values = [_number("0") for _ in range(_PLACES.index(name))]
    return exp.Anonymous(
        this="MAKE_INTERVAL", expressions=[*values, exp.cast(inner.copy(), kind, dialect="spark")]
    )


def _number(text: str) -> exp.Expr:
    from sqlglot import exp

    return exp.Literal.number(text)
