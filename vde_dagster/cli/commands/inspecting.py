"""`vde info`, `vde render`, `vde table-name` and `vde query`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, End, Json, ProjectDir, Start, time_range
from vde_dagster.cli.output import Output

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model, as schema.name.")]
InEnvironment = Annotated[
    str, typer.Option("--environment", "-e", metavar="ENV", help="Whose tables the SQL reads.")
]
Sql = Annotated[
    str, typer.Argument(metavar="SQL", help="A query; model names mean the environment's views.")
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Run the SQL whatever it reads and calls, files and Java included."),
]
VersionName = Annotated[
    str,
    typer.Argument(
        metavar="ENV", help="The environment, or a version of it: prod, prod@41, prod@2024-01-31."
    ),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="The version that was current then (UTC)."),
]
RowLimit = Annotated[int | None, typer.Option("--limit", min=1, help="The most rows to return.")]


def info(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Describe the project: settings, models, environments.

    Example: vde info --json
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.project_info import project_info, show_info

        found = project_info(workspace)
        output.result(found, lambda console: show_info(console, found))


def render(
    model: ModelArgument,
    environment: InEnvironment = "prod",
    start: Start = None,
    end: End = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the SQL that Spark runs for a model, or for an audit of its own.

    Example: vde render marts.daily --environment dev --start 2024-01-01 --end 2024-01-31
    """
    output = Output(as_json)
    since, until = time_range(start, end)
    with opened(project) as workspace:
        from vde_dagster.execution.make_plans import require_environment

        sql = workspace.render(
            model,
            environment=require_environment(workspace.store, environment),
            start=since,
            end=until,
        )
        from vde_dagster.sql.shape import broken_into_lines

        pretty = broken_into_lines(sql)
        output.result(
            {"model": model.lower(), "environment": environment, "sql": pretty},
            lambda console: console.print(pretty, markup=False),
        )


def table_name(
    model: ModelArgument,
    environment: InEnvironment = "prod",
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the physical table that holds a model's rows, as an environment shows it.

    Of a model without a table its view. Example: vde table-name marts.daily --environment dev
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.execution.name_table import name_table
        from vde_dagster.planning.environment import environment_name

        found = name_table(workspace.warehouse, environment_name(environment), model)
        output.result(
            found.to_json(),
            lambda console: console.print(
                found.table or found.view or str(found.model), markup=False, soft_wrap=True
            ),
        )
        if not as_json and found.branch:
            output.note(f"its rows are on the branch {found.branch}")
        if not as_json and found.table is None and found.view is not None:
            output.note(f"{found.model} has no table: this view is its query")


def query(
    environment: VersionName,
    sql: Sql,
    at: At = None,
    limit: RowLimit = None,
    raw: Raw = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a query on an environment's views, or on one of its versions as it was published.

    Examples: vde query prod "SELECT count(*) FROM marts.daily"; the same of version 41 with
    prod@41, of what was current at a time with prod --at 2026-11-01T06:00
    """
    output = Output(as_json)
    with opened(project) as workspace:
        result = workspace.query(environment, sql, limit, raw=raw, at=at)
        from vde_dagster.cli.rows_view import rows_json, show_rows

        output.result(
            {
                **rows_json(result.columns, result.rows),
                "publication": result.publication_id,
                "version": result.version,
                "read_live": list(result.read_live),
            },
            lambda console: show_rows(console, result.columns, result.rows),
        )
        if not as_json:
            from vde_dagster.cli.plan_view import count

            output.note(f"[dim]{count(len(result.rows), 'row')}[/]")
            if result.read_live:
                tables = ", ".join(result.read_live)
                output.note(f"read as they are now, as versions pin no external tables: {tables}")
