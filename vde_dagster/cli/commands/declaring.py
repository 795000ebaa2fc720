"""`vde create-external-models`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be declared.")]


def create_external_models(
    dry_run: DryRun = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Declare the tables that models read and others write, with the columns that they have.

    Adds to external_models.yaml what is not declared anywhere. Spark is not started: columns are
    read from the project's catalog.

    Example: vde create-external-models --dry-run
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.execution.declare_tables import declare_tables

        done = declare_tables(workspace.warehouse, workspace.project.models, dry_run=dry_run)
        verb = "would declare" if dry_run else "declared"
        lines = [f"{verb} {name} with {len(own)} columns" for name, own in done.added.items()]
        output.result(
            done.to_json(),
            lambda console: console.print(
                "\n".join(lines) or "nothing to declare", markup=False, soft_wrap=True
            ),
        )
        if not as_json:
            for name in done.absent:
                output.note(f"{name} is not in the project's catalog: declare it by hand")
