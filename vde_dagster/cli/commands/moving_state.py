"""`vde state export` and `vde state import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

state = typer.Typer(help="Move the state and the catalog between databases.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file, gzipped JSON lines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file when it exists.")]


@state.command("export")
def export_state(
    file: File,
    force: Force = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write state and catalog to one file; tables' data files stay where they are.

    Example: vde state export state.jsonl.gz
    """
    output = Output(as_json)
    with opened(project) as workspace:
        counts = workspace.export_state(file, replace=force)
        _show(output, file, counts, "written to")


@state.command("import")
def import_state(
    file: File, project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False
) -> None:
    """Read a file of `export` into the project's state database, which must be empty.

    Example: vde state import state.jsonl.gz
    """
    output = Output(as_json)
    with opened(project) as workspace:
        counts = workspace.import_state(file)
        _show(output, file, counts, "read from")


def _show(output: Output, file: Path, counts: dict[str, int], verb: str) -> None:
    output.result(
        {"file": str(file), "rows": counts},
        lambda console: console.print(f"{sum(counts.values())} rows {verb} {file}"),
    )
