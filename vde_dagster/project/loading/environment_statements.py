"""Statements `before_all` and `after_all` of the settings, with their macros expanded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ProjectError
from vde_dagster.project.files import Hasher
from vde_dagster.project.loading.load import project_sources
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.variables import sql_literal
from vde_dagster.project.reading.model_defaults import setting_text
from vde_dagster.project.reading.rendering import render_last_statement
from vde_dagster.project.reading.statements import split_statements
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.sources.source import Folder
from vde_dagster.sql.trees import ParsedQueries

if TYPE_CHECKING:
    from vde_dagster.project.reading.file_context import FileContext


def environment_statements(
    settings: Settings, environment: str, *, schemas: Sequence[str], views: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the statements of the settings `before_all` and `after_all`, as Spark SQL.

    Macros such as `@this_env`, `@schemas` and `@views` are expanded; time variables remain.
    """
    folder = Folder(settings, Hasher(settings.root), ParsedQueries(0), {})
    source = own_files(folder)
    mistakes = source.prepare()
    # In a folder that another tool's source reads, `macros/` has that tool's macros.
    if mistakes and own_files in project_sources(settings):
        raise ProjectError.combine(mistakes)
    values = {"this_env": environment, "schemas": list(schemas), "views": list(views)}
    before, after = (
        read_environment_statements(source.context, stage, texts, values)
        for stage, texts in (("before_all", settings.before_all), ("after_all", settings.after_all))
    )
    return before, after


def read_environment_statements(
    context: FileContext, stage: str, texts: Sequence[str], values: Mapping[str, Any]
) -> tuple[str, ...]:
    """Expand the macros in statements, and translate the statements to Spark SQL.

    `stage` is `before_all` or `after_all`; `values` has `this_env`, `schemas` and `views`.
    """
    known = {**values, "runtime_stage": stage}
    made: list[str] = []
    for text in texts:
        scope = context.scope(context.settings.dialect)
        scope = replace(scope, environment=known)
        scope.variables.update(
            {name: sql_literal(value, scope.dialect) for name, value in known.items()}
        )
        source = setting_text(context.settings, text)
        expander = Expander(source, scope)
        for statement in split_statements(source, scope.dialect):
            made += [render_last_statement(expander, one) for one in statement.expand(expander)]
    return tuple(made)
