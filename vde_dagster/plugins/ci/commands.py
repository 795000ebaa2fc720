"""`vde ci check` and `vde ci deploy`; what is heavy is imported when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.plugins.ci.checking import Checked
    from vde_dagster.plugins.ci.deploying import Deployed

Number = Annotated[
    int, typer.Option("--pr", metavar="NUMBER", min=1, help="The pull or merge request.")
]
Commit = Annotated[
    str, typer.Option(metavar="SHA", help="Its newest commit; the forge is asked by default.")
]
Merged = Annotated[
    int,
    typer.Option("--pr", metavar="NUMBER", min=0, help="What was merged, in place of asking."),
]
CheckedOut = Annotated[
    str, typer.Option(metavar="SHA", help="The commit that has to be checked out; by default any.")
]

WAITS = 3
"""Exit code of a deployment that changed nothing, as its plan waits for an approval."""


@on_project
def ci_check(workspace: Workspace, output: Output, pr: Number, commit: Commit = "") -> None:
    """Build a pull request in an environment of its own, and tell it in one comment and a check.

    The exit code is 1 when it failed. Example: vde ci check --pr 123
    """
    from vde_dagster.plugins.ci.checking import check_pull_request
    from vde_dagster.plugins.ci.forges.choose import forge_of

    _show_check(output, check_pull_request(workspace, forge_of(workspace), pr, commit))


def _show_check(output: Output, done: Checked) -> None:
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


@on_project
def ci_deploy(
    workspace: Workspace, output: Output, pr: Merged = 0, commit: CheckedOut = ""
) -> None:
    """Publish a merged commit to production, as people saw it on its pull request.

    Tables that the check built are used. The exit code is 3 where the plan does something that
    nobody saw, or a rule asks for an approval: nothing is changed then, and the plan waits.

    Example: vde ci deploy
    """
    from vde_dagster.plugins.ci.deploying import deploy
    from vde_dagster.plugins.ci.forges.choose import forge_of

    _show_deploy(output, deploy(workspace, forge_of(workspace), commit, pr))


def _show_deploy(output: Output, done: Deployed) -> None:
    from rich.markup import escape

    output.result(done.to_json(), done.sentence)
    for reason in done.reasons:
        output.note(f"  {escape(reason)}")
    if done.waits:
        if done.outcome == "waiting":
            output.note(f"approve it in Dagster, or: vde apply prod --plan {done.plan_id}")
        raise typer.Exit(WAITS)
    if done.failed:
        from vde_dagster.cli.applying import show_failed_statements

        show_failed_statements(output.err, done.failed)
        raise typer.Exit(1)
