"""Calls of Python macros from SQL: arguments, conversion by annotations, results as text.

An argument that cannot be converted to its annotation stays an expression, as in SQLMesh
(sqlmesh_macros.md there, "Typed macros"). An unchanged argument keeps its original text in a
macro's result, because SQLGlot would write `to_char(x, '999')` as a cast.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.base.failures import describe_exception, find_project_line
from vde_dagster.base.times import parse_iso
from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.evaluator import MacroEvaluator, loading_stage_error
from vde_dagster.sql.edits import NOTHING
from vde_dagster.sql.expressions import add_brackets
from vde_dagster.sql.other_dialects.writing import query_sql, restore_parameters, with_variables
from vde_dagster.sql.trees import plain_dialect

if TYPE_CHECKING:
    from vde_dagster.project.macros.scope import MacroContext


BETWEEN_STATEMENTS = ";\n"


def call_user_macro(
    expander: MacroContext, name: str, arguments: str, *, statement: bool = False
) -> str:
    """Call a Python macro, and return its result as SQL text.

    `arguments` is the text between the call's brackets. If the call is a whole `statement`, a list
    becomes several statements.
    """
    result = _call_macro(expander, name, arguments)
    if statement and isinstance(result, list | tuple):
        texts = [_to_text(expander, item, whole=True) for item in result]
        return BETWEEN_STATEMENTS.join(text for text in texts if text != NOTHING) or NOTHING
    return _to_text(expander, result, whole=statement)


def user_macro_items(expander: MacroContext, name: str, arguments: str) -> list[str] | None:
    """Call a Python macro; return the items of its list as texts, or None for other results."""
    result = _call_macro(expander, name, arguments)
    if not isinstance(result, list | tuple):
        return None
    return [_to_text(expander, item, whole=True) for item in result if item is not None]


def _call_macro(expander: MacroContext, name: str, arguments: str) -> Any:
    if expander.is_not_for_loading:
        raise loading_stage_error(expander, f"the condition of @{name}")
    function = expander.macro(name)
    assert function is not None, "the caller has checked"
    positional, named = _parse_arguments(expander, name, arguments)
    evaluator = MacroEvaluator(expander)
    try:
        bound = inspect.signature(function).bind(evaluator, *positional, **named)
    except TypeError as error:
        signature = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise expander.error(f"@{name}: {error}", f"its signature is ({signature})") from None
    try:
        _coerce_arguments(function, bound, expander.scope.dialect)
        return evaluator.checked(function(*bound.args, **bound.kwargs))
    except ProjectError:
        raise
    except (Exception, SystemExit) as error:
        at = find_project_line(error, expander.source.path)
        where = f" ({at})" if at.line else ""
        raise expander.error(
            f"the macro @{name} failed{where}: {describe_exception(error)}"
        ) from error


def call_query_function(function: Callable[..., Any], expander: MacroContext) -> str:
    """Call a Python function that returns a query, and return the query's text.

    Raises:
        TypeError: The function returned neither SQL text nor a SQLGlot expression.
    """
    evaluator = MacroEvaluator(expander)
    result = evaluator.checked(function(evaluator))
    if isinstance(result, str):
        return result
    if isinstance(result, exp.Expr):
        return _expression_text(result, expander.scope.dialect, comments=True)
    raise TypeError(f"it must return SQL text or an expression, not {type(result).__name__}")


def _to_text(expander: MacroContext, result: Any, *, whole: bool = False) -> str:
    if result is None:
        return NOTHING
    if isinstance(result, exp.Expr):
        text = _expression_text(result, expander.scope.dialect, comments=False)
        needs = exp.Binary | exp.Unary | exp.Between | exp.In | exp.Query
        atomic = exp.Paren | exp.Dot | exp.Subquery | exp.Func
        loose = isinstance(result, needs) and not isinstance(result, atomic)
        return f"({text})" if loose and not whole else text
    if isinstance(result, str):
        if not result.strip():
            return NOTHING
        return result if whole else add_brackets(result, expander.scope.dialect)
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


def _expression_text(tree: exp.Expr, dialect: str, *, comments: bool) -> str:
    if dialect == "spark":  # The macro may have used SQLGlot's dialect.
        return _write_with_original_text(tree)
    return with_variables(tree).sql(dialect=dialect, comments=comments)


SQL = typing.NewType("SQL", str)
"""Annotation of an argument that a macro receives as SQL text."""


def _parse_arguments(
    expander: MacroContext, name: str, arguments: str
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    from vde_dagster.sql.reading import parse_plain

    text = expander.expand_text(arguments)
    if not text.strip():
        return [], {}
    try:
        tree = parse_plain(f"SELECT __VDE_CALL({text})", plain_dialect(expander.scope.dialect))
    except SqlglotError as error:
        raise expander.error(
            f"the arguments of @{name} are invalid: {str(error).splitlines()[0]}"
        ) from None
    call = tree.find(exp.Anonymous)
    given = list(call.expressions) if call is not None else []
    pieces = expander.split_arguments(text)
    positional: list[exp.Expr] = []
    named: dict[str, exp.Expr] = {}
    for number, argument in enumerate(given):
        is_named = isinstance(argument, exp.PropertyEQ)
        if named and not is_named:
            raise expander.error(
                f"@{name}: a positional argument follows a named argument",
                "write arguments with := last",
            )
        value = restore_parameters((argument.expression if is_named else argument).pop())
        if len(pieces) == len(given) and expander.scope.dialect == "spark":
            # Its original text, which copies of the tree keep.
            piece = pieces[number]
            value.meta[_TEXT] = (piece.partition(":=")[2] if is_named else piece).strip()
            value.meta[_HASH] = hash(value)
        if is_named:
            named[argument.this.name] = value
        else:
            positional.append(value)
    return positional, named


def _coerce_arguments(function: Any, bound: inspect.BoundArguments, dialect: str) -> None:
    """Add a call's defaults, and convert expressions to the types of the annotations."""
    bound.apply_defaults()
    try:
        known = {"exp": exp, "SQL": SQL, "MacroEvaluator": MacroEvaluator}
        hints = get_type_hints(function, localns=known)
    except Exception:  # annotations with undefined names: leave expressions unchanged
        return
    parameters = bound.signature.parameters
    # The first argument is the evaluator.
    for name in list(bound.arguments)[1:]:
        hint, value = hints.get(name), bound.arguments[name]
        if hint is None:
            continue
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(_convert_or_keep(item, hint, dialect) for item in value)
        elif parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {
                key: _convert_or_keep(item, hint, dialect) for key, item in value.items()
            }
        else:
            bound.arguments[name] = _convert_or_keep(value, hint, dialect)


