"""`vde metrics list`, `query` and `diff`; nothing heavy is imported before they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.base.texts import count
from vde_dagster.cli.options import RowLimit, on_project
from vde_dagster.cli.output import Output, simple_table
from vde_dagster.cli.shapes import json_value, rows_json, show_rows, text_value

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

Names = Annotated[
    list[str], typer.Argument(metavar="METRIC...", help="Metrics, or one saved query.")
]
Metric = Annotated[
    list[str],
    typer.Option("--metric", "-m", metavar="METRIC", help="The metric; give it again for more."),
]
By = Annotated[
    list[str] | None,
    typer.Option(metavar="DIMENSION", help="Divide by this; give it again for more."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="SQL", help="Only where dimensions meet this; give it again for more."),
]
Grain = Annotated[
    str | None,
    typer.Option(metavar="UNIT", help="Divide the metrics' time by day, week, month, quarter …"),
]
Of = Annotated[
    str,
    typer.Option(
        "--environment", "--env", "-e", metavar="ENV", help="The environment, or dev@7, prod@TIME."
    ),
]
Sql = Annotated[bool, typer.Option("--sql", help="Print the SQL, and run nothing.")]
One = Annotated[str, typer.Argument(metavar="A", help="The environment, or a version of it.")]
Other = Annotated[str, typer.Argument(metavar="B", help="The one that it is compared with.")]


@on_project
def metrics_list(workspace: Workspace, output: Output) -> None:
    """List the project's metrics and saved queries, and what each can be divided by.

    Example: vde metrics list
    """
    from vde_dagster.plugins.metrics.answers import layer_of

    found = list(layer_of(workspace).described())
    rows = [(one.name, one.type, ", ".join(one.by), one.description or "") for one in found]
    told = [
        {
            "name": one.name,
            "type": one.type,
            "label": one.label,
            "description": one.description,
            "by": list(one.by),
            "place": str(one.place),
        }
        for one in found
    ]
    output.result({"metrics": told}, simple_table(("metric", "type", "by", "description"), rows))


@on_project
def metrics_query(
    workspace: Workspace,
    output: Output,
    names: Names,
    by: By = None,
    where: Where = None,
    grain: Grain = None,
    environment: Of = "prod",
    limit: RowLimit = None,
    sql: Sql = False,
) -> None:
    """Ask an environment for metrics, in SQL that MetricFlow writes.

    Examples: vde metrics query revenue --by route --env dev; vde metrics query revenue --grain
    month --where "route = 'JFK-LAX'" --env prod@41
    """
    from vde_dagster.plugins.metrics.answers import answer, layer_of
    from vde_dagster.plugins.metrics.layer import Question

    layer = layer_of(workspace)
    question = Question(tuple(names), tuple(by or ()), tuple(where or ()), grain, limit)
    if sql:
        text = workspace.queries.render(environment, layer.sql(question))
        output.result({"environment": environment, "sql": text}, text)
        return
    result = answer(workspace, layer, question, environment)
    output.result(
        {
            **rows_json(result.columns, result.rows),
            "publication": result.publication_id,
            "version": result.version,
            "read_live": list(result.read_live),
        },
        lambda console: show_rows(console, result.columns, result.rows),
    )
    output.note(f"[dim]{count(len(result.rows), 'row')}[/]")


@on_project
def metrics_diff(
    workspace: Workspace,
    output: Output,
    one: One,
    other: Other,
    metric: Metric,
    by: By = None,
    where: Where = None,
    grain: Grain = None,
) -> None:
    """Compare the values of metrics between two environments, or versions of them.

    Example: vde metrics diff dev prod --metric revenue --by route
    """
    from vde_dagster.plugins.metrics.answers import compare, layer_of
    from vde_dagster.plugins.metrics.layer import Question

    question = Question(tuple(metric), tuple(by or ()), tuple(where or ()), grain)
    found = compare(workspace, layer_of(workspace), question, one, other)
    rows = [
        (*map(text_value, row.by), row.metric, *map(text_value, (row.one, row.other)),
         "" if row.difference is None else text_value(row.difference))
        for row in found.different
    ]  # fmt: skip
    told: list[dict[str, Any]] = [
        {
            "metric": row.metric,
            "by": dict(zip(found.by, map(json_value, row.by), strict=True)),
            "one": json_value(row.one),
            "other": json_value(row.other),
            "difference": json_value(row.difference),
        }
        for row in found.different
    ]
    sides = [
        {"environment": name, "version": version}
        for name, version in zip((one, other), found.versions, strict=True)
    ]
    same = count(found.same, "value")
    value = {"one": sides[0], "other": sides[1], "by": list(found.by), "different": told}
    table = simple_table((*found.by, "metric", one, other, "difference"), rows)
    output.result({**value, "same": found.same}, table if rows else f"{same}, all the same in both")
    if rows:
        output.note(f"[dim]{count(len(rows), 'value')} differ, {same} the same in both[/]")
