"""`vde schema`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output, print_json


def schema(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Print the JSON Schema of a model's properties, for editors and checkers."""
    from vde_dagster.project.reading.schema import model_schema

    found = model_schema()
    Output(as_json).result(found, lambda console: print_json(found))
