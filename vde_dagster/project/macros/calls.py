"""Calling the Python macros of a project from SQL."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.macros.argument_words import remember, words_of, written
from vde_dagster.project.macros.missing_variables import does_without
from vde_dagster.sql.dialects import untranslated
from vde_dagster.sql.nesting import too_deep
from vde_dagster.sql.nothing import NOTHING
from vde_dagster.sql.scanner import SourceText
from vde_dagster.sql.trees import query_sql, restore_parameters

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.project.macros.expansion import Expander


_NONE_GIVEN = object()


class MacroEvaluator:
    """What a Python macro gets as its first argument.

    Args:
        expander: The expansion that is going on.
    """

    def __init__(self, expander: Expander) -> None:
        self._expander = expander

    @property
    def dialect(self) -> str:
        """SQLGlot dialect of the query that calls the macro."""
        return self._expander.scope.dialect

    def var(self, name: str, default: Any = _NONE_GIVEN) -> Any:
        """Return a variable of the settings, or the default; None without one.

        Raises:
            ProjectError: Nobody sets it, and the macro would make it a part of a text.
        """
        settings = self._expander.scope.settings
        if name.lower() in settings or default is not _NONE_GIVEN:
            return settings.get(name.lower(), default)
        if not does_without(sys._getframe(1)):
            raise self._expander.error(
                f"unknown variable '{name}', which the macro asks for",
                f"set it under [tool.vde.variables], or give a default: var('{name}', 0)",
                unknown=Unknown("variable", name),
            )
        return None

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        """Return a variable of the model's blueprint, or the default."""
        return self._expander.scope.settings.get(name.lower(), default)

    @property
    def locals(self) -> Mapping[str, str]:
        """SQL text of the variables in reach, by name."""
        return dict(self._expander.scope.variables)

    def parse_one(self, sql: str) -> exp.Expr:
        """Parse SQL of the query's dialect."""
        from sqlglot import parse_one

        return parse_one(sql, dialect=untranslated(self.dialect))


def call_user_macro(expander: Expander, name: str, arguments: str) -> str:
    """Call a Python macro and return what it stands for as SQL text.

    Raises:
        ProjectError: The call does not fit the function, or the function raises; names the place
            of the call and the line in the macro's file.
    """
    function = expander.scope.macros[name.lower()]
    positional, named = _parse_arguments(expander, name, arguments)
    try:
        bound = inspect.signature(function).bind(MacroEvaluator(expander), *positional, **named)
    except TypeError as error:
        signature = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise expander.error(
            f"@{name}: {error}", f"the macro's arguments are ({signature})"
        ) from None
    try:
        _coerce(function, bound)
        result = function(*bound.args, **bound.kwargs)
    except ProjectError:
        raise
    except Exception as error:
        raise expander.error(
            f"the macro @{name} failed{_line_of(error)}: {type(error).__name__}: {error}"
        ) from error
    return _to_text(expander, result)


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
        return result.transform(_parameter_to_variable).sql(dialect=expander.scope.dialect)
    raise TypeError(f"it returns SQL text or an expression, not {type(result).__name__}")


