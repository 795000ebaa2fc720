"""`vde fsck`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output, simple_table

Deep = Annotated[
    bool, typer.Option("--deep", help="Read the footers of data files, too; takes longer.")
]


def fsck(
    project: ProjectDir = Path("."),
    deep: Deep = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Look for missing and damaged files, lost views and tables, and say what to do.

    Repairs nothing. The exit code is 1 when something is damaged. Example: vde fsck --deep
    """
    output = Output(as_json)
    with opened(project) as workspace:
        findings = workspace.fsck(deep=deep)
        output.result(
            {"findings": [finding.to_json() for finding in findings]},
            lambda console: console.print(
                simple_table(
                    ("problem", "subject", "detail", "what to do"),
                    [
                        (f.problem.replace("_", " "), f.subject, f.detail, f.advice)
                        for f in findings
                    ],
                )
                if findings
                else "every pointer leads to its files, which are whole"
            ),
        )
    if any(finding.is_damage for finding in findings):
        raise typer.Exit(1)
