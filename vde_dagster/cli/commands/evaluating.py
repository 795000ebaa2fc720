"""`vde evaluate` and `vde table-diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, End, Json, ProjectDir, Start, time_range
from vde_dagster.cli.output import Output

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="The model, as schema.name.")]
InEnvironment = Annotated[
    str, typer.Option("--environment", "-e", metavar="ENV", help="Whose tables the query reads.")
]
RowLimit = Annotated[int, typer.Option("--limit", min=1, help="The most rows to return.")]
First = Annotated[
    str, typer.Argument(metavar="A", help="A table, or two environments as dev:prod.")
]
Second = Annotated[
    str, typer.Argument(metavar="B", help="The table to compare with; or the model.")
]
On = Annotated[
    list[str] | None,
    typer.Option("--on", metavar="COLUMNS", help="The key of a row; by default the model's grain."),
]
Where = Annotated[
    str | None, typer.Option(metavar="SQL", help="Only rows that meet this condition.")
]
SampleLimit = Annotated[int, typer.Option("--limit", min=0, help="The most rows of each sample.")]


def evaluate(
    model: ModelArgument,
    environment: InEnvironment = "prod",
    start: Start = None,
    end: End = None,
    limit: RowLimit = 100,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a model's query, or code, as the files have it, and show its rows; writes nothing.

    Example: vde evaluate marts.daily --start 2024-01-01 --end 2024-01-31 --limit 20
    """
    output = Output(as_json)
    since, until = time_range(start, end)
    with opened(project) as workspace:
        from vde_dagster.cli.plan_view import count
        from vde_dagster.cli.rows_view import rows_json, show_rows
        from vde_dagster.execution.make_plans import require_environment
        from vde_dagster.execution.render_model import evaluate_model

        found = evaluate_model(
            workspace.warehouse,
            workspace.project.models,
            model,
            require_environment(workspace.store, environment),
            since,
            until,
            limit,
        )
        output.result(
            {
                "model": str(found.model),
                "environment": environment,
                **found.interval.to_json(),
                **rows_json(found.columns, found.rows),
                "statements_left_out": found.left_out,
            },
            lambda console: show_rows(console, found.columns, found.rows),
        )
        if not as_json:
            output.note(f"[dim]{count(len(found.rows), 'row')}[/]")
            if found.left_out:
                output.note(f"not run: {count(found.left_out, 'statement')} before the query")


def table_diff(
    first: First,
    second: Second,
    on: On = None,
    where: Where = None,
    limit: SampleLimit = 10,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two tables, or a model in two environments: columns, rows by a key, samples.

    Examples: vde table-diff prod:dev marts.daily --on day;
    vde table-diff marts.daily crm.old.daily --on day,shop --where "day > '2024-01-01'"
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.table_diff_view import comparison_json, show_comparison
        from vde_dagster.errors import UsageError
        from vde_dagster.execution.compare_tables import (
            compare_tables,
            table_in_spark,
            tables_of_environments,
        )

        warehouse = workspace.warehouse
        grain: tuple[str, ...] = ()
        if ":" in first:
            source, target, grain = tables_of_environments(warehouse, first, second)
        else:
            source, target = (table_in_spark(warehouse, one) for one in (first, second))
        keys = [key.strip() for text in on or () for key in text.split(",") if key.strip()]
        if not (keys or grain):
            raise UsageError(
                "it is not known what tells rows apart",
                hint="name the key with --on, or give the model a grain",
            )
        found = compare_tables(
            workspace.engine(), source, target, keys or grain, where=where, limit=limit
        )
        output.result(comparison_json(found), lambda console: show_comparison(console, found))
