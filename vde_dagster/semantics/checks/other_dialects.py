"""Checks of translated operators whose results depend on the types of their operands.

Queries are translated to Spark SQL before column types are known. These checks run in planning,
with types. They report operators whose result on Spark differs from the dialect's, or may differ
because a type is unknown.

Sources: DuckDB, PostgreSQL, Trino and GoogleSQL were run (the lines with `~` of
`benchmarks/dialect_templates.txt`); docs.aws.amazon.com/redshift/latest/dg/r_AVG.html,
docs.snowflake.com/en/sql-reference/operators-arithmetic and
learn.microsoft.com/sql/t-sql/functions/avg-transact-sql.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.checks import written_texts
from vde_dagster.semantics.checks.operands import (
    DIALECTS,
    KINDS,
    WORDS,
    Origin,
    certain_finding,
    kind_of_value,
    untyped_finding,
)
from vde_dagster.semantics.errors import Finding
from vde_dagster.semantics.types import decimal_digits, infer
from vde_dagster.sql.other_dialects import SPARKS
from vde_dagster.sql.other_dialects.dates import DAYS_BETWEEN
from vde_dagster.sql.other_dialects.numbers import CUTTING_CASTS

_WHOLE_DIVISION = frozenset(
    {"postgres", "redshift", "trino", "athena", "presto", "tsql", "fabric", "sqlite"}
)
"""Dialects that drop the remainder of `/` of two integers."""
_FLOAT_DIVISION = frozenset({"duckdb"})
"""Dialects that return a float for `/` of decimals."""
_WHOLE_AVERAGE = frozenset({"redshift", "tsql", "fabric"})
"""Dialects that return an integer for the average of integers."""
_ROUNDED_AVERAGE = {"snowflake": "six", "mysql": "four"}
"""Number of decimals of quotients and averages of integers, by dialect that returns decimals."""
_WHOLE = ("round", "bround", "floor", "ceil", "ceiling", "trunc", "extract", "second")
_POWERS_OF_TEN = frozenset({"1", "10", "100", "1000", "10000", "100000", "1000000"})


def dialect_findings(parts: Iterable[exp.Expr], origin: Origin) -> Iterator[Finding]:
    """Report operators whose result may differ on Spark.

    `parts` are the nodes of a translated query, with types on its columns.
    """
    if origin.dialect in SPARKS or "*" in origin.trusted:
        return
    unknown: set[str] = set()
    for e in parts:
        name = called_function(e) if isinstance(e, exp.Anonymous) else ""
        rule = _RULES.get(name or e.__class__)
        word = WORDS.get(name or e.__class__, "")
        if rule is None or word in origin.trusted:
            continue
        found = rule(e, origin)
        # For operands of unknown types, a kind of operator is reported only once.
        if found is None or (found.untyped and word in unknown):
            continue
        if found.untyped:
            unknown.add(word)
        yield found


def _has_fraction(e: exp.Expr) -> bool:
    kind = infer(e.unnest())
    if kind is None or kind.this != exp.DType.DECIMAL:
        return kind is not None and KINDS.get(kind.this) == "float"
    return decimal_digits(kind)[1] != 0


_TO_FLOAT = "cast an operand: CAST(… AS DOUBLE PRECISION)"


def _division(e: exp.Expr, origin: Origin) -> Finding | None:
    operands = e.expressions if isinstance(e, exp.Anonymous) else [e.this, e.expression]
    if len(operands) != 2:
        return None
    sides = (kind_of_value(operands[0]), kind_of_value(operands[1]))
    whole = origin.dialect in _WHOLE_DIVISION
    if "float" in sides:
        return None
    if origin.dialect not in DIALECTS and not whole:
        what = "a division may have another value"
        if None in sides:
            return untyped_finding(e, origin, what)
        return certain_finding(e, origin, what, _TO_FLOAT)
    if sides == ("int", "int"):
        if whole:
            what = "a division of integers drops the remainder"
            hint = "write the types: CAST(… AS INTEGER) / CAST(… AS INTEGER)"
            return certain_finding(e, origin, what, hint)
        if origin.dialect in _ROUNDED_AVERAGE:
            return certain_finding(e, origin, _decimals(origin), _TO_FLOAT)
        return None
    if "decimal" in sides:
        divisor = operands[1].unnest()
        if isinstance(divisor, exp.Literal) and divisor.this.split(".")[0] in _POWERS_OF_TEN:
            return None
        if None not in sides:
            what = "a division of decimals has other digits than in Spark"
            if origin.dialect in _FLOAT_DIVISION:
                what = "a division of decimals is a float"
            return certain_finding(e, origin, what, _TO_FLOAT)
    if None in sides:
        what = "a division may drop the remainder or have other digits than in Spark"
        return untyped_finding(e, origin, what)
    return None


def _decimals(origin: Origin) -> str:
    return f"a division or average of integers has {_ROUNDED_AVERAGE[origin.dialect]} decimals"


def _whole_division(e: exp.Expr, origin: Origin) -> Finding | None:
    sides = (kind_of_value(e.this), kind_of_value(e.expression))
    if origin.dialect not in _FLOAT_DIVISION:
        return None
    if "decimal" in sides:
        what = "a division of decimals by // is a float"
        return certain_finding(e, origin, what, "cast the operands: CAST(… AS BIGINT)")
    if None in sides:
        return untyped_finding(e, origin, "a division by // may be a float")
    return None


def _round(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) > _HALVES_TO_EVEN.get(origin.dialect, 0):
        return None
    kind = kind_of_value(e.expressions[0])
    if kind == "float":
        hint = "cast the value: ROUND(CAST(… AS DECIMAL(20, 6)))"
        return certain_finding(e, origin, "round of a float rounds halves to even", hint)
    if kind is None:
        return untyped_finding(e, origin, "round may round halves to even")
    return None


_HALVES_TO_EVEN = {"postgres": 1, "redshift": 1, "mysql": 2}
"""Maximum number of arguments with which ROUND of a float rounds halves to even, by dialect."""


def _average(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) != 1:
        return None
    value = e.expressions[0]
    kind = kind_of_value(value.expressions[0] if isinstance(value, exp.Distinct) else value)
    if kind == "int" and origin.dialect in _WHOLE_AVERAGE:
        what = "the average of integers is an integer"
        return certain_finding(e, origin, what, _TO_FLOAT)
    if kind == "int" and origin.dialect in _ROUNDED_AVERAGE:
        return certain_finding(e, origin, _decimals(origin), _TO_FLOAT)
    if kind == "decimal":
        what = "the average of decimals has other digits than in Spark"
        return certain_finding(e, origin, what, _TO_FLOAT)
    if kind is None:
        what = "an average may be rounded or have other digits than in Spark"
        return untyped_finding(e, origin, what)
    return None


def _cast(e: exp.Expr, origin: Origin) -> Finding | None:
    to = KINDS.get(e.args["to"].this)
    value = e.this.unnest()
    if isinstance(value, written_texts.CONSTANTS) or (to == "text" and _is_tested_text(e)):
        return None
    kind = kind_of_value(value)
    if to == "int" and origin.dialect not in CUTTING_CASTS:
        seconds = isinstance(value, exp.Mul) and _is_part(value.this)  # A translation of ours.
        if called_function(value) in _WHOLE or _is_part(value) or seconds:
            return None
        what = "a cast to an integer rounds"
        if _has_fraction(value):
            return certain_finding(e, origin, what, "round the value: CAST(ROUND(…) AS BIGINT)")
        if kind is None:
            return untyped_finding(e, origin, what)
    if to == "text":
        return written_texts.check_cast_to_text(e, origin)
    return None


def _is_tested_text(e: exp.Expr) -> bool:
    """Return whether a cast is part of a test that the translation added to the query."""
    above = e.parent
    while above is not None and not isinstance(above, exp.Query):
        if isinstance(above, exp.Case) or called_function(above) == "if":
            calls = list(above.find_all(exp.Anonymous))
            of_type = [c.expressions[0] for c in calls if called_function(c) == "typeof"]
            fails = "raise_error" in map(called_function, above.expressions)
            if e.this in of_type or (fails and isinstance(e.parent, exp.RegexpLike)):
                return True
        above = above.parent
    return False


def _is_part(e: exp.Expr) -> bool:
    return isinstance(e.unnest(), exp.Extract) or called_function(e.unnest()) == "extract"


def _difference(e: exp.Expr, origin: Origin) -> Finding | None:
    moved = _moved_text(e, origin)
    if moved is not None:
        return moved
    sides = (kind_of_value(e.this), kind_of_value(e.expression))
    if sides == ("time", "int"):
        return _moved_time(e, origin)
    if sides[0] == "date" and sides[1] in _NUMBERS:
        return _moved_date(e, e.expression, origin)
    if origin.dialect in _INTERVALS or not {"date", None}.issuperset(sides):
        return None
    what = "the difference of dates is a number"
    if None in sides:
        return untyped_finding(e, origin, what)
    return certain_finding(e, origin, what, "write the types: CAST(… AS DATE) - CAST(… AS DATE)")


_INTERVALS = frozenset(DIALECTS) - DAYS_BETWEEN - {"mysql"}
"""Dialects where a date minus a date is an interval or an error."""


def _moved_text(e: exp.Expr, origin: Origin) -> Finding | None:
    # Spark returns a text or refuses the query.
    sides = (e.this, e.expression)
    moved = [one for one, length in (sides, sides[::-1]) if _is_interval(length)]
    if not moved or _is_interval(moved[0]):
        return None
    kind = kind_of_value(moved[0])
    if kind == "text":
        what = "a text plus an interval is not a date"
        return certain_finding(e, origin, what, "cast the text: CAST(… AS DATE)")
    if kind is None and (origin.dialect == "mysql" or origin.dialect not in DIALECTS):
        return untyped_finding(e, origin, "a text plus an interval is a text")
    return None


def _is_interval(e: exp.Expr) -> bool:
    kind = infer(e.unnest())
    return kind is not None and str(kind).startswith("INTERVAL")


def _moved_time(e: exp.Expr, origin: Origin) -> Finding:
    what = "a time plus or minus a number of days is a date, but an error in Spark"
    return certain_finding(e, origin, what, "cast the time: CAST(… AS DATE)")


def _moved_date(e: exp.Expr, number: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect == "mysql":
        what = "a date plus or minus a number is a number, such as 20240132"
        return certain_finding(e, origin, what, "write an interval: date + INTERVAL number DAY")
    kind = infer(number.unnest())
    if kind is None or kind.this in _DAYS_OF_SPARK:
        return None
    what = f"a date plus or minus a {kind.this.value} is a date, but an error in Spark"
    return certain_finding(e, origin, what, "cast the number: CAST(… AS INTEGER)")


_NUMBERS = frozenset({"int", "float", "decimal"})
_DAYS_OF_SPARK = frozenset({exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT})
"""Types of numbers that Spark adds to a date, and subtracts from one."""


def _sum(e: exp.Expr, origin: Origin) -> Finding | None:
    moved = _moved_text(e, origin)
    if moved is not None:
        return moved
    sides = (kind_of_value(e.this), kind_of_value(e.expression))
    if "date" in sides and _NUMBERS.intersection(sides):
        return _moved_date(e, e.this if sides[1] == "date" else e.expression, origin)
    if set(sides) == {"time", "int"}:
        return _moved_time(e, origin)
    if origin.dialect not in ("tsql", "fabric", "redshift"):
        return None
    if sides == ("text", "text"):
        return certain_finding(e, origin, "+ joins texts", "write CONCAT(…), or + '' between them")
    if {"text", None}.issuperset(sides):
        return untyped_finding(e, origin, "+ may join texts")
    return None


def _median(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "duckdb" or not e.expressions:
        return None
    kind = kind_of_value(e.expressions[0])
    if kind == "decimal":
        what = "the median of decimals has other digits than in Spark"
        return certain_finding(e, origin, what, _TO_FLOAT)
    if kind is None:
        return untyped_finding(e, origin, "a median may have other digits than in Spark")
    return None


def _added_months(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "snowflake" or not e.expressions:
        return None
    kind = kind_of_value(e.expressions[0])
    if kind is None:
        return untyped_finding(e, origin, "add_months of a timestamp keeps its time")
    if kind != "date":
        what = "add_months returns a value of its first argument's type, not a date"
        return certain_finding(e, origin, what, "cast the value: CAST(… AS DATE)")
    return None


def _percentile(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "duckdb" or not e.expressions:
        return None
    value = e.expressions[0]
    if called_function(value) == "if" and "raise_error" in map(called_function, value.expressions):
        value = value.expressions[1]  # A translation of ours.
    kind = infer(value)
    if kind is None:
        return untyped_finding(e, origin, "a percentile may have other digits than in Spark")
    if KINDS.get(kind.this) == "int" or kind.this == exp.DType.DOUBLE:
        return None
    what = "a percentile of other values than integers and DOUBLE has another type"
    return certain_finding(e, origin, what, "cast the value: CAST(… AS DOUBLE)")


def _list_or_text(e: exp.Expr, origin: Origin) -> Finding | None:
    kind = infer(e.expressions[0]) if e.expressions else None
    is_length = called_function(e) in ("length", "char_length")
    if kind is None:
        if origin.dialect not in _LISTS_LIKE_TEXTS or not e.expressions:
            return None
        what = "LENGTH may count list elements" if is_length else "a subscript may be of a text"
        return untyped_finding(e, origin, what)
    if is_length and kind.this in (exp.DType.ARRAY, exp.DType.MAP):
        what = "the length of a list is its number of elements"
        return certain_finding(e, origin, what, "write ARRAY_LENGTH(…)")
    if not is_length and KINDS.get(kind.this) == "text":
        what = "a subscript of a text is a character"
        return certain_finding(e, origin, what, "write SUBSTRING(…, position, 1)")
    return None


_LISTS_LIKE_TEXTS = frozenset({"duckdb"})
"""Dialects where a list has a LENGTH and a text has subscripts."""


def _format(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) != 2:
        return None
    kind = kind_of_value(e.expressions[0])
    if kind in ("int", "float", "decimal"):
        what = "the format of a number has letters that Spark lacks"
        return certain_finding(e, origin, what, "cast the number: CAST(… AS VARCHAR)")
    if kind is None and origin.dialect in _FORMATTED_NUMBERS:
        return untyped_finding(e, origin, "to_char may format a number")
    return None


def _json(e: exp.Expr, origin: Origin) -> Finding | None:
    kind = kind_of_value(e.expressions[0]) if e.expressions else None
    if kind in (None, "list", "struct", "other"):
        return None
    what = "to_json of a value other than a list or struct is a text"
    return certain_finding(e, origin, what, "write CAST(… AS VARCHAR)")


def _milliseconds(e: exp.Expr, origin: Origin) -> Finding | None:
    kind = kind_of_value(e.expressions[0]) if e.expressions else None
    if origin.dialect != "duckdb" or kind not in ("date", "time"):
        return None
    what = "epoch_ms of a time is a number"
    return certain_finding(e, origin, what, "write CAST(epoch(…) * 1000 AS BIGINT)")


_FORMATTED_NUMBERS = frozenset({"postgres", "redshift", "snowflake"})
"""Dialects whose TO_CHAR formats both dates and numbers."""


_RULES: dict[object, Callable[[exp.Expr, Origin], Finding | None]] = {
    exp.Div: _division,
    "try_divide": _division,
    exp.IntDiv: _whole_division,
    exp.DPipe: written_texts.check_concatenation,
    "concat": written_texts.check_concatenation,
    "concat_ws": written_texts.check_concatenation,
    "listagg": written_texts.check_string_aggregate,
    "array_join": written_texts.check_list_to_text,
    **dict.fromkeys((exp.Case, "coalesce", "if"), written_texts.check_choice_types),
    **dict.fromkeys(("array", "greatest", "least"), written_texts.check_common_type),
    exp.Values: written_texts.check_values_types,
    **dict.fromkeys(
        (exp.Union, exp.Intersect, exp.Except), written_texts.check_set_operation_types
    ),
    "to_json": _json,
    "round": _round,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Sub: _difference,
    exp.Add: _sum,
    "avg": _average,
    "mean": _average,
    **dict.fromkeys(
        ("length", "char_length", "get", "element_at", "try_element_at"), _list_or_text
    ),
    "date_format": _format,
    "median": _median,
    "percentile": _percentile,
    "add_months": _added_months,
    "timestamp_millis": _milliseconds,
}
