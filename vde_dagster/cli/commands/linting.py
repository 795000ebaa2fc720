"""`vde lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODELS]...", help="Only these: name, +name, name+, tag:x or a glob."),
]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--rule", metavar="RULE", help="Look at this rule instead of the settings' ones; or all."
    ),
]


def lint(
    models: Models = None,
    rule: Rules = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Look at models by the rules of the linter; the exit code is 2 when one is broken.

    Which are errors and which warnings is said under [tool.vde.linter], or in SQLMesh's
    configuration. Examples: vde lint; vde lint sales.orders+; vde lint --rule noselectstar
    """
    output = Output(as_json)
    with opened(project) as workspace:
        linter = workspace.linter(rule or ())
        among = None
        if models:
            from vde_dagster.project.selection import select

            changed = workspace.warehouse.changed_files
            among = select(workspace.project.models, models, changed)
        findings, looked_at = [], 0
        if not linter.is_idle:
            findings = linter.findings(workspace.snapshots(), among)
            looked_at = linter.count(among)
        from vde_dagster.cli.lint_view import lint_json, show_lint

        output.result(
            lint_json(findings, looked_at),
            lambda console: show_lint(console, findings, looked_at, idle=linter.is_idle),
        )
    if any(finding.certain for finding in findings):
        raise typer.Exit(2)
