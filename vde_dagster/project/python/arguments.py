"""Arguments that the function of a Python model takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from vde_dagster.errors import UsageError

_BY_POSITION = ("context", "start", "end", "execution_time")
_BY_NAME = frozenset((*_BY_POSITION[1:], "latest"))


def match_arguments(
    function: Callable[..., Any], variables: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the names of the values that a function gets, by position and by name.

    The full form is `(context, start, end, execution_time, **kwargs)`, as in SQLMesh. After the
    context, a function may take fewer arguments, in any order, and variables by name. A function
    with other parameter names gets the arguments by position.

    Raises:
        UsageError: A parameter would get another value than its name says.
    """
    known = {*_BY_NAME, *variables} - {"context"}
    parameters = list(inspect.signature(function).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ordered = [one for one in parameters if one.kind in kinds]
    single = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    variadic = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    by_name = not variadic and all(
        one.kind is not inspect.Parameter.POSITIONAL_ONLY
        and (one.name in known or one.default is not inspect.Parameter.empty)
        and one.name != "context"
        for one in ordered[1:]
    )
    others = known if ordered or variadic else {*known, "context"}
    given = [name for name in single if name in others]
    if not by_name:
        positional = list(_BY_POSITION if variadic else _BY_POSITION[: len(ordered)])
    else:
        positional = list(_BY_POSITION[: len(ordered[:1])])
        given += [one.name for one in ordered[1:] if one.name in known]
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
            given = sorted(others - {one.name for one in ordered[:1]})
    for one, value in zip(ordered, positional, strict=False):
        named = _BY_NAME if value == "context" else {*known, "context"}
        if one.name != value and one.name in named:
            raise _wrong_value(function, one.name, value)
    if "context" in single and "context" not in given:
        raise _wrong_value(function, "context", "no value")
    return positional, given


def _wrong_value(function: Callable[..., Any], name: str, value: str) -> UsageError:
    what = value if value == "no value" else f"the value of '{value}'"
    return UsageError(
        f"the parameter '{name}' of {function.__name__} would get {what}",
        hint=f"write def {function.__name__}({', '.join(_BY_POSITION)}, **kwargs), or fewer of "
        "these; give every other parameter the name of a variable of the project, or a default",
    )
