"""`vde ci check`; what is heavy is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

Number = Annotated[
    int, typer.Option("--pr", metavar="NUMBER", min=1, help="The pull or merge request.")
]
Commit = Annotated[
    str, typer.Option(metavar="SHA", help="Its newest commit; the forge is asked by default.")
]


@on_project
def ci_check(workspace: Workspace, output: Output, pr: Number, commit: Commit = "") -> None:
    """Build a pull request in an environment of its own, and tell it in one comment and a check.

    The exit code is 1 when it failed. Example: vde ci check --pr 123
    """
    from vde_dagster.plugins.ci.checking import check_pull_request
    from vde_dagster.plugins.ci.forges.choose import forge_of

    done = check_pull_request(workspace, forge_of(workspace), pr, commit)
    said = {
        "pull_request": done.number,
        "environment": done.environment,
        "passed": done.passed,
        "plan": done.plan_id or None,
        "commit": done.check.commit,
        "annotations": [
            {
                "file": one.path,
                "line": one.line,
                "title": one.title,
                "message": one.message,
                "level": one.level,
            }
            for one in done.check.annotations
        ],
        "comment": done.comment,
    }
    output.result(said, done.comment)
    if not done.passed:
        raise typer.Exit(1)