class _ConversionError(Exception):
    """An expression cannot be converted to the type of an annotation."""


def _convert_or_keep(value: Any, hint: Any, dialect: str) -> Any:
    try:
        return _convert(value, hint, dialect)
    except Exception:  # a class in an annotation may raise anything for an invalid text
        return value


def _convert(value: Any, hint: Any, dialect: str) -> Any:
    if hint is None or hint is Any or not isinstance(value, exp.Expr):
        return value
    origin = get_origin(hint) or hint
    if origin is typing.Union or origin is types.UnionType:
        return _first_match(value, get_args(hint), dialect)
    if origin is SQL:
        return _original_text(value) or value.sql(dialect)
    if origin is typing.Literal:
        return _allowed_value(value, get_args(hint))
    if not isinstance(origin, type):
        return value
    if isinstance(value, origin):
        return value
    if issubclass(origin, exp.Expr):
        return _parse_as(value, origin, dialect)
    if origin in (list, tuple, set):
        return origin(_convert_items(value, get_args(hint), dialect, is_tuple=origin is tuple))
    return _convert_scalar(value, origin, dialect)


def _first_match(value: exp.Expr, hints: tuple[Any, ...], dialect: str) -> Any:
    for hint in hints:
        if hint is type(None):
            continue
        try:
            return _convert(value, hint, dialect)
        except Exception:  # try the next type
            continue
    return value


def _allowed_value(value: exp.Expr, allowed: tuple[Any, ...]) -> Any:
    if isinstance(value, exp.Literal | exp.Boolean):
        for one in allowed:
            is_bool = isinstance(value, exp.Boolean)
            if is_bool == isinstance(one, bool) and str(one) == str(value.this):
                return one
    raise _ConversionError


def _parse_as(value: exp.Expr, wanted: type[exp.Expr], dialect: str) -> exp.Expr:
    from sqlglot.parser import Parser

    from vde_dagster.sql.reading import parse_plain

    is_text = isinstance(value, exp.Literal) and value.is_string
    if wanted in Parser.EXPRESSION_PARSERS:
        made = parse_plain(value.this if is_text else value.sql(dialect), dialect, wanted)
    elif is_text:
        made = parse_plain(value.this, dialect)
    else:
        raise _ConversionError
    if not isinstance(made, wanted):
        raise _ConversionError
    return made


def _convert_items(
    value: exp.Expr, hints: tuple[Any, ...], dialect: str, *, is_tuple: bool
) -> list[Any]:
    if isinstance(value, exp.Array | exp.Tuple):
        items = list(value.expressions)
    else:
        items = [value.this if isinstance(value, exp.Paren) else value]
    if not hints:
        return items
    if is_tuple and hints[-1] is not ...:
        if len(hints) != len(items):
            raise _ConversionError
        return [
            _convert_or_keep(item, hint, dialect) for item, hint in zip(items, hints, strict=True)
        ]
    return [_convert_or_keep(item, hints[0], dialect) for item in items]


def _convert_scalar(value: exp.Expr, wanted: type, dialect: str) -> Any:
    if wanted is str:
        if isinstance(value, exp.Literal) or (isinstance(value, exp.Column) and not value.table):
            return value.name
        return _original_text(value) or value.sql(dialect)
    if wanted is bool:
        if isinstance(value, exp.Boolean):
            return bool(value.this)
        raise _ConversionError
    if wanted in (int, float):
        return wanted(value.this if isinstance(value, exp.Literal) else value.sql())
    if wanted in (date, datetime) and isinstance(value, exp.Literal):
        read = parse_iso(value.this)
        return read if wanted is datetime else read.date()
    raise _ConversionError


_TEXT, _HASH = "vde_text", "vde_hash"
_PLACE = "__vde_words_{}__"
_PLACES = re.compile(r"__vde_words_(\d+)__")


def _original_text(tree: exp.Expr) -> str | None:
    """Return the original text of an argument's tree if the tree was not changed."""
    text: str | None = tree.meta.get(_TEXT)
    return text if text is not None and tree.meta.get(_HASH) == hash(tree) else None


def _write_with_original_text(tree: exp.Expr) -> str:
    own = _original_text(tree)
    if own is not None:
        return own
    tree = tree.copy()
    texts: list[str] = []
    waiting = list(tree.iter_expressions())
    while waiting:
        node = waiting.pop()
        words = _original_text(node)
        if words is None:
            waiting += node.iter_expressions()
        else:
            node.replace(exp.Var(this=_PLACE.format(len(texts))))
            texts.append(words)
    return _PLACES.sub(lambda match: texts[int(match[1])], query_sql(tree))
