"""Arguments of Python macros: read as expressions, and made what the function's annotations say.

What an annotation asks for and an argument cannot be is left as the expression that it is, as in
SQLMesh (sqlmesh_macros.md there, "Typed macros").
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from vde_dagster.project.macros.argument_words import remember, words_of
from vde_dagster.sql.dialects import untranslated
from vde_dagster.sql.trees import restore_parameters

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.project.macros.expansion import Expander

SQL = typing.NewType("SQL", str)
"""Annotation of an argument that a macro wants as SQL text."""


def parse_arguments(
    expander: Expander, name: str, arguments: str
) -> tuple[list[exp.Expr], dict[str, exp.Expr]]:
    """Read a call's arguments as expressions.

    Returns:
        Those by position, and those by name (`name := value`).

    Raises:
        ProjectError: They are no SQL, or one by position follows one by name.
    """
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
        if named and not is_named:
            raise expander.error(
                f"@{name}: an argument by position follows one by name",
                "write those with := last",
            )
        value = restore_parameters((argument.expression if is_named else argument).pop())
        if len(pieces) == len(given) and expander.scope.dialect == "spark":
            piece = pieces[number]
            remember(value, piece.partition(":=")[2] if is_named else piece)
        if is_named:
            named[argument.this.name] = value
        else:
            positional.append(value)
    return positional, named


def coerce_arguments(
    function: Any, bound: inspect.BoundArguments, names: Mapping[str, Any]
) -> None:
    """Make a call's arguments what the function's annotations ask for, its defaults too.

    Args:
        function: The macro.
        bound: The call; the first argument is the evaluator and stays.
        names: What annotations written as text may name beside the function's module.
    """
    bound.apply_defaults()
    try:
        hints = get_type_hints(function, localns=dict(names))
    except Exception:  # annotations that name what is not there: leave expressions as they are
        return
    parameters = bound.signature.parameters
    for name in list(bound.arguments)[1:]:
        hint, value = hints.get(name), bound.arguments[name]
        if hint is None:
            continue
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(coerced(item, hint) for item in value)
        elif parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {key: coerced(item, hint) for key, item in value.items()}
        else:
            bound.arguments[name] = coerced(value, hint)


class _CannotBeError(Exception):
    """An expression cannot be what an annotation asks for."""


def coerced(value: Any, hint: Any) -> Any:
    """Make an expression what an annotation asks for, or return it as it is."""
    try:
        return _strictly(value, hint)
    except Exception:  # whatever a class in an annotation does with a text that is none of it
        return value


def _strictly(value: Any, hint: Any) -> Any:
    from sqlglot import exp

    if hint is None or hint is Any or not isinstance(value, exp.Expr):
        return value
    origin = get_origin(hint) or hint
    if origin is typing.Union or origin is types.UnionType:
        return _first_of(value, get_args(hint))
    if origin is SQL:
        return words_of(value) or value.sql("spark")
    if origin is typing.Literal:
        return _one_of(value, get_args(hint))
    if not isinstance(origin, type):
        return value
    if isinstance(value, origin):
        return value
    if issubclass(origin, exp.Expr):
        return _tree(value, origin)
    if origin in (list, tuple, set):
        return origin(_items(value, get_args(hint), is_tuple=origin is tuple))
    return _scalar(value, origin)


def _first_of(value: exp.Expr, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        if hint is type(None):
            continue
        try:
            return _strictly(value, hint)
        except Exception:  # not this one: the next
            continue
    return value


def _one_of(value: exp.Expr, allowed: tuple[Any, ...]) -> Any:
    from sqlglot import exp

    if isinstance(value, exp.Literal | exp.Boolean):
        for one in allowed:
            is_bool = isinstance(value, exp.Boolean)
            if is_bool == isinstance(one, bool) and str(one) == str(value.this):
                return one
    raise _CannotBeError


def _tree(value: exp.Expr, wanted: type[exp.Expr]) -> exp.Expr:
    """Read a text, or an expression again, as another class of expressions."""
    from sqlglot import exp, parse_one
    from sqlglot.parser import Parser

    is_text = isinstance(value, exp.Literal) and value.is_string
    if wanted in Parser.EXPRESSION_PARSERS:
        made = parse_one(value.this if is_text else value.sql(), into=wanted)
    elif is_text:
        made = parse_one(value.this)
    else:
        raise _CannotBeError
    if not isinstance(made, wanted):
        raise _CannotBeError
    return made


def _items(value: exp.Expr, hints: tuple[Any, ...], *, is_tuple: bool) -> list[Any]:
    from sqlglot import exp

    if isinstance(value, exp.Array | exp.Tuple):
        items = list(value.expressions)
    else:
        items = [value.this if isinstance(value, exp.Paren) else value]
    if not hints:
        return items
    if is_tuple and hints[-1] is not ...:
        if len(hints) != len(items):
            raise _CannotBeError
        return [coerced(item, hint) for item, hint in zip(items, hints, strict=True)]
    return [coerced(item, hints[0]) for item in items]


def _scalar(value: exp.Expr, wanted: type) -> Any:
    from sqlglot import exp

    if wanted is str:
        if isinstance(value, exp.Literal) or (isinstance(value, exp.Column) and not value.table):
            return value.name
        return words_of(value) or value.sql("spark")
    if wanted is bool:
        if isinstance(value, exp.Boolean):
            return bool(value.this)
        raise _CannotBeError
    if wanted in (int, float):
        return wanted(value.this if isinstance(value, exp.Literal) else value.sql())
    if wanted in (date, datetime) and isinstance(value, exp.Literal):
        read = datetime.fromisoformat(value.this)
        return read if wanted is datetime else read.date()
    raise _CannotBeError
