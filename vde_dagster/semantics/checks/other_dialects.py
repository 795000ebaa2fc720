"""Operators of queries of other dialects whose values depend on the types of their operands.

A query is translated before the types of its columns are known. At planning time they are known: an
operator with another value in its dialect is an error, and so is an operator that may have another
value because a type is unknown.

Sources: DuckDB, PostgreSQL, Trino and GoogleSQL were run (the lines with `~` of
`benchmarks/dialect_templates.txt`); docs.aws.amazon.com/redshift/latest/dg/r_AVG.html,
docs.snowflake.com/en/sql-reference/operators-arithmetic and
learn.microsoft.com/sql/t-sql/functions/avg-transact-sql.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called
from vde_dagster.semantics.errors import Finding, finding
from vde_dagster.semantics.types import infer
from vde_dagster.sql.other_dialects import SPARKS
from vde_dagster.sql.other_dialects.dates import DAYS_BETWEEN
from vde_dagster.sql.other_dialects.numbers import CUTTING_CASTS

RULE = "another dialect's operator"

_D = exp.DType
_KINDS = {
    **dict.fromkeys((_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT), "int"),
    **dict.fromkeys((_D.FLOAT, _D.DOUBLE), "float"),
    _D.DECIMAL: "decimal",
    **dict.fromkeys((_D.TEXT, _D.VARCHAR, _D.CHAR), "text"),
    _D.DATE: "date",
    **dict.fromkeys((_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMPNTZ), "time"),
    _D.BOOLEAN: "boolean",
    _D.BINARY: "binary",
    **dict.fromkeys((_D.ARRAY, _D.MAP), "list"),
    _D.STRUCT: "struct",
}
_NAMES = {
    "postgres": "PostgreSQL",
    "duckdb": "DuckDB",
    "trino": "Trino",
    "athena": "Athena",
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
    "redshift": "Redshift",
    "mysql": "MySQL",
    "tsql": "SQL Server",
    "fabric": "Fabric",
}
_WHOLE_DIVISION = frozenset(
    {"postgres", "redshift", "trino", "athena", "presto", "tsql", "fabric", "sqlite"}
)
"""Dialects in which `/` of two integers drops the remainder."""
_FLOAT_DIVISION = frozenset({"duckdb"})
"""Dialects in which `/` of decimals is a float."""
_WHOLE_AVERAGE = frozenset({"redshift", "tsql", "fabric"})
"""Dialects in which the average of integers is an integer."""
_ROUNDED_AVERAGE = {"snowflake": "six", "mysql": "four"}
"""Decimals of quotients and averages of integers, in dialects where these are decimals."""
_OTHER_TEXTS = {
    "duckdb": {"float"},
    "postgres": {"float"},
    "redshift": {"float"},
    "trino": {"float", "time"},
    "athena": {"float", "time"},
    "bigquery": {"float", "decimal", "time"},
    "snowflake": {"float", "time"},
    "mysql": {"float", "time", "boolean"},
    "tsql": {"float", "time", "boolean"},
    "fabric": {"float", "time", "boolean"},
}
"""Types whose values are cast to another text than in Spark, by dialect."""
_SEVERAL_TEXTS = frozenset({"float", "decimal", "time", "boolean"})
_COMPOSED = frozenset({"list", "struct", "binary", "interval"})
"""Kinds of values whose text is another one in every dialect."""
_WHOLE = ("round", "bround", "floor", "ceil", "ceiling", "trunc", "extract", "second")
_POWERS_OF_TEN = frozenset({"1", "10", "100", "1000", "10000", "100000", "1000000"})


@dataclass(frozen=True, slots=True)
class Origin:
    """The dialect of a query that was translated.

    Args:
        trusted: Functions and operators that are assumed to be equal on Spark.
        tool: The tool whose project has the query, as in `Model.tool`.
    """

    dialect: str = "spark"
    trusted: frozenset[str] = frozenset()
    tool: str = ""

    @property
    def name(self) -> str:
        """The dialect's usual name."""
        return _NAMES.get(self.dialect, self.dialect)

    def trust(self, word: str) -> str:
        """Return the property or setting that accepts an operator."""
        if self.tool == "dbt":
            return f'dialect_trust = ["{word}"] under [tool.vde]'
        return f'dialect_trust ("{word}")'


