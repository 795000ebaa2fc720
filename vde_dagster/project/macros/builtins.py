"""The macros that every query may call, with SQLMesh's names and meaning.

See docs/concepts/macros/sqlmesh_macros.md there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.base.texts import suggest
from vde_dagster.errors import Unknown
from vde_dagster.project.macros.functions import is_nothing, read_function, reduced
from vde_dagster.project.macros.query_macros import QUERY_MACROS
from vde_dagster.project.macros.variables import KIND_NAME, STAGE, filled, quoted_text
from vde_dagster.sql.edits import NOTHING
from vde_dagster.sql.scanner import unquote
from vde_dagster.sql.trees import bracketed

if TYPE_CHECKING:
    from vde_dagster.project.macros.expansion import Expander

Builtin = Callable[["Expander", list[str]], str]
_LOADING = re.compile(rf"(?is)\b{STAGE}\b.*['\"]loading['\"]|['\"]loading['\"].*\b{STAGE}\b")


def _if(expander: Expander, arguments: list[str]) -> str:
    """`@IF(condition, then[, otherwise])`; the condition has to be a constant.

    What is not taken is not expanded. SQLMesh calls the Python macros of both sides in every stage
    before it asks, so there no condition keeps a macro from running while files are read.
    """
    if len(arguments) not in (2, 3):
        raise expander.error("@IF takes a condition and one or two values")
    taken = arguments[1:2] if expander.is_true(arguments[0]) else arguments[2:]
    before = expander.is_not_for_loading
    expander.is_not_for_loading |= _LOADING.search(arguments[0]) is not None
    try:
        return expander.expand_text(taken[0]) if taken else NOTHING
    finally:
        expander.is_not_for_loading = before


def _def(expander: Expander, arguments: list[str]) -> str:
    """`@DEF(name, value)` as a statement of its own before the query."""
    name = arguments[0].strip('`"').lower() if len(arguments) == 2 else ""
    if not name.isidentifier():
        raise expander.error("@DEF takes a name and a value", "write @DEF(name, value);")
    function = read_function(expander, arguments[1])
    if function is not None:
        expander.scope.functions[name] = function
    else:
        expander.scope.variables[name] = expander.expand_text(arguments[1])
    return ""


def _var(expander: Expander, arguments: list[str]) -> str:
    """`@VAR('name'[, default])`: a variable of the settings, or the default."""
    if len(arguments) not in (1, 2):
        raise expander.error("@VAR takes a name and perhaps a default")
    tokens = expander.tokens(arguments[0])
    name = unquote(tokens[0]) if tokens else ""
    if (value := expander.scope.variables.get(name.lower())) is not None:
        return value
    if len(arguments) == 2:
        return expander.expand_text(arguments[1])
    if expander.is_condition:
        return "NULL"  # @IF(@VAR('x') IS NULL, …) asks whether there is one.
    given = set(expander.scope.variables) - {STAGE, KIND_NAME}
    known = suggest(name.lower(), given, "variables")
    raise expander.error(
        f"unknown variable '{name}'",
        f"{known}; or give a default: @VAR('{name}', 0)",
        unknown=Unknown("variable", name),
    )


def _eval(expander: Expander, arguments: list[str]) -> str:
    """`@EVAL(expression)`: a constant expression's value."""
    return _literal(expander.constant(expander.expand_text(", ".join(arguments))))


def _sql(expander: Expander, arguments: list[str]) -> str:
    """`@SQL('text'[, 'kind'])`: the text as SQL, with its variables filled in; or a value."""
    if not arguments:
        raise expander.error("@SQL takes a text", "write @SQL('a + @x')")
    text = expander.expand_text(arguments[0])
    tokens = expander.tokens(text)
    if len(tokens) == 1 and tokens[0].kind == "string":
        made = expander.expand_text(filled(expander, unquote(tokens[0])))
        return bracketed(made, expander.scope.dialect)
    return _literal(expander.constant(text))


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, list):
        return f"ARRAY({', '.join(map(_literal, value))})"
    return repr(value) if isinstance(value, int | float) else quoted_text(str(value))


def _connect(operator: str) -> Builtin:
    def connect(expander: Expander, arguments: list[str]) -> str:
        conditions = [expander.expand_text(argument).strip() for argument in arguments]
        kept = [c for c in conditions if not is_nothing(c) and c.upper() != "NULL"]
        return f"({f' {operator} '.join(f'({c})' for c in kept)})" if kept else "TRUE"

    return connect


BUILTINS: dict[str, Builtin] = {
    "if": _if,
    "def": _def,
    "var": _var,
    "blueprint_var": _var,
    "eval": _eval,
    "sql": _sql,
    "and": _connect("AND"),
    "or": _connect("OR"),
    "reduce": reduced,
    **QUERY_MACROS,
}
