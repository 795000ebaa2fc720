from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.api.commands import Output, on_project
from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import suggest

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A target's name, or owner:NAME for an owner.")
]


@on_project
def notify_send(workspace: Workspace, output: Output) -> None:
    """Send each receiver the events since its last message.

    The exit code is 1 if a service refused a message; the next call continues with this message.
    Example: vde notify send
    """
    from vde_dagster.plugins.notifications.deliver import describe_result, send_notifications

    done = send_notifications(workspace)
    output.result(
        {"receivers": [asdict(one) for one in done]}, "\n".join(map(describe_result, done))
    )
    if any(one.problem for one in done):
        raise typer.Exit(1)


@on_project
def notify_test(workspace: Workspace, output: Output, target: Target) -> None:
    """Send a target or an owner a test message.

    Example: vde notify test team
    """
    from vde_dagster.plugins.notifications.deliver import send_message
    from vde_dagster.plugins.notifications.settings import read_receivers

    found = read_receivers(workspace.settings)
    known = [one for one in found if one.name == target or one.name.startswith(f"{target}/")]
    if not known:
        names = [one.name for one in found]
        none = "" if names else "declare one in [tool.vde.notify.targets]"
        hint = suggest(target, names, "receivers", none)
        raise UsageError(f"'{target}' is not a receiver", hint=hint)
    project = workspace.settings.name
    body = f"Nothing happened: this is the message of `vde notify test {target}`."
    for one in known:
        send_message(one, f"[{project}] a test of notifications", body, "info")
    output.result({"receiver": target}, f"{target} accepted the message")
