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
NoDagster = Annotated[
    bool, typer.Option("--no-dagster", help="Leave out definitions.py, Dagster's code location.")
]


def init(
    folder: Folder = None,
    no_dagster: NoDagster = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a new project that runs as it is.

    It has a seed, a view, an incremental model, an audit, a unit test and a code location for
    Dagster. Nothing is asked, and no file is written over. Example: vde init shop
    """
    from rich.markup import escape

    from vde_dagster.cli.new_project import new_project

    output = Output(as_json)
    target = folder if folder is not None else project
    made = new_project(target, dagster=not no_dagster)
    output.result(
        {"project": str(target), "files": list(made.written), "kept": list(made.kept)},
        lambda console: console.print(
            "\n".join(f"{target / path}" for path in made.written), markup=False
        ),
    )
    if made.kept:
        output.note(f"kept as they were: {', '.join(made.kept)}")
    if ".gitignore" in made.kept:
        output.note("what is computed lies in .vde/ and .dagster_home/: let .gitignore name them")
    if "pyproject.toml" in made.kept:
        output.note(f'a shared state knows the project by [tool.vde] id = "{made.id}": add it')
    if not as_json:
        where = "" if target == Path(".") else escape(f" --project {_quoted(target)}")
        output.note(f"next: vde apply prod{where}")
        if not no_dagster:
            output.note(f"      vde ui{where}")


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
