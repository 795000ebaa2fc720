"""`vde audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, EnvironmentName, Json, ProjectDir
from vde_dagster.cli.output import Output

OfModels = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="MODELS",
        help="Only these: name, +name, name+, tag:name or a glob; give it again for more.",
    ),
]


def audit(
    environment: EnvironmentName,
    model: OfModels = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the audits of what an environment shows.

    Nothing is filled or published; what they find is kept, and shown in Dagster. The exit code is 1
    when an audit that blocks finds rows. Example: vde audit prod --model marts.daily
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.audit_results import audits_json, show_audits

        report = workspace.audit(environment, select=model or ())
        output.result(audits_json(report), lambda console: show_audits(console, report))
    if report.is_blocked:
        raise typer.Exit(1)
