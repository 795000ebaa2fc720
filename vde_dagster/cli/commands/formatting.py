"""`vde format`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.format_files import Formatted

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILES|MODELS]...", help="Only these: files, or name, +name, name+, tag:x, a glob."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; say which files are not laid out.")
]


def format_sql(
    files: Files = None,
    check: Check = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Lay out files of models and audits; words, comments, macros and templates stay as they are.

    A file of which another model, or another version of it, would come is left alone. The exit code
    is 1 when one was, or with --check when one is not laid out. Examples: vde format;
    vde format models/sales/orders.sql; vde format sales.* --check
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.execution.format_files import format_files

        done = format_files(workspace, files or (), check=check)
        output.result(
            {
                "files": done.looked_at,
                "changed": done.changed,
                "left_alone": [
                    {
                        "file": error.location.path.as_posix() if error.location else None,
                        "line": error.location.line if error.location else None,
                        "reason": error.message,
                    }
                    for error in done.left_alone
                ],
            },
            lambda console: _show(console, done, check),
        )
    if done.left_alone or (check and done.changed):
        raise typer.Exit(1)


def _show(console: Console, done: Formatted, check: bool) -> None:
    from vde_dagster.cli.plan_view import count

    verb = "would lay out" if check else "laid out"
    lines = [f"{verb} {path}" for path in done.changed]
    lines += [f"left alone {error.location}: {error.message}" for error in done.left_alone]
    if not lines:
        lines = [f"{count(done.looked_at, 'file')}: nothing to lay out"]
    console.print("\n".join(lines), markup=False, soft_wrap=True)
