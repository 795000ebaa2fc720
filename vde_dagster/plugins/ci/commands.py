"""`vde ci check`, `deploy`, `close` and `run`; what is heavy is imported when it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

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
ForkLabel = Annotated[
    str,
    typer.Option(
        metavar="LABEL", help="Run a fork's code where somebody who read it gives it this label."
    ),
]

Base = Annotated[
    str,
    typer.Option(
        metavar="COMMIT", help="Whose rules count as well; by default the branch it goes to."
    ),
]

WAITS = 3
"""Exit code of a deployment that changed nothing, as its plan waits for an approval."""


@on_project
def ci_check(
    workspace: Workspace, output: Output, pr: Number, commit: Commit = "", base: Base = ""
) -> None:
    """Build a pull request in an environment of its own, with one comment and a check.

    Rules and budgets of the base branch count as well as its own. The exit code is 1 when it
    failed. Example: vde ci check --pr 123
    """
    from vde_dagster.plugins.ci.checking import check_pull_request
    from vde_dagster.plugins.ci.forges.choose import forge_of

    _show_check(output, check_pull_request(workspace, forge_of(workspace), pr, commit, base))


def _show_check(output: Output, done: Checked, **more: Any) -> None:
    said = {
        **more,
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


def _show_deploy(output: Output, done: Deployed, **more: Any) -> None:
    from rich.markup import escape

    output.result({**more, **done.to_json()}, done.sentence)
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


@on_project
def ci_close(workspace: Workspace, output: Output, pr: Number) -> None:
    """Drop the environment of a pull request that was closed, merged or not.

    Example: vde ci close --pr 123
    """
    from vde_dagster.plugins.ci.deploying import close
    from vde_dagster.plugins.ci.forges.choose import forge_of

    done = close(workspace, forge_of(workspace), pr)
    output.result(done.to_json(), done.sentence)


@on_project
def ci_run(workspace: Workspace, output: Output, fork_label: ForkLabel = "") -> None:
    """Do what a job of GitHub or GitLab is for: a check, a deployment, or a close.

    Its variables say what happened. Code of a fork is refused (exit code 2) before any of it is
    read; otherwise the exit codes are those of the command that is run.

    Example: vde ci run
    """
    from vde_dagster.plugins.ci.events import event_of_job

    event = event_of_job(os.environ, fork_label)
    if event.action == "nothing":
        output.result({"action": "nothing", "reason": event.why}, event.why)
        return
    from vde_dagster.plugins.ci.forges.choose import forge_of

    forge = forge_of(workspace)
    if event.action == "check":
        from vde_dagster.plugins.ci.checking import check_pull_request

        checked = check_pull_request(workspace, forge, event.number, event.commit)
        _show_check(output, checked, action="check")
        return
    from vde_dagster.plugins.ci.deploying import close, deploy

    if event.action == "deploy":
        _show_deploy(output, deploy(workspace, forge, event.commit), action="deploy")
        return
    closed = close(workspace, forge, event.number)
    output.result({"action": "close", **closed.to_json()}, closed.sentence)