def dialect_findings(parts: Iterable[exp.Expr], origin: Origin) -> Iterator[Finding]:
    """Check the operators of a translated query whose columns have types.

    Unknown types are reported once for each kind of operator.
    """
    if origin.dialect in SPARKS or "*" in origin.trusted:
        return
    unknown: set[str] = set()
    for e in parts:
        name = called(e) if isinstance(e, exp.Anonymous) else ""
        rule = _RULES.get(name or e.__class__)
        word = _WORDS.get(name or e.__class__, "")
        if rule is None or word in origin.trusted:
            continue
        found = rule(e, origin)
        if found is None or (found.untyped and word in unknown):
            continue
        if found.untyped:
            unknown.add(word)
        yield found


def _kind(e: exp.Expr) -> str | None:
    e = e.unnest()
    found = infer(e)
    if called(e) in _FLOATS_OF_FLOATS and len(e.expressions) == 1:
        kind = _kind(e.expressions[0])
        return kind if kind == "float" or found is None else _KINDS.get(found.this, "other")
    if found is None:
        return "text" if isinstance(e, exp.Anonymous) and called(e) in _TEXTS else None
    if str(found).startswith("INTERVAL"):
        return "interval"
    return _KINDS.get(found.this, "other")


_FLOATS_OF_FLOATS = frozenset({"ceil", "ceiling", "floor"})
"""Functions whose result for a float is a float, except in Spark."""
_TEXTS = frozenset(
    {"concat", "concat_ws", "date_format", "initcap", "left", "lower", "lpad", "ltrim", "md5"}
    | {"regexp_replace", "replace", "right", "rpad", "rtrim", "sha2", "substr", "substring"}
    | {"to_json", "translate", "trim", "upper"}
)
"""Functions that always return a text."""


def _has_fraction(e: exp.Expr) -> bool:
    """Return whether the type of a number has digits after the point."""
    kind = infer(e.unnest())
    if kind is None or kind.this != _D.DECIMAL:
        return kind is not None and _KINDS.get(kind.this) == "float"
    scale = kind.expressions[1].name if len(kind.expressions) > 1 else "0"
    return scale != "0"


def _certain_finding(e: exp.Expr, origin: Origin, what: str, hint: str) -> Finding:
    return finding(RULE, e, f"{what} on {origin.name}", f"{hint}; {_trust(e, origin)}")


def _untyped_finding(e: exp.Expr, origin: Origin, what: str) -> Finding:
    """Refuse an operator with operands of unknown types, naming the columns without a type."""
    columns = [c.name for c in e.find_all(exp.Column) if infer(c) is None and c.name]
    names = ", ".join(dict.fromkeys(columns)) or "an operand"
    message = f"{what} on {origin.name}, and the type of {names} is unknown"
    return finding(RULE, e, message, f"{_TYPES}; {_trust(e, origin)}", untyped=True)


def _trust(e: exp.Expr, origin: Origin) -> str:
    word = _WORDS[called(e) if isinstance(e, exp.Anonymous) else e.__class__]
    return f"or accept Spark's result: {origin.trust(word)}"


_TO_FLOAT = "cast an operand: CAST(… AS DOUBLE PRECISION)"
_TYPES = "declare the types of the columns where they come from, or cast an operand"


def _division(e: exp.Expr, origin: Origin) -> Finding | None:
    operands = e.expressions if isinstance(e, exp.Anonymous) else [e.this, e.expression]
    if len(operands) != 2:
        return None
    sides = (_kind(operands[0]), _kind(operands[1]))
    whole = origin.dialect in _WHOLE_DIVISION
    if "float" in sides:
        return None
    if origin.dialect not in _NAMES and not whole:
        what = "a division may have another value"
        if None in sides:
            return _untyped_finding(e, origin, what)
        return _certain_finding(e, origin, what, _TO_FLOAT)
    if sides == ("int", "int"):
        if whole:
            what = "a division of integers leaves out the rest"
            hint = "write the types: CAST(… AS INTEGER) / CAST(… AS INTEGER)"
            return _certain_finding(e, origin, what, hint)
        if origin.dialect in _ROUNDED_AVERAGE:
            return _certain_finding(e, origin, _decimals(origin), _TO_FLOAT)
        return None
    if "decimal" in sides:
        divisor = operands[1].unnest()
        if isinstance(divisor, exp.Literal) and divisor.this.split(".")[0] in _POWERS_OF_TEN:
            return None
        if None not in sides:
            what = "a division of decimals has other digits than Spark keeps"
            if origin.dialect in _FLOAT_DIVISION:
                what = "a division of decimals is a float"
            return _certain_finding(e, origin, what, _TO_FLOAT)
    if None in sides:
        what = "a division may leave out the rest or have other digits than Spark's"
        return _untyped_finding(e, origin, what)
    return None


