"""`vde environments`, `vde history`, `vde rollback` and `vde drop`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, EnvironmentName, Json, ProjectDir
from vde_dagster.cli.output import Output, simple_table
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.state.environments import EnvironmentSummary

Version = Annotated[
    int | None,
    typer.Option(
        "--to", min=1, metavar="VERSION", help="The version; by default the last different one."
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="The most versions to list.")]


def environments(
    project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False
) -> None:
    """List the environments."""
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.shapes import environment_json, short_time

        found = workspace.store.environments.summaries()
        columns = ["environment", "version", "models", "published (UTC)", "by", "expires (UTC)"]
        rows = [
            (
                environment.name,
                environment.version,
                environment.models,
                short_time(environment.published_at),
                environment.published_by,
                short_time(environment.expires_at) or "never",
                _standing(environment),
            )
            for environment in found
        ]
        if any(row[-1] for row in rows):
            columns.append("shows")
        table = simple_table(tuple(columns), [row[: len(columns)] for row in rows])
        output.result(
            {"environments": [environment_json(environment) for environment in found]},
            lambda console: console.print(table if found else "no environment was published yet"),
        )


def _standing(environment: EnvironmentSummary) -> str:
    """Say what of an environment does not follow its tables."""
    if environment.frozen is not None:
        return f"frozen {environment.frozen}"
    models = "1 model" if environment.held == 1 else f"{environment.held} models"
    return f"{models} as before" if environment.held else ""


def history(
    environment: EnvironmentName,
    limit: Limit = 20,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the versions of an environment, newest first, with what each changed."""
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.history_view import history_json, show_history
        from vde_dagster.execution.version_changes import version_changes
        from vde_dagster.planning.environment import environment_name

        name = environment_name(environment)
        changes = version_changes(workspace.warehouse, name, limit)
        if not changes:
            raise UsageError(
                f"there is no environment '{name}'", hint="`vde environments` lists them"
            )
        output.result(history_json(name, changes), lambda console: show_history(console, changes))


def rollback(
    environment: EnvironmentName,
    to: Version = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Publish an earlier version of an environment again.

    No data is computed or moved.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.applying import failed_statements_json, show_failed_statements
        from vde_dagster.cli.shapes import environment_json

        result = workspace.rollback(environment, to)
        missing = {str(name): ranges.to_json() for name, ranges in result.missing.items()}
        output.result(
            {
                "environment": environment_json(result.environment),
                "restored": result.restored,
                "missing": missing,
                "reverted": {str(one.name): one.to_json() for one in result.reverted},
                "failed_statements": failed_statements_json(result.failed_statements),
            },
            lambda console: console.print(
                f"[bold]{result.environment.name}[/] is at version {result.environment.version}, "
                f"equal to version {result.restored}"
            ),
        )
        for one in () if as_json else result.reverted:
            output.note(f"{one.name} {'; '.join(one.sentences())}")
        if missing and not as_json:
            output.note(
                f"fallen due since and not filled: {', '.join(missing)}; "
                f"fill it with: vde run {result.environment.name}"
            )
        if result.failed_statements:
            show_failed_statements(output.err, result.failed_statements)
            raise SystemExit(1)


def drop(
    environment: EnvironmentName,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Let an environment expire now.

    The next `vde janitor` removes its views and what only it used.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        workspace.drop_environment(environment)
        name = environment.strip().lower()
        output.result(
            {"environment": name, "dropped": True},
            lambda console: console.print(
                f"[bold]{name}[/] has expired; `vde janitor` removes its views and tables"
            ),
        )
