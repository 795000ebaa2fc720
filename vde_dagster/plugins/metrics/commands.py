from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.api.commands import Output, on_project, simple_table
from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import count, json_value, text_value

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

Names = Annotated[
    list[str], typer.Argument(metavar="METRIC...", help="Metrics, or one saved query.")
]
Metric = Annotated[
    list[str], typer.Option("--metric", "-m", metavar="METRIC", help="The metric; repeatable.")
]
By = Annotated[
    list[str] | None, typer.Option(metavar="DIMENSION", help="Group by this dimension; repeatable.")
]
Where = Annotated[
    list[str] | None, typer.Option(metavar="SQL", help="A condition on dimensions; repeatable.")
]
Grain = Annotated[
    str | None,
    typer.Option(metavar="UNIT", help="Group by the metrics' time: day, week, month, quarter …"),
]
Of = Annotated[
    str,
    typer.Option(
        "--environment",
        "--env",
        "-e",
        metavar="ENV",
        help="An environment, or its version: dev@7, prod@TIME.",
    ),
]
OfFiles = Annotated[
    str | None,
    typer.Option(
        "--environment",
        "--env",
        "-e",
        metavar="ENV",
        help="An environment's metrics, such as dev or prod@7; default: metrics in the files.",
    ),
]
RowLimit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of rows.")]
Sql = Annotated[bool, typer.Option("--sql", help="Print the SQL without running it.")]
To = Annotated[Path | None, typer.Option("--to", metavar="FILE", help="Write to a file.")]
One = Annotated[str, typer.Argument(metavar="A", help="An environment or a version: dev, prod@7.")]
Other = Annotated[
    str, typer.Argument(metavar="B", help="Environment or version to compare with A.")
]


@on_project
def metrics_list(workspace: Workspace, output: Output, environment: OfFiles = None) -> None:
    """List the project's metrics and saved queries, and the dimensions of each.

    Examples: vde metrics list; vde metrics list --env prod@41
    """
    from vde_dagster.plugins.metrics.kept import semantic_layer

    found = list(semantic_layer(workspace, environment).list_metrics())
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
    """Query metrics in an environment, with SQL that MetricFlow writes.

    Examples: vde metrics query revenue --by route --env dev; vde metrics query revenue --grain
    month --where "route = 'JFK-LAX'" --env prod@41
    """
    from vde_dagster.plugins.metrics.kept import require_published_metrics, semantic_layer
    from vde_dagster.plugins.metrics.layer import Question

    layer = semantic_layer(workspace, environment)
    require_published_metrics(workspace, layer, names, environment)
    question = Question(tuple(names), tuple(by or ()), tuple(where or ()), grain, limit)
    query = layer.sql(question)
    if sql:
        text = workspace.queries.render(environment, query)
        output.result({"environment": environment, "sql": text}, text)
        return
    output.query_result(workspace.query(environment, query))


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
    """Compare the values of metrics between two environments, or two versions of environments.

    Example: vde metrics diff dev prod --metric revenue --by route
    """
    from vde_dagster.plugins.metrics.answers import compare
    from vde_dagster.plugins.metrics.kept import require_published_metrics, semantic_layer
    from vde_dagster.plugins.metrics.layer import Question

    question = Question(tuple(metric), tuple(by or ()), tuple(where or ()), grain)
    layers = (semantic_layer(workspace, one), semantic_layer(workspace, other))
    for layer, environment in zip(layers, (one, other), strict=True):
        require_published_metrics(workspace, layer, metric, environment)
    found = compare(workspace, layers, question, one, other)
    rows = [
        (*map(text_value, row.key), row.metric, *map(text_value, (row.first, row.second)),
         "" if row.difference is None else text_value(row.difference))
        for row in found.different
    ]  # fmt: skip
    told: list[dict[str, Any]] = [
        {
            "metric": row.metric,
            "by": dict(zip(found.dimensions, map(json_value, row.key), strict=True)),
            "one": json_value(row.first),
            "other": json_value(row.second),
            "difference": json_value(row.difference),
        }
        for row in found.different
    ]
    sides = [
        {"environment": name, "version": version}
        for name, version in zip((one, other), found.versions, strict=True)
    ]
    same = count(found.equal_values, "value")
    value = {"one": sides[0], "other": sides[1], "by": list(found.dimensions), "different": told,
             "redefined": list(found.redefined_metrics)}  # fmt: skip
    table = simple_table((*found.dimensions, "metric", one, other, "difference"), rows)
    output.result({**value, "same": found.equal_values}, table if rows else f"{same}, all equal")
    if found.redefined_metrics:
        names = ", ".join(found.redefined_metrics)
        output.note(f"defined differently in {other} than in {one}: {names}")
    if rows:
        output.note(f"[dim]{count(len(rows), 'value')} different, {same} equal[/]")


@on_project
def metrics_export(
    workspace: Workspace, output: Output, environment: Of = "prod", to: To = None
) -> None:
    """Write semantic models and metrics as Apache Ossie (OSI) YAML, over an environment's views.

    Example: vde metrics export --env prod --to ossie.yaml
    """
    from vde_dagster.plugins.metrics.kept import semantic_layer
    from vde_dagster.plugins.metrics.ossie import make_document

    layer, settings = semantic_layer(workspace, environment), workspace.settings
    shown = workspace.environments.named(environment)
    document = make_document(layer, shown, settings.catalog, settings.name)
    text = document.yaml()
    if to is not None:
        try:
            to.write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {to}: {error.strerror}", hint="--to FILE") from error
    metrics = len(document.value["semantic_model"][0].get("metrics") or ())
    told = {"file": str(to) if to else None, "metrics": metrics, "left_out": document.left_out}
    said = f"{count(metrics, 'metric')} of {environment} are in {to}" if to else text.rstrip()
    output.result({**told, **({} if to else {"document": document.value})}, said)
    for one in document.left_out:
        output.note(f"Ossie cannot represent all of {one}")
