"""`vde init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="DIR", help="The new project's folder; by default that of --project."),
]


def init(
    folder: Folder = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a new project that runs as it is.

    It has a seed, a view, an incremental model and a unit test.
    """
    from vde_dagster.cli.new_project import new_project

    output = Output(as_json)
    target = folder if folder is not None else project
    written = new_project(target)
    output.result(
        {"project": str(target), "files": written},
        lambda console: console.print(
            "\n".join(f"{target / path}" for path in written), markup=False
        ),
    )
    if not as_json:
        output.note(f"next: vde apply prod --project {target}")
