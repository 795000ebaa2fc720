"""Parts of dates that dialects count from different days, or that Spark has under other names.

Sunday is the first day of the week in Spark's DAYOFWEEK (1 to 7), Monday in its WEEKDAY (0 to 6);
its weeks are ISO's. What the others count is in their manuals' tables of date parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_FROM_ZERO = frozenset({"duckdb", "postgres", "redshift", "snowflake"})
"""Dialects in which Sunday is day 0."""
_ISO = frozenset({"trino", "presto", "athena"})
"""Dialects in which Monday is day 1 and Sunday day 7."""
_DAYS = frozenset({"DOW", "DAYOFWEEK", "DAY_OF_WEEK", "DW", "WEEKDAY"})
_ISO_DAYS = frozenset({"ISODOW", "DAYOFWEEKISO", "DAYOFWEEK_ISO", "DOW_ISO"})
_NAMES = {
    "ISOWEEK": "WEEK",
    "WEEKISO": "WEEK",
    "WEEK_ISO": "WEEK",
    "ISOYEAR": "YEAROFWEEK",
    "YEAROFWEEKISO": "YEAROFWEEK",
}
_SUNDAY_WEEKS = frozenset({"bigquery", "tsql", "fabric"})


def spark_date_part(node: exp.Expr, dialect: str) -> tuple[exp.Expr | None, str | None]:
    """Write a part of a date as Spark counts it.

    Args:
        node: A call.
        dialect: SQLGlot dialect that it was written in.

    Returns:
        What stands for it, or None where it stays as it is; and None, or what cannot be written.
    """
    from sqlglot import exp

    if isinstance(node, exp.DayOfWeekIso):
        return _plus(_call("WEEKDAY", node.this), 1), None
    if isinstance(node, exp.DayOfWeek):
        return (_sunday_zero(node.this) if dialect in _FROM_ZERO else None), None
    if isinstance(node, exp.Anonymous) and dialect == "duckdb":
        given, name = node.expressions, node.name.upper()
        if name == "WEEKDAY" and len(given) == 1:
            return _sunday_zero(given[0]), None
        if name in ("DATE_PART", "DATEPART") and len(given) == 2 and given[0].is_string:
            return _part(given[0].name.upper(), given[1], dialect)
    if isinstance(node, exp.Extract) and isinstance(node.this, exp.Var):
        return _part(node.name.upper(), node.expression, dialect)
    return None, None


def _part(unit: str, value: exp.Expr, dialect: str) -> tuple[exp.Expr | None, str | None]:
    from sqlglot import exp

    if unit in _ISO_DAYS or (unit in _DAYS and dialect in _ISO):
        return _plus(_call("WEEKDAY", value), 1), None
    if unit in _DAYS:
        return (_sunday_zero if dialect in _FROM_ZERO else _sunday_one)(value), None
    if unit == "EPOCH":
        return _seconds(value), None
    if unit == "WEEK" and dialect in _SUNDAY_WEEKS:
        return None, "weeks that begin on Sunday"
    if unit == "DATE":
        return exp.cast(value, "DATE"), None
    return exp.Extract(this=exp.var(_NAMES.get(unit, unit)), expression=value), None


def _sunday_one(value: exp.Expr) -> exp.Expr:
    return _call("DAYOFWEEK", value)


def _sunday_zero(value: exp.Expr) -> exp.Expr:
    return _plus(_call("DAYOFWEEK", value), -1)


def _seconds(value: exp.Expr) -> exp.Expr:
    """Return the seconds since 1970, or those between two times, with their fractions."""
    from sqlglot import exp

    inner = value.unnest()
    ends = [value]
    if isinstance(inner, exp.Sub) and not isinstance(inner.expression, exp.Interval):
        ends = [inner.this, inner.expression]
    counted: list[exp.Expr] = [
        _call("UNIX_MICROS", exp.cast(one, "TIMESTAMP", dialect="spark")) for one in ends
    ]
    if len(counted) > 1:
        counted = [exp.paren(exp.Sub(this=counted[0], expression=counted[1]))]
    return exp.paren(
        exp.Div(this=counted[0], expression=_number(1_000_000), typed=False, safe=True)
    )


def _plus(value: exp.Expr, days: int) -> exp.Expr:
    from sqlglot import exp

    kind = exp.Add if days > 0 else exp.Sub
    return exp.paren(kind(this=value, expression=_number(abs(days))))


def _call(name: str, value: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    return exp.Anonymous(this=name, expressions=[value.copy()])


def _number(value: int) -> exp.Expr:
    from sqlglot import exp

    return exp.Literal.number(value)
