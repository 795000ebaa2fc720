"""Decorators of Python models: statements, functions that return SQL, and blueprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vde_dagster.base.failures import describe_exception, find_project_line
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, UsageError, placed
from vde_dagster.project.macros.calls import call_query_function
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.registry import PythonModelDefinition
from vde_dagster.project.macros.variables import PROMOTING, bare, sql_literal
from vde_dagster.project.properties.header_macros import expanded_text
from vde_dagster.project.properties.model_properties import STATEMENTS
from vde_dagster.project.property_value import Value
from vde_dagster.project.reading.file_context import FileContext
from vde_dagster.project.reading.rendering import render, render_last_statement, render_statement
from vde_dagster.project.reading.sql_models import read_blueprints
from vde_dagster.project.reading.temporary_views import session_statements, with_temporary_views
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.scanner import SourceText, scan


@dataclass(frozen=True, slots=True)
class Parts:
    """The SQL of a Python model: its decorator's statements, and its function's query.

    Args:
        query: The rendered query; None for a function that returns rows.
        reads: Tables that the SQL reads, with the decorator's place.
        hidden: Names of temporary views that the code reads.
        before, after: Rendered statements that run before and after the query or the code.
        later: Statements that run after an environment publishes the model.
    """

    query: str | None
    reads: dict[ModelName, SourceLocation]
    hidden: frozenset[ModelName]
    before: tuple[str, ...]
    after: tuple[str, ...]
    later: tuple[str, ...]


def read_parts(
    function: Callable[..., Any] | None,
    given: Mapping[str, Any],
    location: SourceLocation,
    context: FileContext,
    dialect: str,
) -> Parts:
    """Read the statements in a decorator's arguments, and the query of an SQL function.

    `function` returns the query, or is None if the decorated function returns rows.
    """
    text = None if function is None else _call_query_function(function, location, context, dialect)
    with placed(location):
        expanded = {
            key: [
                _expand(one, location, context, dialect, key)
                for one in _statement_texts(key, given.get(key))
            ]
            for key in STATEMENTS
        }
        later = tuple(render_last_statement(*one) for one in expanded["on_virtual_update"])
        if text is not None:
            expander, query = _expand(text, location, context, dialect)
            pre = [one for _, one in expanded["pre_statements"]]
            post = [one for _, one in expanded["post_statements"]]
            around = with_temporary_views(expander, context.names, pre, query, post)
            rendered = render(expander, around.query, context.names)
            context.parsed.keep(rendered.sql, rendered.tree)
            reads = dict.fromkeys(rendered.reads, location)
            return Parts(rendered.sql, reads, frozenset(), around.before, around.after, later)
        before: list[str] = []
        reads = {}
        hidden: set[ModelName] = set()
        for expander, one in expanded["pre_statements"]:
            made, read, names = session_statements(expander, context.names, [one])
            before += made
            reads |= {name: location for name in read if name not in hidden}
            hidden |= names
        after = tuple(render_statement(*one) for one in expanded["post_statements"])
    return Parts(None, reads, frozenset(hidden), tuple(before), after, later)


def _call_query_function(
    function: Callable[..., Any], location: SourceLocation, context: FileContext, dialect: str
) -> str:
    expander = Expander(SourceText(location.path, ""), context.scope(dialect))
    try:
        with placed(location):
            text = call_query_function(function, expander)
    except ProjectError:
        raise
    except (Exception, SystemExit) as error:
        where = find_project_line(error, location.path)
        raise ProjectError(
            f"the function {function.__name__} failed: {describe_exception(error)}",
            hint="a function with is_sql=True must return SQL; it is called while the project is "
            "read, and its only argument is the macro evaluator",
            location=where if where.line else location,
        ) from error
    return text.strip().rstrip(";")


def _statement_texts(key: str, given: Any) -> list[str]:
    listed = list(given) if isinstance(given, list | tuple) else [given]
    listed = [one for one in listed if one is not None]
    for one in listed:
        if not isinstance(one, str) and not hasattr(one, "sql"):
            raise UsageError(
                f"{one!r} in {key} is not a statement", hint=f'write {key}=["SET a = b"]'
            )
    texts = (one if isinstance(one, str) else str(one.sql("spark")) for one in listed)
    return [text.strip().rstrip(";") for text in texts if text.strip()]


def _expand(
    text: str, location: SourceLocation, context: FileContext, dialect: str, key: str = ""
) -> tuple[Expander, Expanded]:
    scope = context.scope(dialect)
    if key == "on_virtual_update":
        scope = scope.in_stage(PROMOTING)
    expander = Expander(SourceText(location.path, text), scope)
    return expander, expander.expand()


_NAMES = ("name", "depends_on", "kind", "dialect")
"""Arguments where an unknown variable is an error instead of plain text."""


def python_blueprints(
    definition: PythonModelDefinition, location: SourceLocation, context: FileContext
) -> list[dict[str, Any]]:
    """Return the blueprint variables of each model that a decorator defines."""
    given = definition.options.get("blueprints")
    if given is None:
        return [{}]
    if isinstance(given, str):
        with placed(location):
            text = Expander(SourceText(location.path, given), context.scope("spark")).expand().text
            made = SourceText(location.path, text)
            read = read_blueprints(Value(made, "blueprints", tuple(scan(made)), 0))
        return [{key: bare(own) for key, own in one.items()} for one in read]
    listed = given if isinstance(given, Sequence) else ()
    if not listed or not all(isinstance(one, Mapping) and one for one in listed):
        raise ProjectError(
            f"blueprints={given!r} is not a list of values",
            hint='write blueprints=[{"customer": "a"}, {"customer": "b"}]',
            location=location,
        )
    for one in listed:
        for key, own in one.items():
            if own is None or not _is_plain(own):
                raise ProjectError(
                    f"the variable '{key}' of a blueprint has the unsupported value {own!r}",
                    hint="use a text, a number, true, false, or a list or table of them",
                    location=location,
                )
    return [{str(key).lower(): _plain_value(own) for key, own in one.items()} for one in listed]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(own) for key, own in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_value(own) for key, own in value.items()}
    return list(map(_plain_value, value)) if isinstance(value, list | tuple) else value


def with_variables_expanded(
    definition: PythonModelDefinition, location: SourceLocation, context: FileContext
) -> PythonModelDefinition:
    """Expand variables and macros in a decorator's arguments, except in SQL statements."""
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


def variable_texts(variables: Mapping[str, Any]) -> dict[str, str]:
    """Write the values of variables as SQL texts."""
    return {
        key: sql_literal(own) if isinstance(own, bool | list | Mapping) else str(own)
        for key, own in variables.items()
    }
