from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.api.commands import Output, on_project
from vde_dagster.api.plans import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.ci.checking import CheckResult
    from vde_dagster.plugins.ci.deploying import DeployResult

Number = Annotated[
    int, typer.Option("--pr", metavar="NUMBER", min=1, help="The pull or merge request.")
]
Commit = Annotated[
    str,
    typer.Option(metavar="SHA", help="The pull request's newest commit; default: from the forge."),
]
Merged = Annotated[
    int,
    typer.Option(
        "--pr", metavar="NUMBER", min=0, help="The merged pull request; default: from the forge."
    ),
]
CheckedOut = Annotated[
    str, typer.Option(metavar="SHA", help="Commit that must be checked out; by default any.")
]
ForkLabel = Annotated[
    str,
    typer.Option(
        metavar="LABEL", help="Run a fork's code if a reviewer gave the pull request this label."
    ),
]

Base = Annotated[
    str,
    typer.Option(
        metavar="COMMIT", help="Commit whose rules also apply; default: newest of the base branch."
    ),
]

WAITS = 3
"""Exit code of a deployment that changed nothing because its plan lacks an approval."""


@on_project
def ci_check(
    workspace: Workspace, output: Output, pr: Number, commit: Commit = "", base: Base = ""
) -> None:
    """Build a pull request in a separate environment, and write one comment and a check.

    Rules and budgets of the base branch apply, too. The exit code is 1 if the check failed.
    Example: vde ci check --pr 123
    """
    from vde_dagster.plugins.ci.checking import check_pull_request
    from vde_dagster.plugins.ci.forges.choose import choose_forge

    _show_check(output, check_pull_request(workspace, choose_forge(workspace), pr, commit, base))


def _show_check(output: Output, done: CheckResult, **more: Any) -> None:
    value = {
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
    output.result(value, done.comment)
    if not done.passed:
        raise typer.Exit(1)


@on_project
def ci_deploy(
    workspace: Workspace, output: Output, pr: Merged = 0, commit: CheckedOut = ""
) -> None:
    """Publish a merged commit to production, as it was reviewed on its pull request.

    Tables that the check built are reused. The exit code is 3 if the plan does something that was
    not reviewed, or a rule objects: nothing is changed then, and the plan waits.

    Example: vde ci deploy
    """
    from vde_dagster.plugins.ci.deploying import deploy
    from vde_dagster.plugins.ci.forges.choose import choose_forge

    _show_deploy(output, deploy(workspace, choose_forge(workspace), commit, pr))


def _show_deploy(output: Output, done: DeployResult, **more: Any) -> None:
    from rich.markup import escape

    output.result({**more, **done.to_json()}, done.sentence)
    for reason in done.reasons:
        output.note(f"  {escape(reason)}")
    if done.waits:
        if done.outcome == "waiting":
            output.note(f"approve it in Dagster, or: vde apply prod --plan {done.plan_id}")
        raise typer.Exit(WAITS)
    if done.failed:
        output.show_failed_statements(output.err, PRODUCTION, done.failed)
        raise typer.Exit(1)


@on_project
def ci_close(workspace: Workspace, output: Output, pr: Number) -> None:
    """Drop the environment of a pull request that was closed, merged or not.

    Example: vde ci close --pr 123
    """
    from vde_dagster.plugins.ci.deploying import close
    from vde_dagster.plugins.ci.forges.choose import choose_forge

    done = close(workspace, choose_forge(workspace), pr)
    output.result(done.to_json(), done.sentence)


@on_project
def ci_run(workspace: Workspace, output: Output, fork_label: ForkLabel = "") -> None:
    """Run the action for a job of GitHub or GitLab: a check, a deployment, or a close.

    The job's variables determine the action. A fork's code without the label in --fork-label is
    refused (exit code 2); otherwise the action determines the exit code.

    Example: vde ci run
    """
    from vde_dagster.plugins.ci.events import read_event

    event = read_event(os.environ, fork_label)
    if event.action == "nothing":
        output.result({"action": "nothing", "reason": event.description}, event.description)
        return
    from vde_dagster.plugins.ci.forges.choose import choose_forge

    forge = choose_forge(workspace)
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