def _parse_arguments(
    expander: Expander, name: str, arguments: str
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    text = expander.expand_text(arguments)
    if not text.strip():
        return [], {}
    try:
        tree = parse_one(f"SELECT __VDE_CALL({text})", dialect=untranslated(expander.scope.dialect))
    except SqlglotError as error:
        raise expander.error(
            f"the arguments of @{name} cannot be read: {str(error).splitlines()[0]}"
        ) from None
    call = tree.find(exp.Anonymous)
    given = list(call.expressions) if call is not None else []
    pieces = expander.split_arguments(text)
    positional: list[exp.Expr] = []
    named: dict[str, exp.Expr] = {}
    for number, argument in enumerate(given):
        is_named = isinstance(argument, exp.PropertyEQ)
        value = restore_parameters((argument.expression if is_named else argument).pop())
        if len(pieces) == len(given) and expander.scope.dialect == "spark":
            piece = pieces[number]
            remember(value, piece.partition(":=")[2] if is_named else piece)
        if is_named:
            named[argument.this.name] = value
        else:
            positional.append(value)
    return positional, named


def _coerce(function: Any, bound: inspect.BoundArguments) -> None:
    """Turn expressions into Python values where the function's annotations ask for them."""
    try:
        hints = get_type_hints(function)
    except Exception:  # annotations that name what is not there: leave expressions as they are
        return
    parameters = bound.signature.parameters
    for name in list(bound.arguments)[1:]:
        hint = hints.get(name)
        value = bound.arguments[name]
        if hint is None:
            continue
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(_python_value(item, hint) for item in value)
        else:
            bound.arguments[name] = _python_value(value, hint)


def _python_value(value: Any, hint: Any) -> Any:
    from sqlglot import exp

    if not isinstance(value, exp.Expr):
        return value
    origin = get_origin(hint) or hint
    if origin is str:
        if isinstance(value, exp.Literal | exp.Column):
            return value.name
        return words_of(value) or value.sql("spark")
    if origin is bool:
        return value.sql().upper() == "TRUE"
    if origin in (int, float):
        return origin(value.sql())
    if origin in (list, tuple, set):
        inner = (get_args(hint) or (None,))[0]
        is_list = isinstance(value, exp.Array | exp.Tuple)
        items = value.expressions if is_list else [value]
        if isinstance(value, exp.Paren):
            items = [value.this]
        return origin(_python_value(item, inner) if inner else item for item in items)
    return value


def _to_text(expander: Expander, result: Any) -> str:
    from sqlglot import exp

    if result is None:
        return NOTHING
    if isinstance(result, exp.Expr):
        return _expression_text(result, expander.scope.dialect)
    if isinstance(result, str):
        return _bracketed(result, expander.scope.dialect) if result.strip() else NOTHING
    if isinstance(result, bool):
        return "TRUE" if result else "FALSE"
    if isinstance(result, int | float):
        return str(result)
    if isinstance(result, Iterable):
        return ", ".join(_to_text(expander, item) for item in result) or NOTHING
    raise TypeError(f"a macro returns SQL text or expressions, not {type(result).__name__}")


def _expression_text(tree: exp.Expr, dialect: str) -> str:
    from sqlglot import exp

    text = (
        # The macro may have parsed by SQLGlot's dialect.
        written(tree, lambda made: query_sql(made))
        if dialect == "spark"
        else tree.transform(_parameter_to_variable).sql(dialect=dialect, comments=False)
    )
    needs = exp.Binary | exp.Unary | exp.Between | exp.In | exp.Query
    atomic = exp.Paren | exp.Dot | exp.Subquery | exp.Func
    return f"({text})" if isinstance(tree, needs) and not isinstance(tree, atomic) else text


def _parameter_to_variable(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    return exp.Var(this="@" + node.name) if isinstance(node, exp.Parameter) else node


def _bracketed(text: str, dialect: str) -> str:
    """Put brackets around text that is an operator's expression and nothing more."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if "@" in text or too_deep(SourceText(Path("macro"), text)) is not None:
        return text  # What is too deep is refused with the place of the call.
    try:
        tree = parse_one(text, dialect=dialect)
    except SqlglotError:  # not an expression of its own: a clause, a list, part of a statement
        return text
    loose = exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In
    atomic = exp.Paren | exp.Dot | exp.Func
    if isinstance(tree, loose) and not isinstance(tree, atomic):
        return f"({text})"
    if isinstance(tree, exp.Connector):
        return f"({text})"
    return text


def _line_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        if frame.filename.startswith("<vde_project_"):
            path = frame.filename[1:-1].partition("/")[2]
            return f" ({path}:{frame.lineno})"
    return ""
