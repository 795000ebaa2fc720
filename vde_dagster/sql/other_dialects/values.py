"""Calls, operators and parts of dates of other dialects whose values Spark's of the same name do
not have.

Sources: modern-sql.com/caniuse/greatest-least (which GREATEST is NULL with a NULL), PostgreSQL's
manual 8.1.2 (how NUMERIC and DOUBLE PRECISION round), DuckDB itself (its cases in
`fixtures/other_dialects.yaml` were run); what is said of a tree is SQLGlot's: `typed` divisions,
`ignore_nulls`, and the day on which a week begins.

Sunday is the first day of the week in Spark's DAYOFWEEK (1 to 7), Monday in its WEEKDAY (0 to 6);
its weeks are ISO's. What the others count is in their manuals' tables of date parts.
"""

from __future__ import annotations

from sqlglot import exp

_WHOLE_NAMES = frozenset({"duckdb", "mysql"})
"""Dialects whose DAYNAME and MONTHNAME write the whole name; Spark's write three letters."""
_SUNDAY_WEEKS = frozenset({"bigquery", "tsql", "fabric"})
"""Dialects whose weeks begin on Sunday without being asked; BigQuery's newer trees say so."""

_ROUNDING = frozenset({"postgres", "duckdb", "mysql", "bigquery", "snowflake", "trino", "presto"})
"""Dialects in which a CAST to an integer rounds; Spark's cuts off."""
_TO_EVEN = frozenset({"postgres", "duckdb", "mysql"})
"""Those of them that round halves of floats to the even neighbour, others away from zero."""
_FLOATS = frozenset({"duckdb", "bigquery"})
"""Those of them in which divisions and averages are floats, in others decimals."""
_FLOAT, _DECIMAL = "float", "decimal"


def spark_value(node: exp.Expr, dialect: str) -> tuple[exp.Expr | None, str | None]:
    """Write a call or a division so that Spark gives the value that it had.

    Args:
        node: A part of a query, which is not changed.

    Returns:
        What stands for it, or None where it stays as it is; and None, or what cannot be written.
    """
    if isinstance(node, exp.Greatest | exp.Least):
        return _null_with_nulls(node), None
    if isinstance(node, exp.Dayname | exp.Monthname):
        return (_whole_name(node) if dialect in _WHOLE_NAMES else None), None
    if isinstance(node, exp.TimeToStr) and dialect == "duckdb":
        return _format_second(node), None
    if isinstance(node, exp.BitwiseXor | exp.BitwiseOr | exp.BitwiseAnd):
        return _in_brackets(node), None
    if isinstance(node, exp.Cast):
        return (_rounded(node, dialect) if dialect in _ROUNDING else None), None
    if isinstance(node, exp.Div):
        return _whole_division(node), None
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc | exp.DatetimeTrunc):
        return _week_of_sunday(node, dialect)
    return None, None


def is_whole(node: exp.Expr) -> bool:
    """Say whether an expression is an integer, as far as it alone tells."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return node.is_int
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.INTEGER_TYPES
    if isinstance(node, exp.Neg):
        return is_whole(node.this)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return is_whole(node.this) and is_whole(node.expression)
    return isinstance(node, exp.Count | exp.CountIf | exp.Length | exp.IntDiv | exp.RowNumber)


def _rounded(node: exp.Cast, dialect: str) -> exp.Expr | None:
    """Round what is cast to an integer, where the expression alone tells that it has a fraction."""
    if node.to.this not in exp.DataType.INTEGER_TYPES:
        return None
    fraction = _fraction(node.this, dialect)
    if fraction is None:
        return None
    even = fraction == _FLOAT and dialect in _TO_EVEN
    made = node.copy()
    rounded = exp.Anonymous(this="BROUND" if even else "ROUND", expressions=[made.this.copy()])
    made.set("this", rounded)
    return made


def _fraction(node: exp.Expr, dialect: str) -> str | None:
    """Say whether a value is a float or a decimal, as far as it alone tells; None for others."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        if node.is_string or node.is_int:
            return None
        return _FLOAT if dialect == "bigquery" or "e" in node.name.lower() else _DECIMAL
    if isinstance(node, exp.Cast):
        if node.to.this in (exp.DType.FLOAT, exp.DType.DOUBLE):
            return _FLOAT
        return _DECIMAL if node.to.this == exp.DType.DECIMAL else None
    if isinstance(node, exp.Avg) or (isinstance(node, exp.Div) and not node.args.get("typed")):
        return _FLOAT if dialect in _FLOATS else _DECIMAL
    within: list[exp.Expr] = []
    if isinstance(node, exp.Neg | exp.Abs | exp.Sum | exp.Min | exp.Max):
        within = [node.this]
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        within = [node.this, node.expression]
    elif isinstance(node, exp.Coalesce):
        within = [node.this, *node.expressions]
    found = [_fraction(one, dialect) for one in within]
    return _FLOAT if _FLOAT in found else _DECIMAL if _DECIMAL in found else None