def _decimals(origin: Origin) -> str:
    return f"a division or average of integers has {_ROUNDED_AVERAGE[origin.dialect]} decimals"


def _whole_division(e: exp.Expr, origin: Origin) -> Finding | None:
    sides = (_kind(e.this), _kind(e.expression))
    if origin.dialect not in _FLOAT_DIVISION:
        return None
    if "decimal" in sides:
        what = "a division of decimals by // is a float"
        return _certain_finding(e, origin, what, "cast the operands: CAST(… AS BIGINT)")
    if None in sides:
        return _untyped_finding(e, origin, "a division by // may be a float")
    return None


def _round(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) > _HALVES_TO_EVEN.get(origin.dialect, 0):
        return None
    kind = _kind(e.expressions[0])
    if kind == "float":
        hint = "cast the value: ROUND(CAST(… AS DECIMAL(20, 6)))"
        return _certain_finding(e, origin, "round of a float rounds halves to even", hint)
    if kind is None:
        return _untyped_finding(e, origin, "round may round halves to even")
    return None


_HALVES_TO_EVEN = {"postgres": 1, "redshift": 1, "mysql": 2}
"""Most arguments of a ROUND that rounds halves of floats to even, by dialect."""


def _joined(e: exp.Expr, origin: Origin) -> Finding | None:
    if isinstance(e, exp.DPipe) and origin.dialect in _LISTS_WITHOUT_NULL:
        kinds_of_sides = [infer(one.unnest()) for one in (e.this, e.expression)]
        if any(kind is not None and kind.this == _D.ARRAY for kind in kinds_of_sides):
            what = "a list joined to NULL is the list"
            hint = "write COALESCE(…, ARRAY[]::INT[]) around each list, and array_cat"
            return _certain_finding(e, origin, what, hint)
    values = [e.this, e.expression] if isinstance(e, exp.DPipe) else e.expressions
    kinds = {_kind(one) for one in values if not isinstance(one.unnest(), _CONSTANTS)}
    for value in values:
        found = _cut_day(e, value, origin)
        if found is not None:
            return found
    if "list" in kinds and (isinstance(e, exp.DPipe) or kinds == {"list"}):
        return None  # It joins lists.
    more = {"boolean"} if origin.dialect == "postgres" and called(e) == "concat" else set()
    return _text_finding(e, origin, kinds, more)


def _text_finding(
    e: exp.Expr, origin: Origin, kinds: Set[str | None], more: Set[str] = frozenset()
) -> Finding | None:
    """Find a value whose text differs from Spark's, by the kinds of the values written as text.

    Args:
        more: Kinds that differ here in addition to those that differ in the whole dialect.
    """
    differing = _COMPOSED | _OTHER_TEXTS.get(origin.dialect, _SEVERAL_TEXTS) | more
    other = sorted(kind for kind in kinds if kind in differing)
    if other:
        what = f"the text of {'an' if other[0] == 'interval' else 'a'} {other[0]} is another one"
        return _certain_finding(e, origin, what, "write a format for it")
    if None in kinds:
        return _untyped_finding(e, origin, "the text of a value may be another one")
    return None


_LISTS_WITHOUT_NULL = frozenset({"postgres", "redshift"})
"""Dialects whose `||` of a list and NULL is the list."""
_CONSTANTS = (exp.Literal, exp.Null, exp.Parameter)


def _average(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) != 1:
        return None
    value = e.expressions[0]
    kind = _kind(value.expressions[0] if isinstance(value, exp.Distinct) else value)
    if kind == "int" and origin.dialect in _WHOLE_AVERAGE:
        what = "the average of integers is an integer"
        return _certain_finding(e, origin, what, _TO_FLOAT)
    if kind == "int" and origin.dialect in _ROUNDED_AVERAGE:
        return _certain_finding(e, origin, _decimals(origin), _TO_FLOAT)
    if kind == "decimal":
        what = "the average of decimals has other digits than Spark keeps"
        return _certain_finding(e, origin, what, _TO_FLOAT)
    if kind is None:
        what = "an average may be rounded or have other digits than Spark's"
        return _untyped_finding(e, origin, what)
    return None


