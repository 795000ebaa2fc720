"""Operators of queries of other dialects whose values depend on the types of their operands.

A query is translated before the types of its columns are known. Here they are: what divides, rounds
or is written otherwise there is an error, and what may do so, for a type that is not known, is a
warning.

Sources: DuckDB, PostgreSQL, Trino and GoogleSQL were run (the lines with `~` of
`benchmarks/dialect_templates.txt`); docs.aws.amazon.com/redshift/latest/dg/r_AVG.html,
docs.snowflake.com/en/sql-reference/operators-arithmetic and
learn.microsoft.com/sql/t-sql/functions/avg-transact-sql.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called
from vde_dagster.semantics.errors import Finding, finding
from vde_dagster.semantics.types import infer

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
}
_NAMES = {
    "postgres": "PostgreSQL",
    "duckdb": "DuckDB",
    "trino": "Trino",
    "athena": "Athena",
    "bigquery": "BigQuery",
    "snowflake": "Snowflake",
    "redshift": "Redshift",
    "tsql": "SQL Server",
    "fabric": "Fabric",
}
_SPARKS = frozenset({"", "spark", "spark2", "databricks"})
_WHOLE_DIVISION = frozenset(
    {"postgres", "redshift", "trino", "athena", "presto", "tsql", "fabric", "sqlite"}
)
"""Dialects whose `/` of two integers leaves out the rest."""
_FLOAT_DIVISION = frozenset({"duckdb"})
"""Dialects whose `/` of decimals is a float."""
_WHOLE_AVERAGE = frozenset({"redshift", "tsql", "fabric"})
"""Dialects in which the average of integers is an integer."""
_ROUNDED_AVERAGE = frozenset({"snowflake"})
"""Dialects in which the quotient and the average of integers have six decimals."""
_ROUNDING_CASTS = frozenset({"postgres", "duckdb", "mysql", "bigquery", "snowflake", "trino"})
"""Dialects in which a cast to an integer rounds; Spark's cuts off."""
_DAYS_BETWEEN = frozenset({"duckdb", "postgres", "redshift", "snowflake"})
"""Dialects in which a date minus a date is a number of days."""
_OTHER_TEXTS = {
    "duckdb": {"float"},
    "postgres": {"float"},
    "redshift": {"float"},
    "trino": {"float", "time"},
    "athena": {"float", "time"},
    "bigquery": {"float", "decimal", "time"},
    "snowflake": {"float", "time"},
    "tsql": {"float", "time", "boolean"},
    "fabric": {"float", "time", "boolean"},
}
"""Kinds of values whose text, as a cast writes it, is another one in Spark."""
_WHOLE = ("round", "bround", "floor", "ceil", "ceiling", "trunc", "extract", "second")
_POWERS_OF_TEN = frozenset({"1", "10", "100", "1000", "10000", "100000", "1000000"})


@dataclass(frozen=True, slots=True)
class Origin:
    """The dialect of a query that was translated.

    Args:
        trusted: Functions and operators that are taken to mean the same on Spark.
    """

    dialect: str = "spark"
    trusted: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The dialect's name as people write it."""
        return _NAMES.get(self.dialect, self.dialect)


def dialect_findings(parts: Iterable[exp.Expr], origin: Origin) -> Iterator[Finding]:
    """Check the operators of a translated query whose columns have types.

    Unknown types are reported once for each kind of operator.
    """
    if origin.dialect in _SPARKS or "*" in origin.trusted:
        return
    unknown: set[str] = set()
    for e in parts:
        name = called(e) if isinstance(e, exp.Anonymous) else ""
        rule = _RULES.get(name or e.__class__)
        word = _WORDS.get(name or e.__class__, "")
        if rule is None or word in origin.trusted:
            continue
        found = rule(e, origin)
        if found is None or (not found.certain and word in unknown):
            continue
        if not found.certain:
            unknown.add(word)
        yield found


def _kind(e: exp.Expr) -> str | None:
    found = infer(e.unnest())
    return _KINDS.get(found.this, "other") if found is not None else None