def _null_with_nulls(node: exp.Greatest | exp.Least) -> exp.Expr | None:
    """Return NULL where an argument is NULL, which Spark passes over."""
    given = [node.this, *node.expressions]
    if node.args.get("ignore_nulls") is not False or len(given) < 2:
        return None
    any_null = exp.or_(*(exp.Is(this=one.copy(), expression=exp.Null()) for one in given))
    name = "GREATEST" if isinstance(node, exp.Greatest) else "LEAST"
    among = exp.Anonymous(this=name, expressions=[one.copy() for one in given])
    return exp.Case(ifs=[exp.If(this=any_null, true=exp.Null())], default=among)


def _whole_name(node: exp.Dayname | exp.Monthname) -> exp.Expr | None:
    if node.args.get("abbreviated"):
        return None
    letters = exp.Literal.string("EEEE" if isinstance(node, exp.Dayname) else "MMMM")
    return exp.Anonymous(this="DATE_FORMAT", expressions=[node.this.copy(), letters])


def _format_second(node: exp.TimeToStr) -> exp.Expr | None:
    """Write `strftime('%Y', day)` as `strftime(day, '%Y')`: DuckDB reads both."""
    form, value = node.this, node.args["format"]
    if not form.is_string or value.is_string:
        return None
    return exp.TimeToStr(this=value.copy(), format=form.copy())


def _in_brackets(node: exp.Binary) -> exp.Expr | None:
    """Keep together what was a call, such as `xor(a, b)`, or was bound more closely."""
    parent = node.parent
    around = isinstance(parent, exp.Binary | exp.Neg | exp.Not)
    return exp.paren(node.copy()) if around and type(parent) is not type(node) else None


def _whole_division(node: exp.Div) -> exp.Expr | None:
    """Write a division of integers as DIV, where the dialect's `/` leaves out the rest."""
    if not node.args.get("typed") or not (is_whole(node.this) and is_whole(node.expression)):
        return None
    return exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())


def _week_of_sunday(node: exp.Expr, dialect: str) -> tuple[exp.Expr | None, str | None]:
    """Find the Sunday of a week: the day before the Monday of what is a day later."""
    unit = node.args.get("unit")
    if unit is None:
        return None, None
    told = unit.name.upper() if isinstance(unit, exp.WeekStart) else ""
    if told not in ("", "MONDAY", "SUNDAY"):
        return None, f"weeks that begin on {told.capitalize()}"
    if told != "SUNDAY" and not (dialect in _SUNDAY_WEEKS and unit.name.upper() == "WEEK"):
        return None, None
    if not isinstance(node, exp.DateTrunc):
        return None, "weeks that begin on Sunday"
    later = exp.Anonymous(this="DATE_ADD", expressions=[node.this.copy(), exp.Literal.number(1)])
    monday = exp.Anonymous(this="TRUNC", expressions=[later, exp.Literal.string("WEEK")])
    return exp.Anonymous(this="DATE_ADD", expressions=[monday, exp.Literal.number(-1)]), None


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


def spark_date_part(node: exp.Expr, dialect: str) -> tuple[exp.Expr | None, str | None]:
    """Write a part of a date as Spark counts it.

    Returns:
        What stands for it, or None where it stays as it is; and None, or what cannot be written.
    """
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
    if unit in _ISO_DAYS or (unit in _DAYS and dialect in _ISO):
        return _plus(_call("WEEKDAY", value), 1), None
    if unit in _DAYS:
        first = _call("DAYOFWEEK", value)
        return (_sunday_zero(value) if dialect in _FROM_ZERO else first), None
    if unit == "EPOCH":
        return _seconds(value), None
    if unit == "WEEK" and dialect in _SUNDAY_WEEKS:
        return None, "weeks that begin on Sunday"
    if unit == "DATE":
        return exp.cast(value, "DATE"), None
    return exp.Extract(this=exp.var(_NAMES.get(unit, unit)), expression=value), None


def _sunday_zero(value: exp.Expr) -> exp.Expr:
    return _plus(_call("DAYOFWEEK", value), -1)


def _seconds(value: exp.Expr) -> exp.Expr:
    """Return the seconds since 1970, or those between two times, with their fractions."""
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
        exp.Div(this=counted[0], expression=exp.Literal.number(1_000_000), typed=False, safe=True)
    )


def _plus(value: exp.Expr, days: int) -> exp.Expr:
    kind = exp.Add if days > 0 else exp.Sub
    return exp.paren(kind(this=value, expression=exp.Literal.number(abs(days))))


def _call(name: str, value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[value.copy()])
