"""`vde janitor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be dropped, and why.")]


def janitor(
    dry_run: DryRun = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Drop expired environments and unused tables.

    A table is unused when no kept version of any environment shows it.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.janitor_view import show_janitor

        report = workspace.janitor(dry_run=dry_run)
        output.result(report.to_json(), lambda console: show_janitor(console, report))
    if report.failures:
        raise typer.Exit(1)
