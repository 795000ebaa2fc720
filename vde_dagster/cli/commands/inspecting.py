"""Commands `vde info`, `render`, `query`, `show`, `evaluate`, `table-name`, `table-diff`, `dag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.options import ModelArgument, Models, RowLimit, on_project, with_plan_options
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions

if TYPE_CHECKING:
    from vde_dagster.execution.changes.show_refresh import TableRefresh
    from vde_dagster.execution.workspace import Workspace

InEnvironment = Annotated[
    str, typer.Option("--environment", "-e", metavar="ENV", help="Environment to read from.")
]
Sql = Annotated[
    str,
    typer.Argument(metavar="SQL", help="A query; model names refer to the environment's views."),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Run the SQL without checks, even if it reads files or calls Java."),
]
VersionName = Annotated[
    str,
    typer.Argument(metavar="ENV", help="Environment or version: prod, prod@41, prod@2024-01-31."),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Use the version current at this time (UTC)."),
]


Refresh = Annotated[
    bool, typer.Option("--refresh", help="Print the SQL that finds rows affected by changes.")
]
WithPlugins = Annotated[
    bool,
    typer.Option("--plugins", help="List all plug-ins, not only those that cannot be imported."),
]


@on_project
def info(workspace: Workspace, output: Output, plugins: WithPlugins = False) -> None:
    """Describe the project: models, settings, environments.

    Example: vde info --plugins
    """
    from vde_dagster.cli.project_view import project_info, show_info

    found = project_info(workspace)
    output.result(found, lambda console: show_info(console, found, plugins=plugins))


@with_plan_options("start", "end")
def render(
    workspace: Workspace,
    output: Output,
    model: ModelArgument,
    environment: InEnvironment = "prod",
    options: PlanOptions = NOTHING_SAID,
    refresh: Refresh = False,
) -> None:
    """Print the SQL that Spark runs for a model or a standalone audit.

    Examples: vde render marts.daily --environment dev --start 2024-01-01 --end 2024-01-31; vde
    render marts.customers --refresh
    """
    from vde_dagster.execution.project_files.format_files import format_query
    from vde_dagster.execution.published_version import require_environment

    shown = require_environment(workspace.store, environment)
    value = {"model": str(workspace.models.find(model).name), "environment": shown}
    if refresh:
        if options:
            raise UsageError(
                "--refresh prints no intervals and cannot be combined with --start and --end",
                hint="remove --refresh, or --start and --end",
            )
        tables = workspace.models.refresh(model, shown)
        rows = [one.to_json() for one in tables]
        output.result({**value, "tables": rows}, "\n\n".join(map(_refresh_text, tables)))
        return
    sql = workspace.models.render(model, shown, options.start, options.end)
    pretty = format_query(sql, workspace.settings)
    output.result({**value, "sql": pretty}, pretty)


def _refresh_text(refresh: TableRefresh) -> str:
    changed = "only gained rows" if refresh.only_added else "changed"
    if refresh.why_all:
        return f"-- {refresh.table} {changed}: all rows are computed, as {refresh.why_all}"
    key = ", ".join(refresh.key)
    done = {
        "keys": f"the rows with these values of {key} are computed",
        "rows": "these rows are added"
        if refresh.only_added
        else "these rows are added, or deleted if vde_sign is -1",
        "groups": f"the result is merged into the rows of each {key}"
        if key
        else "the result is merged",
    }[refresh.method]
    return f"-- {refresh.table} {changed}: {done}\n{refresh.sql}"


@on_project
def table_name(
    workspace: Workspace, output: Output, model: ModelArgument, environment: InEnvironment = "prod"
) -> None:
    """Print the physical table that holds a model's rows in an environment.

    For a model without a table, prints its view. Example: vde table-name marts.daily --environment
    dev
    """
    from vde_dagster.execution.published_version import name_table
    from vde_dagster.planning.environments.environment import environment_name

    found = name_table(workspace, environment_name(environment), model)
    output.result(found.to_json(), found.table or found.view or str(found.model))
    if found.branch:
        output.note(f"its rows are on branch {found.branch}")
    if found.table is None and found.view is not None:
        output.note(f"{found.model} has no table: this is its view")


@on_project
def query(
    workspace: Workspace,
    output: Output,
    environment: VersionName,
    sql: Sql,
    at: At = None,
    limit: RowLimit = None,
    raw: Raw = False,
) -> None:
    """Run a query on an environment's views, or on one of its published versions.

    prod@41 means version 41; prod --at 2026-11-01T06:00 means the version that was current then.
    Example: vde query prod "SELECT count(*) FROM marts.daily"
    """
    output.query_result(workspace.query(environment, sql, limit, raw=raw, at=at))


DefaultRowLimit = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows.")]
First = Annotated[
    str, typer.Argument(metavar="A", help="The first table, or two environments: dev:prod.")
]
Second = Annotated[str, typer.Argument(metavar="B", help="The second table, or a model.")]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="COLUMNS", help="Key columns; default: the model's grain."),
]
Where = Annotated[str | None, typer.Option(metavar="SQL", help="Condition on the rows to compare.")]
SampleLimit = Annotated[int, typer.Option("--limit", min=0, help="Maximum rows per sample.")]


@with_plan_options("start", "end")
def evaluate(
    workspace: Workspace,
    output: Output,
    model: ModelArgument,
    environment: InEnvironment = "prod",
    options: PlanOptions = NOTHING_SAID,
    limit: DefaultRowLimit = 100,
) -> None:
    """Run the query or code of a model's current file and show its rows; writes nothing.

    Example: vde evaluate marts.daily --start 2024-01-01 --end 2024-01-31 --limit 20
    """
    from vde_dagster.base.texts import count
    from vde_dagster.cli.shapes import rows_json
    from vde_dagster.execution.published_version import require_environment
    from vde_dagster.terminal.tables import show_rows

    shown = require_environment(workspace.store, environment)
    found = workspace.models.evaluate(model, shown, options.start, options.end, limit)
    output.result(
        {
            "model": str(found.model),
            "environment": shown,
            **found.interval.to_json(),
            **rows_json(found.columns, found.rows),
            "statements_left_out": found.left_out,
        },
        lambda console: show_rows(console, found.columns, found.rows),
    )
    output.note(f"[dim]{count(len(found.rows), 'row')}[/]")
    if found.left_out:
        output.note(f"not executed: {count(found.left_out, 'statement')} before the query")


@on_project
def table_diff(
    workspace: Workspace,
    output: Output,
    first: First,
    second: Second,
    on: On = None,
    where: Where = None,
    limit: SampleLimit = 10,
) -> None:
    """Compare two tables, or a model in two environments: columns, rows by key, samples.

    Examples: vde table-diff prod:dev marts.daily --on day; vde table-diff marts.daily crm.old.daily
    --on day,shop --where "day > '2024-01-01'"
    """
    from vde_dagster.cli.shapes import comparison_json, show_comparison
    from vde_dagster.execution.environments.compare_tables import (
        common_grain,
        compare_tables,
        quote_table_name,
        views_to_compare,
    )

    grain: tuple[str, ...] = ()
    if ":" in first:
        source, target, grain = views_to_compare(workspace, first, second)
    else:
        source, target = (quote_table_name(workspace, name) for name in (first, second))
        grain = common_grain(workspace, first, second) if not on else ()
    keys = [key for text in on or () for key in _names(text)]
    if not (keys or grain):
        raise UsageError(
            "the tables cannot be compared without key columns",
            hint="add --on COLUMNS, or declare grain (COLUMNS) in the model",
        )
    found = compare_tables(
        workspace.engine(), source, target, keys or grain, where=where, limit=limit
    )
    output.result(comparison_json(found), lambda console: show_comparison(console, found))


Mermaid = Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flowchart.")]


@on_project
def dag(
    workspace: Workspace, output: Output, models: Models = None, mermaid: Mermaid = False
) -> None:
    """Show the dependency graph of models, as trees from the sources.

    Examples: vde dag; vde dag +marts.daily+; vde dag --mermaid
    """
    from vde_dagster.cli.project_view import dag_json, dag_lines, dag_mermaid
    from vde_dagster.project.selection import select

    if mermaid and output.as_json:
        raise UsageError("--json and --mermaid cannot be combined", hint="remove one of them")
    every = workspace.project.models
    among = select(every, models or (), workspace.changed_files)
    lines = dag_mermaid if mermaid else dag_lines
    output.result(dag_json(every, among), "\n".join(lines(every, among)))


Shown = Annotated[
    str,
    typer.Option(
        "--environment", "-e", metavar="ENV", help="The environment, or a version of it: dev@7."
    ),
]
Columns = Annotated[str, typer.Option(metavar="COLUMNS", help="Columns, separated by commas.")]
Order = Annotated[
    str, typer.Option(metavar="COLUMNS", help="Columns to sort by; - means descending: -day,shop.")
]


@on_project
def show(
    workspace: Workspace,
    output: Output,
    model: ModelArgument,
    environment: Shown = "prod",
    at: At = None,
    columns: Columns = "",
    where: Where = None,
    order_by: Order = "",
    limit: DefaultRowLimit = 100,
) -> None:
    """Show rows of a model in an environment, or in one of its versions, without Spark.

    The model must have a table. Examples: vde show marts.daily; vde show marts.daily -e prod@2
    --where "day >= '2024-01-02'" --order-by -day --limit 5
    """
    from vde_dagster.base.texts import count
    from vde_dagster.cli.shapes import rows_json
    from vde_dagster.execution.query.read_rows import read_rows, rows_as_tuples
    from vde_dagster.terminal.tables import show_rows

    read = read_rows(
        *(workspace, environment, model, _names(columns)),
        where=where,
        order_by=_names(order_by),
        limit=limit,
        at=at,
    )
    rows = rows_as_tuples(read.rows)
    output.result(
        {**rows_json(read.columns, rows), "version": read.version},
        lambda console: show_rows(console, read.columns, rows),
    )
    more = "; for more, raise --limit" if len(rows) == limit else ""
    output.note(f"[dim]{count(len(rows), 'row')} of version {read.version}{more}[/]")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
