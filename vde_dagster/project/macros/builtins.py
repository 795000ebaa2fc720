"""The macros that every query may call.

`@EACH @IF @DEF @VAR @AND @OR @WHERE @EVAL @GENERATE_SURROGATE_KEY @SAFE_ADD @SAFE_SUB @SAFE_DIV`:
names and meaning as in SQLMesh (docs/concepts/macros/sqlmesh_macros.md there).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import Unknown
from vde_dagster.sql.nothing import NOTHING
from vde_dagster.sql.scanner import matching, split_top_level, unquote

if TYPE_CHECKING:
    from vde_dagster.project.macros.expansion import Expander

Builtin = Callable[["Expander", list[str]], str]


def _each(expander: Expander, arguments: list[str]) -> str:
    """`@EACH(items, x -> expression)`: one expression per item, separated by commas."""
    if len(arguments) != 2:
        raise expander.error("@EACH takes a list and a function", "write @EACH([a, b], x -> …)")
    names, body = _lambda(expander, arguments[1])
    results = [
        expander.expand_text(expander.bind(body, {names[0]: item}))
        for item in list_items(expander, expander.expand_text(arguments[0]))
    ]
    return ", ".join(results) if results else _nothing()


def _if(expander: Expander, arguments: list[str]) -> str:
    """`@IF(condition, then[, otherwise])`; the condition has to be a constant."""
    if len(arguments) not in (2, 3):
        raise expander.error("@IF takes a condition and one or two values")
    if evaluate_condition(expander, expander.expand_text(arguments[0])):
        return expander.expand_text(arguments[1])
    return expander.expand_text(arguments[2]) if len(arguments) == 3 else _nothing()


def _def(expander: Expander, arguments: list[str]) -> str:
    """`@DEF(name, value)` as a statement of its own before the query."""
    if len(arguments) != 2 or not arguments[0].isidentifier():
        raise expander.error("@DEF takes a name and a value", "write @DEF(name, value);")
    name = arguments[0].lower()
    _, tokens = expander.tokens(arguments[1])
    if len(split_top_level(tokens, "->")) == 2:
        expander.scope.lambdas[name] = _lambda(expander, arguments[1])
    else:
        expander.scope.variables[name] = expander.expand_text(arguments[1])
    return ""


def _var(expander: Expander, arguments: list[str]) -> str:
    """`@VAR('name'[, default])`: a variable of the settings, or the default."""
    if len(arguments) not in (1, 2):
        raise expander.error("@VAR takes a name and perhaps a default")
    _, tokens = expander.tokens(arguments[0])
    value = expander.scope.variables.get(unquote(tokens[0]).lower()) if tokens else None
    if value is not None:
        return value
    if len(arguments) == 2:
        return expander.expand_text(arguments[1])
    name = unquote(tokens[0]) if tokens else ""
    known = suggest(name.lower(), expander.scope.variables, "variables")
    raise expander.error(
        f"unknown variable '{name}'",
        f"{known}; or give a default: @VAR('{name}', 0)",
        unknown=Unknown("variable", name),
    )


def _eval(expander: Expander, arguments: list[str]) -> str:
    """`@EVAL(expression)`: a constant expression's value."""
    from sqlglot import parse_one
    from sqlglot.optimizer.simplify import simplify

    text = expander.expand_text(", ".join(arguments))
    dialect = expander.scope.dialect
    return str(simplify(parse_one(text, dialect=dialect)).sql(dialect=dialect))


def _connect(operator: str) -> Builtin:
    def connect(expander: Expander, arguments: list[str]) -> str:
        conditions = [expander.expand_text(argument).strip() for argument in arguments]
        kept = [c for c in conditions if c and c.upper() not in ("NULL", _nothing().upper())]
        return f"({f' {operator} '.join(f'({c})' for c in kept)})" if kept else _nothing()

    return connect