def _found(e: exp.Expr, origin: Origin, what: str, hint: str, *, certain: bool) -> Finding:
    word = _WORDS[called(e) if isinstance(e, exp.Anonymous) else e.__class__]
    trust = f'{hint}; or accept Spark\'s result: dialect_trust ("{word}")'
    return finding(RULE, e, f"{what} on {origin.name}", trust, certain=certain)


def _division(e: exp.Expr, origin: Origin) -> Finding | None:
    sides = (_kind(e.this), _kind(e.expression))
    whole = origin.dialect in _WHOLE_DIVISION
    if "float" in sides:
        return None
    if origin.dialect not in _NAMES and not whole:
        return _found(e, origin, _NOT_RUN, _TO_FLOAT, certain=None not in sides)
    if sides == ("int", "int"):
        if whole:
            what = "a division of integers leaves out the rest"
            hint = "write the types: CAST(… AS INTEGER) / CAST(… AS INTEGER)"
            return _found(e, origin, what, hint, certain=True)
        if origin.dialect in _ROUNDED_AVERAGE:
            return _found(e, origin, _SIX, _TO_FLOAT, certain=True)
        return None
    if "decimal" in sides:
        divisor = e.expression.unnest()
        if isinstance(divisor, exp.Literal) and divisor.this.split(".")[0] in _POWERS_OF_TEN:
            return None
        if None not in sides:
            what = "a division of decimals has other digits than Spark keeps"
            if origin.dialect in _FLOAT_DIVISION:
                what = "a division of decimals is a float"
            return _found(e, origin, what, _TO_FLOAT, certain=True)
    depends = whole or origin.dialect in _ROUNDED_AVERAGE | _FLOAT_DIVISION
    if None in sides and depends:
        what = "a division may leave out the rest, or keep other digits than Spark,"
        return _found(e, origin, what, _TYPES, certain=False)
    return None


_NOT_RUN = "a division may have another value"
_SIX = "a division or average of integers has six decimals"
_TO_FLOAT = "cast an operand: CAST(… AS DOUBLE PRECISION)"
_TYPES = "declare the types of the columns where they come from, or cast an operand"


