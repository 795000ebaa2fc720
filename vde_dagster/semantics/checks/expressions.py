"""Operators and functions over what they cannot take, as far as types are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from vde_dagster.project.macros.time_variables import TIME_VARIABLES
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.calls import called
from vde_dagster.semantics.finding import Finding, finding
from vde_dagster.semantics.inference import infer

_D = exp.DType
_CLASSES = {
    kind: name
    for name, kinds in {
        "a number": (_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT, _D.FLOAT, _D.DOUBLE, _D.DECIMAL),
        "text": (_D.TEXT, _D.VARCHAR, _D.CHAR),
        "a date": (_D.DATE,),
        "a time": (_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.TIMESTAMPLTZ, _D.TIMESTAMPNTZ),
        "a boolean": (_D.BOOLEAN,),
        "an array": (_D.ARRAY,),
        "a map": (_D.MAP,),
        "a struct": (_D.STRUCT,),
    }.items()
    for kind in kinds
}
_APART = {
    frozenset(pair)
    for pair in (
        ("a number", "a date"),
        ("a number", "a time"),
        ("a boolean", "a date"),
        ("a boolean", "a time"),
        *(("an array", other) for other in ("a number", "text", "a date", "a time", "a boolean")),
        *(("a map", other) for other in ("a number", "text", "a date", "a time", "a boolean")),
        *(("a struct", other) for other in ("a number", "text", "a date", "a time", "a boolean")),
    )
}
"""What Spark compares under no setting."""
_NO_TOTAL = frozenset({"a date", "a boolean", "an array", "a map", "a struct"})
_NO_CONDITION = _NO_TOTAL - {"a boolean"} | {"a number", "text", "a time"}
_VARIABLE = re.compile(r"[\"']@(?:\{(\w+)\}|(\w+))[\"']")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def expression_findings(expressions: Iterable[exp.Expr]) -> Iterator[Finding]:
    """Look at expressions whose columns have their types."""
    for e in expressions:
        found = _CHECKS[e.__class__](e)
        if found is not None:
            yield found


def _class(e: exp.Expr) -> str | None:
    kind = infer(e)
    return _CLASSES.get(kind.this) if kind is not None else None


def _total(e: exp.Anonymous) -> Finding | None:
    name = called(e)
    if len(e.expressions) != 1:
        return None
    argument = e.expressions[0]
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    what = _class(argument)
    message = f"'{name}' is given {_shown(argument)}, which is {what}"
    if what == "text":
        return finding(
            "total of text",
            e,
            message,
            "declare the column as a number where it comes from, or say what is meant: "
            f"{name}(CAST(… AS DOUBLE)), which fails at the first value that is none",
            certain=False,
        )
    if what in _NO_TOTAL:
        return finding("total of no number", e, message, f"give {name} a number")
    return None


def _comparison(e: exp.Binary) -> Finding | None:
    left, right = e.this, e.expression
    if isinstance(left, exp.Null) or isinstance(right, exp.Null):
        if e.__class__ is exp.NullSafeEQ or e.__class__ is exp.NullSafeNEQ:
            return None
        word = "IS NOT NULL" if e.__class__ is exp.NEQ else "IS NULL"
        message = "a comparison with NULL is never true"
        return finding("compared with null", e, message, f"write … {word}", certain=False)
    return _apart(e, left, [right])


def _between(e: exp.Between) -> Finding | None:
    return _apart(e, e.this, [e.args["low"], e.args["high"]])


def _in(e: exp.In) -> Finding | None:
    return _apart(e, e.this, [x for x in e.expressions if not isinstance(x, exp.Query)])


def _apart(e: exp.Expr, left: exp.Expr, others: list[exp.Expr]) -> Finding | None:
    kind = _class(left)
    if kind is None:
        return None
    for right in others:
        other = _class(right)
        if other is not None and other != kind and frozenset((kind, other)) in _APART:
            return finding(
                "compared with another type",
                e,
                f"{_shown(left)} is {kind} and is compared with {_shown(right)}, {other}",
                "compare values of one type, such as DATE '2024-01-31' for a date, or CAST one",
            )
    return None


def _condition(e: exp.Expr) -> Finding | None:
    if isinstance(e.this, exp.Predicate | exp.Connector):
        return None
    what = _class(e.this)
    if what not in _NO_CONDITION:
        return None
    word = e.__class__.__name__.upper()
    message = f"the condition of {word}, {_shown(e.this)}, is {what}"
    return finding("condition", e.this, message, "write a comparison")


def _literal(e: exp.Literal) -> Finding | None:
    text = e.this
    variable = _VARIABLE.fullmatch(text) if "@" in text else None
    if variable is not None and (variable[1] or variable[2] in TIME_VARIABLES):
        name = variable[1] or variable[2]
        return finding(
            "variable in a string",
            e,
            f"within quotes {text} is a text and no variable",
            f"write @{name} without quotes",
            certain=False,
        )
    if "{" not in text or not _JINJA.search(text):
        return None
    return finding(
        "jinja in a string",
        e,
        f"the string {text if len(text) < 60 else text[:56] + '…'} looks like Jinja, which is "
        "read only in blocks: it stays as it is",
        "write macros and variables with @, such as @start_ds or @VAR('name'), without quotes",
        certain=False,
    )


def _shown(e: exp.Expr) -> str:
    inner = e.unnest()
    if isinstance(inner, exp.Column):
        return f"'{inner.name}'"
    if isinstance(inner, exp.Literal):
        return str(inner.this)
    name = called(inner)
    return f"{name}(…)" if name and spark_functions.kind(name) else "an expression"


_CHECKS: dict[type, Callable[..., Finding | None]] = {
    exp.Anonymous: _total,
    exp.Between: _between,
    exp.In: _in,
    exp.Where: _condition,
    exp.Having: _condition,
    exp.Literal: _literal,
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        _comparison,
    ),
}
