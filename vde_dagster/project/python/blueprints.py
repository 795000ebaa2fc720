"""Several models of one decorated function: `@model("@{customer}.orders", blueprints=[…])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.registry import PythonModelDefinition
from vde_dagster.project.python.statements import STATEMENTS
from vde_dagster.project.reading.blueprints import read_blueprints
from vde_dagster.project.reading.header import Value
from vde_dagster.project.reading.header_macros import bare, expanded_text
from vde_dagster.project.reading.sql_models import FileContext
from vde_dagster.project.reading.variable_texts import sql_literal
from vde_dagster.sql.scanner import SourceText, scan

_NAMES = ("name", "depends_on", "kind", "dialect")
"""Arguments in which a variable that nobody knows is a mistake, not a sign in a text."""


def python_blueprints(
    definition: PythonModelDefinition, location: SourceLocation, context: FileContext
) -> list[dict[str, Any]]:
    """Return the variables of each model that a decorated function makes; none for a plain one.

    Raises:
        ProjectError: `blueprints` is neither a list of dictionaries nor a macro that makes one.
    """
    given = definition.options.get("blueprints")
    if given is None:
        return [{}]
    if isinstance(given, str):
        return _of_macro(given, location, context)
    listed = given if isinstance(given, Sequence) else ()
    if not listed or not all(isinstance(one, Mapping) and one for one in listed):
        raise ProjectError(
            f"blueprints={given!r} is no list of values",
            hint='write blueprints=[{"customer": "a"}, {"customer": "b"}]',
            location=location,
        )
    for one in listed:
        for key, own in one.items():
            if own is None or not _is_plain(own):
                raise ProjectError(
                    f"the variable '{key}' of a blueprint is {own!r}",
                    hint="its value is a text, a number, a truth value, or a list or table of them",
                    location=location,
                )
    return [{str(key).lower(): _as_stored(own) for key, own in one.items()} for one in listed]


def _is_plain(value: Any) -> bool:
    """Say whether a value can be stored with the model."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(own) for key, own in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _as_stored(value: Any) -> Any:
    """Return a value as reading it from the state store gives it."""
    if isinstance(value, Mapping):
        return {key: _as_stored(own) for key, own in value.items()}
    return list(map(_as_stored, value)) if isinstance(value, list | tuple) else value


def filled_in(
    definition: PythonModelDefinition, location: SourceLocation, context: FileContext
) -> PythonModelDefinition:
    """Replace variables and macros in what a decorator was given; statements keep theirs.

    Args:
        definition: As it is written.
        location: The decorator's place.
        context: Its variables are those of the settings and of one blueprint.

    Raises:
        ProjectError: A macro, or a variable in a name, is unknown.
    """
    options = {key: own for key, own in definition.options.items() if key != "blueprints"}
    scope = context.scope("spark")
    own_scope = replace(scope, variables=dict(context.variables))

    def replaced(value: Any, key: str) -> Any:
        if isinstance(value, str):
            inside = own_scope if key == "audits" else scope
            return expanded_text(value, inside, location, strict=key in _NAMES)
        if isinstance(value, Mapping):
            return {replaced(name, key): replaced(own, key) for name, own in value.items()}
        if isinstance(value, tuple):
            return tuple(replaced(one, key) for one in value)
        return [replaced(one, key) for one in value] if isinstance(value, list) else value

    made = {key: own if key in STATEMENTS else replaced(own, key) for key, own in options.items()}
    return replace(definition, name=replaced(definition.name, "name"), options=made)


def texts_of(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the SQL text of variables."""
    return {
        key: sql_literal(own) if isinstance(own, bool | list | Mapping) else str(own)
        for key, own in variables.items()
    }


def _of_macro(text: str, location: SourceLocation, context: FileContext) -> list[dict[str, Any]]:
    try:
        expander = Expander(SourceText(location.path, text), context.scope("spark"))
        made = SourceText(location.path, expander.expand(0, len(text)).text)
        value = Value(made, "blueprints", tuple(scan(made)), 0)
        return [{key: bare(own) for key, own in one.items()} for one in read_blueprints(value)]
    except ProjectError as error:
        raise ProjectError(
            error.message, hint=error.hint, location=location, unknown=error.unknown
        ) from error