def _whole_division(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect not in _FLOAT_DIVISION or "decimal" not in (
        _kind(e.this),
        _kind(e.expression),
    ):
        return None
    what = "a division of decimals by // is a float"
    return _found(e, origin, what, "cast the operands: CAST(… AS BIGINT)", certain=True)


def _round(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect not in _HALVES_TO_EVEN or len(e.expressions) != 1:
        return None
    kind = _kind(e.expressions[0])
    if kind == "float":
        hint = "cast the value: ROUND(CAST(… AS DECIMAL(20, 6)))"
        return _found(e, origin, "round of a float rounds halves to even", hint, certain=True)
    if kind is None:
        what = "round rounds halves to even, if its argument is a float,"
        return _found(e, origin, what, _TYPES, certain=False)
    return None


_HALVES_TO_EVEN = frozenset({"postgres", "redshift"})


def _joined(e: exp.Expr, origin: Origin) -> Finding | None:
    values = [e.this, e.expression] if isinstance(e, exp.DPipe) else e.expressions
    kinds = {_kind(one) for one in values if not isinstance(one.unnest(), exp.Literal)}
    other = _OTHER_TEXTS.get(origin.dialect, set()) & kinds
    if origin.dialect == "postgres" and called(e) == "concat":
        other |= {"boolean"} & kinds
    if not other:
        return None
    what = f"the text of a {sorted(str(one) for one in other)[0]} is another one"
    return _found(e, origin, what, "write a format for it", certain=True)


def _average(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) != 1:
        return None
    value = e.expressions[0]
    kind = _kind(value.expressions[0] if isinstance(value, exp.Distinct) else value)
    if kind == "int" and origin.dialect in _WHOLE_AVERAGE:
        what = "the average of integers is an integer"
        return _found(e, origin, what, _TO_FLOAT, certain=True)
    if kind == "int" and origin.dialect in _ROUNDED_AVERAGE:
        return _found(e, origin, _SIX, _TO_FLOAT, certain=True)
    if kind == "decimal":
        what = "the average of decimals has other digits than Spark keeps"
        return _found(e, origin, what, _TO_FLOAT, certain=True)
    if kind is None:
        what = "an average may be rounded, or have other digits than Spark's,"
        return _found(e, origin, what, _TYPES, certain=False)
    return None


def _cast(e: exp.Expr, origin: Origin) -> Finding | None:
    to = _KINDS.get(e.args["to"].this)
    value = e.this.unnest()
    if isinstance(value, exp.Literal | exp.Null):
        return None
    kind = _kind(value)
    if to == "int" and origin.dialect in _ROUNDING_CASTS and kind in ("float", "decimal"):
        seconds = isinstance(value, exp.Mul) and _is_part(value.this)  # A translation of ours.
        if called(value) in _WHOLE or _is_part(value) or seconds:
            return None
        what = "a cast to an integer rounds"
        return _found(e, origin, what, "round the value: CAST(ROUND(…) AS BIGINT)", certain=True)
    if to == "text" and kind in _OTHER_TEXTS.get(origin.dialect, ()):
        what = f"the text of a {kind} is another one"
        return _found(e, origin, what, "write a format for it", certain=True)
    return None


def _is_part(e: exp.Expr) -> bool:
    return isinstance(e.unnest(), exp.Extract) or called(e.unnest()) == "extract"


def _difference(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect not in _DAYS_BETWEEN or (_kind(e.this), _kind(e.expression)) != (
        "date",
        "date",
    ):
        return None
    what = "the difference of dates is a number of days"
    hint = "write the types: CAST(… AS DATE) - CAST(… AS DATE)"
    return _found(e, origin, what, hint, certain=True)


def _sum(e: exp.Expr, origin: Origin) -> Finding | None:
    sides = (_kind(e.this), _kind(e.expression))
    if origin.dialect not in ("tsql", "fabric", "redshift"):
        return None
    if sides == ("text", "text"):
        hint = "write CONCAT(…), or + '' between them"
        return _found(e, origin, "+ joins texts", hint, certain=True)
    if sides == (None, None):
        return _found(e, origin, "+ may join texts", _TYPES, certain=False)
    return None


def _median(e: exp.Expr, origin: Origin) -> Finding | None:
    if origin.dialect == "duckdb" and e.expressions and _kind(e.expressions[0]) == "decimal":
        what = "the median of decimals has other digits than Spark keeps"
        return _found(e, origin, what, _TO_FLOAT, certain=True)
    return None


def _of_list(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find subscripts of texts, and lengths of lists: their translation is for the other type."""
    kind = infer(e.expressions[0]) if e.expressions else None
    if kind is None:
        return None
    if called(e) in ("length", "char_length") and kind.this in (_D.ARRAY, _D.MAP):
        what = "the length of a list is its number of elements"
        return _found(e, origin, what, "write ARRAY_LENGTH(…)", certain=True)
    if called(e) in ("get", "element_at", "try_element_at") and _KINDS.get(kind.this) == "text":
        what = "a subscript of a text is its character"
        return _found(e, origin, what, "write SUBSTRING(…, place, 1)", certain=True)
    return None


def _format(e: exp.Expr, origin: Origin) -> Finding | None:
    if len(e.expressions) == 2 and _kind(e.expressions[0]) in ("int", "float", "decimal"):
        what = "the format of a number has letters that Spark lacks"
        return _found(e, origin, what, "cast the number: CAST(… AS VARCHAR)", certain=True)
    return None


_RULES: dict[object, Callable[[exp.Expr, Origin], Finding | None]] = {
    exp.Div: _division,
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
    **dict.fromkeys(("length", "char_length", "get", "element_at", "try_element_at"), _of_list),
    "date_format": _format,
    "median": _median,
}
_WORDS: dict[object, str] = {
    exp.Div: "/",
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
}
"""Names by which a model trusts an operator."""
