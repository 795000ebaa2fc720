from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.api.commands import Output, on_project, simple_table

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.sync.syncs import SyncResult

EnvironmentName = Annotated[
    str, typer.Argument(metavar="ENV", help="Environment, for example prod.")
]
SyncNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SYNCS]...", help="Names of syncs; by default all syncs of the environment."
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Send all rows, even those that were sent before.")
]
Sample = Annotated[
    int, typer.Option("--limit", min=0, help="The maximum number of changes to show per sync.")
]


@on_project
def sync_plan(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    names: SyncNames = None,
    limit: Sample = 10,
) -> None:
    """Show the rows that `vde sync run` would send, without sending any.

    Example: vde sync plan prod
    """
    from vde_dagster.plugins.sync.syncs import Syncs

    syncs = Syncs(workspace)
    done = [syncs.plan(one, environment, limit=limit) for one in syncs.select(environment, names)]
    _show_results(output, done, "to send")
    if limit and not output.as_json:
        for one in done:
            for kind, row in one.sample:
                told = ", ".join(f"{name} = {value}" for name, value in row.items())
                output.out.print(f"{one.sync}: {kind} {told}", markup=False, soft_wrap=True)


@on_project
def sync_run(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    names: SyncNames = None,
    full: Full = False,
) -> None:
    """Update outside systems with the changes of an environment since the last run.

    The exit code is 1 if rows were refused. Example: vde sync run prod customers
    """
    from vde_dagster.plugins.sync.syncs import Syncs

    syncs = Syncs(workspace)
    _show_results(
        output,
        [syncs.run(one, environment, full=full) for one in syncs.select(environment, names)],
        "sent",
    )


@on_project
def sync_replay(
    workspace: Workspace, output: Output, environment: EnvironmentName, names: SyncNames = None
) -> None:
    """Send refused rows again, with their values in the version that was sent last.

    The exit code is 1 if rows were refused again. Example: vde sync replay prod
    """
    from vde_dagster.plugins.sync.syncs import Syncs

    syncs = Syncs(workspace)
    done = [syncs.replay(one, environment) for one in syncs.select(environment, names)]
    _show_results(output, done, "sent")


@on_project
def sync_status(workspace: Workspace, output: Output) -> None:
    """Show the position of each sync in each environment, and the number of refused rows.

    Example: vde sync status
    """
    from vde_dagster.plugins.sync.syncs import Syncs

    found = Syncs(workspace).status()
    told: list[dict[str, Any]] = [
        {
            "sync": one.sync,
            "environment": one.environment,
            "has": one.cursor.version,
            "current": one.current,
            "pending": one.cursor.pending,
            "waiting": one.waiting,
            "at": one.cursor.at,
            "problem": one.problem,
        }
        for one in found
    ]
    shown = [[row[name] for name in ("sync", "environment", *_STATUS)] for row in told]
    headers = ("sync", "environment", "has", "current", "refused, waiting", "since", "problem")
    output.result(
        {"syncs": told}, simple_table(headers, shown) if told else "the project has no syncs"
    )
    if any(one.problem for one in found):
        raise typer.Exit(1)


_STATUS = ("has", "current", "waiting", "at", "problem")


def _show_results(output: Output, done: Sequence[SyncResult], what: str) -> None:
    rows = [
        (one.sync, one.environment, f"{one.since} → {one.until}", one.sent, one.unchanged,
         one.refused, one.why)
        for one in done
    ]  # fmt: skip
    output.result(
        {"syncs": [one.to_json() for one in done]},
        simple_table(
            ("sync", "environment", "versions", what, "unchanged", "refused", "all rows, as"), rows
        ),
    )
    if any(one.refused for one in done):
        raise typer.Exit(1)