def _cast(e: exp.Expr, origin: Origin) -> Finding | None:
    to = _KINDS.get(e.args["to"].this)
    value = e.this.unnest()
    if isinstance(value, _CONSTANTS) or (to == "text" and _is_tested_text(e)):
        return None
    kind = _kind(value)
    if to == "int" and origin.dialect not in CUTTING_CASTS:
        seconds = isinstance(value, exp.Mul) and _is_part(value.this)  # A translation of ours.
        if called(value) in _WHOLE or _is_part(value) or seconds:
            return None
        what = "a cast to an integer rounds"
        if _has_fraction(value):
            return _certain_finding(e, origin, what, "round the value: CAST(ROUND(…) AS BIGINT)")
        if kind is None:
            return _untyped_finding(e, origin, what)
    if to == "text":
        found = _cut_day(e, value, origin)
        if found is not None:
            return found
        return _text_finding(e, origin, {kind})
    return None


def _cut_day(e: exp.Expr, value: exp.Expr, origin: Origin) -> Finding | None:
    """Find the text of PostgreSQL's date_trunc() of a date, which is an instant with a zone."""
    cut = value.unnest()
    if origin.dialect != "postgres" or called(cut) != "date_trunc" or len(cut.expressions) != 2:
        return None
    kind, what = _kind(cut.expressions[1]), "the text of date_trunc of a date has a zone"
    if kind == "date":
        return _certain_finding(e, origin, what, "cast it: CAST(date_trunc(…) AS DATE)")
    return _untyped_finding(e, origin, what) if kind is None else None


def _is_tested_text(e: exp.Expr) -> bool:
    """Return whether a translation casts a value only to test its text."""
    above = e.parent
    while above is not None and not isinstance(above, exp.Query):
        if isinstance(above, exp.Case) or called(above) == "if":
            calls = list(above.find_all(exp.Anonymous))
            of_type = [c.expressions[0] for c in calls if called(c) == "typeof"]
            fails = "raise_error" in map(called, above.expressions)
            if e.this in of_type or (fails and isinstance(e.parent, exp.RegexpLike)):
                return True
        above = above.parent
    return False


def _is_part(e: exp.Expr) -> bool:
    return isinstance(e.unnest(), exp.Extract) or called(e.unnest()) == "extract"


def _difference(e: exp.Expr, origin: Origin) -> Finding | None:
    moved = _moved_text(e, origin)
    if moved is not None:
        return moved
    sides = (_kind(e.this), _kind(e.expression))
    if origin.dialect in _INTERVALS or not {"date", None}.issuperset(sides):
        return None
    what = "the difference of dates is a number"
    if None in sides:
        return _untyped_finding(e, origin, what)
    return _certain_finding(e, origin, what, "write the types: CAST(… AS DATE) - CAST(… AS DATE)")


_INTERVALS = frozenset(_NAMES) - DAYS_BETWEEN - {"mysql"}
"""Dialects in which a date minus a date is an interval or an error."""


def _moved_text(e: exp.Expr, origin: Origin) -> Finding | None:
    """Refuse a text plus an interval, which Spark writes as a text or refuses."""
    sides = (e.this, e.expression)
    moved = [one for one, length in (sides, sides[::-1]) if _is_interval(length)]
    if not moved or _is_interval(moved[0]):
        return None
    kind = _kind(moved[0])
    if kind == "text":
        what = "a text plus an interval is not a date"
        return _certain_finding(e, origin, what, "cast the text: CAST(… AS DATE)")
    if kind is None and (origin.dialect == "mysql" or origin.dialect not in _NAMES):
        return _untyped_finding(e, origin, "a text plus an interval is a text")
    return None


def _is_interval(e: exp.Expr) -> bool:
    kind = infer(e.unnest())
    return kind is not None and str(kind).startswith("INTERVAL")


def _sum(e: exp.Expr, origin: Origin) -> Finding | None:
    moved = _moved_text(e, origin)
    if moved is not None:
        return moved
    sides = (_kind(e.this), _kind(e.expression))
    if sides == ("int", "date"):
        what = "a number plus a date is a date, which Spark refuses"
        return _certain_finding(e, origin, what, "write the date first: date + number")
    if origin.dialect not in ("tsql", "fabric", "redshift"):
        return None
    if sides == ("text", "text"):
        return _certain_finding(e, origin, "+ joins texts", "write CONCAT(…), or + '' between them")
    if {"text", None}.issuperset(sides):
        return _untyped_finding(e, origin, "+ may join texts")
    return None