def _where(expander: Expander, arguments: list[str]) -> str:
    """`@WHERE(condition)`: a WHERE clause, or nothing when the condition is empty."""
    text = expander.expand_text(", ".join(arguments)).strip()
    return f" WHERE {text} " if text and text != _nothing() else " "


def _surrogate_key(expander: Expander, arguments: list[str]) -> str:
    """`@GENERATE_SURROGATE_KEY(a, b)`: the MD5 of the columns' texts."""
    if not arguments:
        raise expander.error("@GENERATE_SURROGATE_KEY takes at least one column")
    function = "MD5"
    fields = []
    for argument in arguments:
        head, separator, tail = argument.partition(":=")
        if separator and head.strip().lower() == "hash_function":
            function = tail.strip().strip("'\"")
        else:
            text = expander.expand_text(argument)
            fields.append(f"COALESCE(CAST({text} AS STRING), '_sqlmesh_surrogate_key_null_')")
    joined = ", '|', ".join(fields)
    return f"{function}(CONCAT({joined}))"


def _safe_sum(operator: str) -> Builtin:
    def safe(expander: Expander, arguments: list[str]) -> str:
        values = [expander.expand_text(argument) for argument in arguments]
        nulls = " AND ".join(f"{value} IS NULL" for value in values)
        total = f" {operator} ".join(f"COALESCE({value}, 0)" for value in values)
        return f"CASE WHEN {nulls} THEN NULL ELSE {total} END"

    return safe


def _safe_div(expander: Expander, arguments: list[str]) -> str:
    if len(arguments) != 2:
        raise expander.error("@SAFE_DIV takes a numerator and a denominator")
    above, below = (expander.expand_text(argument) for argument in arguments)
    return f"(({above}) / NULLIF({below}, 0))"


BUILTINS: dict[str, Builtin] = {
    "each": _each,
    "if": _if,
    "def": _def,
    "var": _var,
    "blueprint_var": _var,
    "eval": _eval,
    "and": _connect("AND"),
    "or": _connect("OR"),
    "where": _where,
    "generate_surrogate_key": _surrogate_key,
    "safe_add": _safe_sum("+"),
    "safe_sub": _safe_sum("-"),
    "safe_div": _safe_div,
}


def list_items(expander: Expander, text: str) -> list[str]:
    """Split `[a, b]`, `(a, b)`, `ARRAY(a, b)` or a single item into its items."""
    inner, tokens = expander.tokens(text)
    if not tokens:
        return []
    if tokens[0].is_word("ARRAY") and len(tokens) > 1:
        tokens = tokens[1:]
    if tokens[0].text in "([" and matching(inner, tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return [inner.text[part[0].start : part[-1].end] for part in split_top_level(tokens) if part]


def evaluate_condition(expander: Expander, text: str) -> bool:
    """Evaluate a condition made of constants.

    Raises:
        ProjectError: It cannot be evaluated before the query runs.
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.simplify import simplify

    try:
        value = simplify(parse_one(text, dialect=expander.scope.dialect))
    except SqlglotError as error:
        raise expander.error(f"the condition '{text}' cannot be read: {error}") from error
    if isinstance(value, exp.Boolean):
        return bool(value.this)
    if isinstance(value, exp.Null):
        return False
    if isinstance(value, exp.Literal) and not value.is_string:
        return float(value.this) != 0
    raise expander.error(
        f"the condition '{text}' is not a constant",
        "it is evaluated when the project is loaded; use CASE for conditions on data",
    )


def _lambda(expander: Expander, text: str) -> tuple[list[str], str]:
    inner, tokens = expander.tokens(text)
    sides = split_top_level(tokens, "->")
    if len(sides) < 2 or not sides[0]:
        raise expander.error(f"'{text}' is not a function", "write x -> expression")
    names = [token.text for token in sides[0] if token.kind == "word"]
    return names, inner.text[sides[1][0].start : sides[-1][-1].end]


def _nothing() -> str:
    return NOTHING
