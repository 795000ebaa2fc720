"""Calling the Python macros of a project from SQL."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from vde_dagster.base.said import said
from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.argument_words import written
from vde_dagster.project.macros.arguments import SQL, coerce_arguments, parse_arguments
from vde_dagster.project.macros.brackets import bracketed
from vde_dagster.project.macros.evaluator import MacroEvaluator
from vde_dagster.sql.nothing import NOTHING
from vde_dagster.sql.trees import query_sql, with_variables

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.project.macros.expansion import Expander

BETWEEN_STATEMENTS = ";\n"


def call_user_macro(
    expander: Expander, name: str, arguments: str, *, statement: bool = False
) -> str:
    """Call a Python macro and return what it stands for as SQL text.

    Args:
        expander: The expansion that is going on.
        name: The macro's name.
        arguments: The text between the brackets of the call.
        statement: Whether the call is a whole statement: a list is several of them then.

    Raises:
        ProjectError: The call does not fit the function, or the function raises; names the place
            of the call and the line in the macro's file.
    """
    result = _result(expander, name, arguments)
    if statement and isinstance(result, list | tuple):
        texts = [_to_text(expander, item, whole=True) for item in result]
        return BETWEEN_STATEMENTS.join(text for text in texts if text != NOTHING) or NOTHING
    return _to_text(expander, result, whole=statement)


def items_of_user_macro(expander: Expander, name: str, arguments: str) -> list[str] | None:
    """Call a Python macro and return the texts of the list that it returns; None if it is none.

    Raises:
        ProjectError: As `call_user_macro`.
    """
    result = _result(expander, name, arguments)
    if not isinstance(result, list | tuple):
        return None
    return [_to_text(expander, item, whole=True) for item in result if item is not None]


def _result(expander: Expander, name: str, arguments: str) -> Any:
    from sqlglot import exp

    function = expander.scope.macros[name.lower()]
    positional, named = parse_arguments(expander, name, arguments)
    try:
        bound = inspect.signature(function).bind(MacroEvaluator(expander), *positional, **named)
    except TypeError as error:
        signature = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise expander.error(
            f"@{name}: {error}", f"the macro's arguments are ({signature})"
        ) from None
    try:
        coerce_arguments(function, bound, {"exp": exp, "SQL": SQL})
        return function(*bound.args, **bound.kwargs)
    except ProjectError:
        raise
    except (Exception, SystemExit) as error:
        raise expander.error(f"the macro @{name} failed{_line_of(error)}: {said(error)}") from error


def call_query_function(function: Callable[..., Any], expander: Expander) -> str:
    """Call a function that makes a model's query and return the query's text.

    Args:
        function: It takes the evaluator and returns SQL text or an expression.
        expander: Its scope has the variables that the function may ask for.

    Raises:
        TypeError: It returned something else.
    """
    from sqlglot import exp

    result = function(MacroEvaluator(expander))
    if isinstance(result, str):
        return result
    if isinstance(result, exp.Expr):
        if expander.scope.dialect == "spark":
            return written(result, lambda made: query_sql(made))
        return with_variables(result).sql(dialect=expander.scope.dialect)
    raise TypeError(f"it returns SQL text or an expression, not {type(result).__name__}")


def _to_text(expander: Expander, result: Any, *, whole: bool = False) -> str:
    """Write what a macro returned; what stands alone needs no brackets."""
    from sqlglot import exp

    if result is None:
        return NOTHING
    if isinstance(result, exp.Expr):
        return _expression_text(result, expander.scope.dialect, whole=whole)
    if isinstance(result, str):
        if not result.strip():
            return NOTHING
        return result if whole else bracketed(result, expander.scope.dialect)
    if isinstance(result, bool):
        return "TRUE" if result else "FALSE"
    if isinstance(result, int | float):
        return str(result)
    if isinstance(result, Iterable):
        texts = [_to_text(expander, item) for item in result if item is not None]
        return ", ".join(texts) or NOTHING
    raise expander.error(
        f"a macro returned a value of type {type(result).__name__}",
        "return SQL text, an expression, a number, or a list of these",
    )


def _expression_text(tree: exp.Expr, dialect: str, *, whole: bool) -> str:
    from sqlglot import exp

    text = (
        # The macro may have parsed by SQLGlot's dialect.
        written(tree, lambda made: query_sql(made))
        if dialect == "spark"
        else with_variables(tree).sql(dialect=dialect, comments=False)
    )
    needs = exp.Binary | exp.Unary | exp.Between | exp.In | exp.Query
    atomic = exp.Paren | exp.Dot | exp.Subquery | exp.Func
    loose = isinstance(tree, needs) and not isinstance(tree, atomic)
    return f"({text})" if loose and not whole else text


def _line_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith("<vde_project_"):
            path = frame.filename[1:-1].partition("/")[2]
            return f" ({path}:{frame.lineno})"
    return ""