def _median(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "duckdb" or not e.expressions:
        return None
    kind = _kind(e.expressions[0])
    if kind == "decimal":
        what = "the median of decimals has other digits than Spark keeps"
        return _certain_finding(e, origin, what, _TO_FLOAT)
    if kind is None:
        return _untyped_finding(e, origin, "a median may have other digits than Spark's")
    return None


def _added_months(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "snowflake" or not e.expressions:
        return None
    kind = _kind(e.expressions[0])
    if kind is None:
        return _untyped_finding(e, origin, "add_months of a timestamp keeps its time")
    if kind != "date":
        what = "add_months of other values than dates keeps their type"
        return _certain_finding(e, origin, what, "cast the value: CAST(… AS DATE)")
    return None


def _percentile(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect != "duckdb" or not e.expressions:
        return None
    value = e.expressions[0]
    if called(value) == "if" and "raise_error" in map(called, value.expressions):
        value = value.expressions[1]  # A translation of ours.
    kind = infer(value)
    if kind is None:
        return _untyped_finding(e, origin, "a percentile may have other digits than Spark's")
    if _KINDS.get(kind.this) == "int" or kind.this == _D.DOUBLE:
        return None
    what = "a percentile of other values than integers and DOUBLE has another type"
    return _certain_finding(e, origin, what, "cast the value: CAST(… AS DOUBLE)")


def _list_or_text(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find subscripts of texts, and lengths of lists: their translation is for the other type."""
    kind = infer(e.expressions[0]) if e.expressions else None
    is_length = called(e) in ("length", "char_length")
    if kind is None:
        if origin.dialect not in _LISTS_LIKE_TEXTS or not e.expressions:
            return None
        what = "the length may be a list's" if is_length else "a subscript may be a text's"
        return _untyped_finding(e, origin, what)
    if is_length and kind.this in (_D.ARRAY, _D.MAP):
        what = "the length of a list is its number of elements"
        return _certain_finding(e, origin, what, "write ARRAY_LENGTH(…)")
    if not is_length and _KINDS.get(kind.this) == "text":
        what = "a subscript of a text is its character"
        return _certain_finding(e, origin, what, "write SUBSTRING(…, place, 1)")
    return None


_LISTS_LIKE_TEXTS = frozenset({"duckdb"})
"""Dialects in which a list has a LENGTH and a text has subscripts."""


def _format(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) != 2:
        return None
    kind = _kind(e.expressions[0])
    if kind in ("int", "float", "decimal"):
        what = "the format of a number has letters that Spark lacks"
        return _certain_finding(e, origin, what, "cast the number: CAST(… AS VARCHAR)")
    if kind is None and origin.dialect in _FORMATTED_NUMBERS:
        return _untyped_finding(e, origin, "to_char may format a number")
    return None


def _milliseconds(e: exp.Expr, origin: Origin) -> Finding | None:
    kind = _kind(e.expressions[0]) if e.expressions else None
    if origin.dialect != "duckdb" or kind not in ("date", "time"):
        return None
    what = "epoch_ms of a time is a number"
    return _certain_finding(e, origin, what, "write CAST(epoch(…) * 1000 AS BIGINT)")


_FORMATTED_NUMBERS = frozenset({"postgres", "redshift", "snowflake"})
"""Dialects whose TO_CHAR formats dates and numbers."""


_RULES: dict[object, Callable[[exp.Expr, Origin], Finding | None]] = {
    exp.Div: _division,
    "try_divide": _division,
    exp.IntDiv: _whole_division,
    exp.DPipe: _joined,
    "concat": _joined,
    "concat_ws": _joined,
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
_WORDS: dict[object, str] = {
    exp.Div: "/",
    "try_divide": "safe_divide",
    exp.IntDiv: "//",
    exp.DPipe: "||",
    "concat": "concat",
    "concat_ws": "concat_ws",
    "round": "round",
    exp.Cast: "cast",
    exp.TryCast: "cast",
    exp.Sub: "-",
    exp.Add: "+",
    "avg": "avg",
    "mean": "avg",
    **dict.fromkeys(("length", "char_length"), "length"),
    **dict.fromkeys(("get", "element_at", "try_element_at"), "[]"),
    "date_format": "to_char",
    "median": "median",
    "percentile": "percentile_cont",
    "add_months": "add_months",
    "timestamp_millis": "epoch_ms",
}
"""Names by which a model trusts an operator."""
