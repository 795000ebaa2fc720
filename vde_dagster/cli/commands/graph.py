"""`vde dag` and `vde lineage`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODELS]...", help="Only these: name, +name, name+, tag:x or a glob."),
]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="Print a flowchart for Mermaid.")]
Column = Annotated[
    str, typer.Argument(metavar="MODEL[.COLUMN]", help="The model, or one of its columns.")
]
Down = Annotated[bool, typer.Option("--down", help="What is made of it, not what it is made of.")]


def dag(
    models: Models = None,
    mermaid: Mermaid = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which model reads which, as trees that begin with the sources.

    Examples: vde dag; vde dag +marts.daily+; vde dag --mermaid
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.dag_view import dag_json, dag_lines, dag_mermaid
        from vde_dagster.project.selection import select

        every = workspace.project.models
        changed = workspace.warehouse.changed_files
        among = select(every, models, changed) if models else set(every)
        lines = dag_mermaid if mermaid else dag_lines
        output.result(
            dag_json(every, among),
            lambda console: console.print(
                "\n".join(lines(every, among)), markup=False, soft_wrap=True
            ),
        )


def lineage(
    of: Column,
    down: Down = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which columns a column is made of, up to the tables that others write.

    Of a whole model also what decides its rows. Examples: vde lineage marts.daily.revenue;
    vde lineage marts.daily; vde lineage raw.orders.amount --down
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.lineage_view import lineage_json, lineage_lines
        from vde_dagster.planning.trace_columns import require_column, trace, trace_down
        from vde_dagster.project.find_model import model_and_column, no_model

        models = workspace.project.models
        name, column = model_and_column(models, of, workspace.settings.default_namespace)
        if name not in models:
            raise no_model(name, models)
        snapshots = workspace.snapshots()
        snapshot = snapshots[name]
        column = None if column is None else require_column(snapshot, column)
        flows = (trace_down if down else trace)(snapshots, name, column)
        columns = [column] if column else [item.name for item in snapshot.columns]
        # What decides the rows is nobody's column, so nothing is made of it.
        tops = [*columns, *([] if column or down else [None])]
        output.result(
            {**lineage_json(str(name), column, flows), "opaque": snapshot.version.opaque},
            lambda console: console.print(
                "\n".join(lineage_lines(str(name), tops, flows, down=down)),
                markup=False,
                soft_wrap=True,
            ),
        )
        if snapshot.version.opaque and not as_json and not down:
            output.note(f"its query is not understood as a whole: {snapshot.version.opaque}")
