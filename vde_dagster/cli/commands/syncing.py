"""`vde sync`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output


def sync(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Bring Dagster's record up to the state store.

    Works on the Dagster instance in DAGSTER_HOME; does nothing the second time.
    """
    output = Output(as_json)
    from vde_dagster.orchestration.sync import sync_project

    written = sync_project(project)
    output.result(
        {"events": written},
        lambda console: console.print(f"{written} events written to Dagster"),
    )
