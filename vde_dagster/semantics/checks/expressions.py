"""Checks for operators and functions whose operands have unsuitable types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sqlglot import exp

from vde_dagster.errors import shortened
from vde_dagster.project.macros.variables import TIME_VARIABLES
from vde_dagster.semantics import spark_functions
from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.binding.calls import COMPARISONS, DIVISIONS
from vde_dagster.semantics.errors import Finding, make_finding_at
from vde_dagster.semantics.types import case_branches, infer, type_class

CROSSED = "crossed by a comma"
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
"""Pairs of types that Spark never compares, whatever its settings."""
_NUMBER_AND_TEXT = {"a number", "text"}
_ZERO = re.compile(r"0*\.?0*(?:[eE]\d+)?(?:[LSYDF]|BD)?", re.IGNORECASE).fullmatch
_NO_TOTAL = frozenset({"a date", "a boolean", "an array", "a map", "a struct"})
_FIRST_OF = frozenset({"coalesce", "nvl"})
_TOTALS = ("sum", "avg")
_NO_CONDITION = _NO_TOTAL - {"a boolean"} | {"a number", "text", "a time"}
_VARIABLE = re.compile(r"[\"']@(?:\{(\w+)\}|(\w+))[\"']")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def expression_findings(parts: Iterable[exp.Expr]) -> Iterator[Finding]:
    """Report operators and functions whose operands have unsuitable types.

    `parts` are the nodes of the query's tree, with types on its columns.
    """
    for e in parts:
        check = _CHECKS.get(e.__class__)
        found = check(e) if check is not None else None
        if found is not None:
            yield found


def _class(e: exp.Expr) -> str | None:
    return type_class(infer(e))


def _total(e: exp.Anonymous) -> Finding | None:
    name = called_function(e)
    if len(e.expressions) != 1:
        return None
    argument = e.expressions[0]
    if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        argument = argument.expressions[0]
    what = _class(argument)
    message = f"'{name}' is given {_sample(argument)}, which is {what}"
    if what == "text":
        return make_finding_at(
            "total of text",
            e,
            message,
            "declare the column as a number in its source, or write "
            f"{name}(CAST(… AS DOUBLE)), which fails at the first value that is not a number",
            certain=False,
        )
    if what in _NO_TOTAL:
        return make_finding_at("total of no number", e, message, f"give {name} a number")
    return None


def _comparison(e: exp.Binary) -> Finding | None:
    left, right = e.this, e.expression
    if isinstance(left, exp.Null) or isinstance(right, exp.Null):
        if isinstance(e, exp.NullSafeEQ | exp.NullSafeNEQ):
            return None
        word = "IS NOT NULL" if e.__class__ is exp.NEQ else "IS NULL"
        message = "a comparison with NULL is never true"
        return make_finding_at("compared with null", e, message, f"write … {word}", certain=False)
    return _apart(e, left, [right])


def _apart(e: exp.Expr, left: exp.Expr, others: list[exp.Expr]) -> Finding | None:
    kind = _class(left)
    if kind is None:
        return None
    for right in others:
        other = _class(right)
        if other is not None and other != kind and frozenset((kind, other)) in _APART:
            return make_finding_at(
                "compared with another type",
                e,
                f"{_sample(left)} is {kind} and is compared with {_sample(right)}, {other}",
                "compare values of one type, such as DATE '2024-01-31' for a date, or CAST one of "
                "them",
            )
        if {kind, other} == _NUMBER_AND_TEXT and not (_is_number(left) or _is_number(right)):
            return make_finding_at(
                "number compared with text",
                e,
                f"{_sample(left)} is {kind} and is compared with {_sample(right)}, {other}: "
                "the query fails at the first text that is not a number",
                "compare values of one type, or CAST the number: CAST(… AS STRING)",
                certain=False,
            )
    return None


def _in_list(e: exp.In) -> Finding | None:
    values = [value for value in e.expressions if not isinstance(value, exp.Query)]
    nulls = [value for value in values if isinstance(value.unnest(), exp.Null)]
    if nulls and isinstance(_outside_brackets(e), exp.Not):
        return make_finding_at(
            "null in a list",
            e,
            "NOT IN a list that contains NULL is never true",
            "remove NULL from the list; write … IS NOT NULL where NULL must not pass",
            certain=False,
        )
    return _apart(e, e.this, values)


def _outside_brackets(e: exp.Expr) -> exp.Expr | None:
    parent = e.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return parent


def _is_number(e: exp.Expr) -> bool:
    if not isinstance(e, exp.Literal):
        return False
    try:
        float(e.this.strip("'\"").strip())
    except ValueError:
        return False
    return e.is_string


def _mixed(what: str, values: list[exp.Expr]) -> Finding | None:
    texts = [x for x in values if _class(x) == "text" and not _is_number(x)]
    number = next((x for x in values if _class(x) == "a number"), None)
    if not texts or number is None:
        return None
    return make_finding_at(
        "text beside a number",
        texts[0],
        f"{what} are text, {_sample(texts[0])}, and a number, {_sample(number)}: "
        "Spark converts the texts to numbers, and fails at a text that is not a number",
        "CAST the numbers: CAST(… AS STRING)",
        certain=False,
    )


def _call(e: exp.Anonymous) -> Finding | None:
    name = called_function(e)
    if name in ("mod", "pmod"):
        return _division(e, e.expressions[-1]) if len(e.expressions) == 2 else None
    if name == "if":
        return _mixed("the branches of IF", e.expressions[1:])
    if name in _FIRST_OF:
        return _mixed(f"the values of {name.upper()}", e.expressions)
    return _total(e) if name in _TOTALS else None


def _division(e: exp.Expr, by: exp.Expr) -> Finding | None:
    divisor = by.unnest()
    if not (isinstance(divisor, exp.Literal) and not divisor.is_string and _ZERO(divisor.this)):
        return None
    return make_finding_at(
        "division by zero",
        e,
        "a division by 0 fails at the first row",
        "write NULL, or try_divide(…) and try_mod(…), which return NULL",
        certain=False,
    )


def _condition(e: exp.Expr) -> Finding | None:
    if isinstance(e.this, exp.Predicate | exp.Connector):
        return None
    what = _class(e.this)
    if what not in _NO_CONDITION:
        return None
    word = e.__class__.__name__.upper()
    message = f"the condition of {word}, {_sample(e.this)}, is {what}"
    return make_finding_at("condition", e.this, message, "write a comparison")


def _crossed(e: exp.Join) -> Finding | None:
    """Report a table after a comma in FROM that no condition in WHERE joins with other tables."""
    table, select = e.this, e.parent
    named = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    if e.kind != "CROSS" or not named:
        return None
    ctes = {cte.alias.lower() for cte in e.root().find_all(exp.CTE)}
    if not table.args.get("db") and table.name.lower() in ctes:
        return None  # It may be of one row.
    name = table.alias_or_name.lower()
    where = select.args.get("where") if select is not None else None
    for one in where.find_all(exp.Predicate) if where is not None else ():
        tables = {column.table.lower() for column in one.find_all(exp.Column)}
        if "" in tables or (name in tables and len(tables) > 1):
            return None
    return make_finding_at(
        CROSSED,
        table,
        f"no condition joins '{table.name}' with the other tables: the comma is a CROSS JOIN",
        f"write JOIN {table.name} ON …, or CROSS JOIN {table.name} if this is intended",
        certain=False,
    )


def _literal(e: exp.Literal) -> Finding | None:
    text = e.this
    variable = _VARIABLE.fullmatch(text) if "@" in text else None
    if variable is not None and (variable[1] or variable[2] in TIME_VARIABLES):
        name = variable[1] or variable[2]
        return make_finding_at(
            "variable in a string",
            e,
            f"{text} in quotes is a text, not a variable",
            f"write @{name} without quotes",
            certain=False,
        )
    if "{" not in text or not _JINJA.search(text):
        return None
    return make_finding_at(
        "jinja in a string",
        e,
        f"the string {shortened(text, 60)} looks like Jinja and "
        "stays unchanged: Jinja is evaluated only in blocks",
        "write macros and variables with @, such as @start_ds or @VAR('name'), without quotes",
        certain=False,
    )


def _sample(e: exp.Expr) -> str:
    inner = e.unnest()
    if isinstance(inner, exp.Column):
        return f"'{inner.name}'"
    if isinstance(inner, exp.Literal):
        return str(inner.this)
    name = called_function(inner)
    return f"{name}(…)" if name and spark_functions.function_kind(name) else "an expression"


_CHECKS: dict[type, Callable[..., Finding | None]] = {
    exp.Anonymous: _call,
    exp.Between: lambda e: _apart(e, e.this, [e.args["low"], e.args["high"]]),
    exp.In: _in_list,
    exp.Where: _condition,
    exp.Having: _condition,
    exp.Qualify: _condition,
    exp.Case: lambda e: _mixed("the branches of CASE", case_branches(e)),
    exp.Join: _crossed,
    **dict.fromkeys(DIVISIONS, lambda e: _division(e, e.expression)),
    exp.Literal: _literal,
    **dict.fromkeys(COMPARISONS, _comparison),
}
