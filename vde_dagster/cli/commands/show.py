"""Command `vde show`: rows of a published model, read without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.commands.inspecting import At, DefaultRowLimit, Where
from vde_dagster.cli.options import ModelArgument, on_project
from vde_dagster.cli.output import Output

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

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
