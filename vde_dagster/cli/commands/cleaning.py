"""`vde janitor` and `vde clean`."""

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

    A table is unused when no kept version of any environment shows it. Example:
    vde janitor --dry-run
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.janitor_view import show_janitor

        report = workspace.janitor(dry_run=dry_run)
        output.result(report.to_json(), lambda console: show_janitor(console, report))
    if report.failures:
        raise typer.Exit(1)


def clean(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Delete what is only remembered to be faster: .vde/cache.

    State, tables and reports of failures stay. Example: vde clean --project shop
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.project.loading.clean import clean_caches

        deleted = clean_caches(workspace.root)
        from vde_dagster.cli.janitor_view import size
        from vde_dagster.cli.plan_view import count

        freed = sum(deleted.values())
        output.result(
            {"files": list(deleted), "bytes": freed},
            lambda console: console.print(
                f"deleted {count(len(deleted), 'file')}, {size(freed) or '0 B'}"
            ),
        )
