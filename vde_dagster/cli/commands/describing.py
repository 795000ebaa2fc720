"""`vde --version` and `vde schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output, print_json


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"vde {version('vde-dagster')}")
        raise typer.Exit


def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Virtual data environments: plan, publish and roll back a warehouse like code."""


def schema(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Print the JSON Schema of a model's properties, for editors and checkers.

    Example: vde schema
    """
    from vde_dagster.project.reading.schema import model_schema

    found = model_schema()
    Output(as_json).result(found, lambda console: print_json(found))
