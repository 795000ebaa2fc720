"""`vde log` and `vde log verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output, simple_table

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.log import LogEntry

OfEnvironment = Annotated[
    str | None, typer.Argument(metavar="[ENV]", help="Only what was done to this environment.")
]
Limit = Annotated[int, typer.Option(min=1, help="The most acts to list.")]
Head = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="A hash that was kept elsewhere, which has to be there."),
]


@on_project
def log(
    workspace: Workspace,
    output: Output,
    environment: OfEnvironment = None,
    limit: Limit = 20,
) -> None:
    """List what was done, newest first: publications, rollbacks, applied plans, clean-ups, rights.

    The user is that of PostgreSQL, which nobody can make up; the name is what the client said.
    Examples: vde log; vde log prod --limit 50
    """
    from vde_dagster.planning.environments.environment import environment_name
    from vde_dagster.reports.document import short_time

    name = environment_name(environment) if environment is not None else None
    found = workspace.store.log.latest(name, limit)
    headers = ("row", "when (UTC)", "user", "name", "act", "environment", "what", "hash")
    rows = [
        (
            one.number,
            short_time(one.at),
            one.db_user or "",
            one.who,
            one.act,
            f"{one.environment or ''}{f'@{one.version}' if one.version else ''}",
            _what(one),
            one.hash[:12],
        )
        for one in found
    ]
    shown = [i for i in range(len(headers)) if i != 2 or any(row[2] for row in rows)]
    table = simple_table([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
    told: Any = table if rows else "nothing was done yet"
    output.result({"log": list(map(_entry_json, found))}, told)


def _what(entry: LogEntry) -> str:
    said = []
    for key, value in entry.details.items():
        if isinstance(value, list):
            value = f"{len(value)}" if len(value) > 3 else ", ".join(map(str, value))
        said.append(key if value is True else f"{key} {value}")
    return "; ".join(said)


def _entry_json(entry: LogEntry) -> dict[str, Any]:
    from vde_dagster.cli.shapes import instant_json

    return {
        "number": entry.number,
        "at": instant_json(entry.at),
        "user": entry.db_user,
        "name": entry.who,
        "act": entry.act,
        "environment": entry.environment,
        "version": entry.version,
        "detail": entry.details,
        "previous": entry.previous,
        "hash": entry.hash,
    }


@on_project
def log_verify(workspace: Workspace, output: Output, head: Head = None) -> None:
    """Check that no row of the log was changed, removed or put in; name the first one otherwise.

    It prints the last hash: keep it where nobody who can write to the database can. Who rewrites
    the whole log is seen by such a hash alone. The exit code is 1 where something is wrong.
    Examples: vde log verify; vde log verify --head 5d0c1f7ab2
    """
    from vde_dagster.base.texts import count

    found = workspace.store.log.verify(head)
    result = {
        "rows": found.rows,
        "head": found.head,
        "whole": found.wrong is None,
        "number": found.number,
        "wrong": found.wrong,
    }
    if found.wrong is not None:
        output.result(result, f"the log is not what it was: {found.wrong}")
        raise typer.Exit(1)
    kept = f", and {head} is in it" if head is not None else ""
    output.result(result, f"{count(found.rows, 'row')}, none changed{kept}; head {found.head}")
