"""The statements `before_all` and `after_all` of the settings, as an environment runs them."""

from __future__ import annotations

from collections.abc import Sequence

from vde_dagster.errors import ProjectError
from vde_dagster.project.reading.environment_statements import read_environment_statements
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.hasher import Hasher
from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.sources.source import Folder
from vde_dagster.sql.parsed import ParsedQueries


def environment_statements(
    settings: Settings, environment: str, *, schemas: Sequence[str], views: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Expand the macros of these statements; the project's own are run anew each time.

    Args:
        settings: The project's settings.
        environment: The environment's name, `@this_env`.
        schemas: The schemas of its views, `@schemas`.
        views: Its views, `@views`.

    Returns:
        Spark SQL of both, in which only time variables are left.

    Raises:
        ProjectError: One cannot be read, or a file of macros is wrong.
    """
    folder = Folder(settings, Hasher(settings.root), ParsedQueries(0), {})
    source = own_files(folder)
    mistakes = source.prepare()
    if mistakes:
        raise ProjectError.of(mistakes)
    values = {"this_env": environment, "schemas": list(schemas), "views": list(views)}
    before, after = (
        read_environment_statements(source.context, stage, texts, values)
        for stage, texts in (("before_all", settings.before_all), ("after_all", settings.after_all))
    )
    return before, after
