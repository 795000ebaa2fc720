"""What a decorator says beside the code: statements, and functions that return SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.said import said
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.macros.calls import call_query_function
from vde_dagster.project.macros.expanded import Expanded
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.this_model import PROMOTING
from vde_dagster.project.python.files import where_raised
from vde_dagster.project.reading.rendering import (
    render,
    render_last_statement,
    render_statement,
)
from vde_dagster.project.reading.sql_models import FileContext
from vde_dagster.project.reading.temporary_views import session_statements, with_temporary_views
from vde_dagster.sql.scanner import SourceText

STATEMENTS = ("pre_statements", "post_statements", "on_virtual_update")
"""Arguments of the decorator that are statements."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is read of a decorator's statements, and of a function that returns SQL.

    Args:
        query: The rendered query; None for a function that returns rows.
        reads: The tables that are read, at the decorator.
        hidden: Names in the code that stand for temporary views, and not for tables.
        before: Rendered statements before the query or the code.
        after: Those behind it.
        later: Those that run when an environment shows the model.
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
    """Read the statements of a decorator, and call a function that returns SQL.

    Args:
        function: The function to call once for the query; None if it returns rows.
        given: The decorator's arguments that are statements.
        location: The decorator.
        context: What the project's files share.
        dialect: SQLGlot dialect of all texts.

    Raises:
        ProjectError: A text cannot be read, or the function failed; points at the decorator, or at
            the line of the project that raised.
    """
    texts = {key: _listed(key, given.get(key), location) for key in STATEMENTS}
    with _placed(location):
        expanded = {
            key: [_expanded(text, location, context, dialect, key) for text in listed]
            for key, listed in texts.items()
        }
        later = tuple(render_last_statement(*one) for one in expanded["on_virtual_update"])
    if function is not None:
        text = _call(function, location, context, dialect)
        with _placed(location):
            return _of_query(text, expanded, later, location, context, dialect)
    before: list[str] = []
    reads: dict[ModelName, SourceLocation] = {}
    hidden: set[ModelName] = set()
    with _placed(location):
        for expander, one in expanded["pre_statements"]:
            made, read, names = session_statements(expander, context.names, [one])
            before += made
            reads |= {name: location for name in read if name not in hidden}
            hidden |= names
        after = tuple(render_statement(*one) for one in expanded["post_statements"])
    return Parts(None, reads, frozenset(hidden), tuple(before), after, later)


def _of_query(
    text: str,
    expanded: Mapping[str, list[tuple[Expander, Expanded]]],
    later: tuple[str, ...],
    location: SourceLocation,
    context: FileContext,
    dialect: str,
) -> Parts:
    expander, query = _expanded(text, location, context, dialect)
    around = with_temporary_views(
        expander,
        context.names,
        [one for _, one in expanded["pre_statements"]],
        query,
        [one for _, one in expanded["post_statements"]],
    )
    rendered = render(expander, around.query, context.names)
    context.parsed.keep(rendered.sql, rendered.tree)
    reads = dict.fromkeys(rendered.reads, location)
    return Parts(rendered.sql, reads, frozenset(), around.before, around.after, later)


def _call(
    function: Callable[..., Any], location: SourceLocation, context: FileContext, dialect: str
) -> str:
    expander = Expander(SourceText(location.path, ""), context.scope(dialect))
    try:
        text = call_query_function(function, expander)
    except ProjectError as error:
        raise _error(error, location) from error
    except (Exception, SystemExit) as error:
        where = where_raised(error, location.path)
        raise ProjectError(
            f"the function {function.__name__} failed: {said(error)}",
            hint="with is_sql=True it is called while the project is read, with the macro "
            "evaluator alone, and returns SQL",
            location=where if where.line else location,
        ) from error
    return text.strip().rstrip(";")


def _listed(key: str, given: Any, location: SourceLocation) -> list[str]:
    """Read statements: a text, an expression of SQLGlot's, or a list of them."""
    listed = list(given) if isinstance(given, list | tuple) else [given]
    listed = [one for one in listed if one is not None]
    for one in listed:
        if not isinstance(one, str) and not hasattr(one, "sql"):
            raise ProjectError(
                f"{one!r} in {key} is no statement",
                hint=f'write {key}=["SET a = b"]',
                location=location,
            )
    texts = (one if isinstance(one, str) else str(one.sql("spark")) for one in listed)
    return [text.strip().rstrip(";") for text in texts if text.strip()]


def _expanded(
    text: str, location: SourceLocation, context: FileContext, dialect: str, key: str = ""
) -> tuple[Expander, Expanded]:
    scope = context.scope(dialect)
    if key == "on_virtual_update":
        scope = scope.in_stage(PROMOTING)
    expander = Expander(SourceText(location.path, text), scope)
    return expander, expander.expand(0, len(text))


@contextmanager
def _placed(location: SourceLocation) -> Iterator[None]:
    """Let mistakes in texts that code gives point at the model's decorator."""
    try:
        yield
    except ProjectError as error:
        raise _error(error, location) from error


def _error(error: ProjectError, location: SourceLocation) -> ProjectError:
    return ProjectError(error.message, hint=error.hint, location=location, unknown=error.unknown)
