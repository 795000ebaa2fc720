"""Commands `vde log` and `log verify` (audit log), `vde roles`, `roles create`, `grant` and
`revoke`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.options import DryRun, on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.db.log import LogEntry
    from vde_dagster.state.db.rights import Right

OfEnvironment = Annotated[
    str | None, typer.Argument(metavar="[ENV]", help="List only acts on this environment.")
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of acts to list.")]
Head = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="A hash recorded elsewhere, which the log must contain."),
]

RightName = Annotated[
    str,
    typer.Argument(
        metavar="RIGHT", help="read, plan, apply or publish; each includes the rights before it."
    ),
]
LoginName = Annotated[
    str, typer.Argument(metavar="LOGIN", help="A login of the database's server, or a role.")
]
Prefix = Annotated[str, typer.Option(metavar="NAME", help="Prefix of the roles' names: NAME_read.")]


@on_project
def log(
    workspace: Workspace, output: Output, environment: OfEnvironment = None, limit: Limit = 20
) -> None:
    """List acts, newest first: publications, rollbacks, applied plans, clean-ups, rights.

    The column `user` has the PostgreSQL login, which cannot be forged. The column `name` has the
    name that the client gave.
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
            _describe(one),
            one.hash[:12],
        )
        for one in found
    ]
    shown = [i for i in range(len(headers)) if i != 2 or any(row[2] for row in rows)]
    table = simple_table([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
    told: Any = table if rows else "no acts yet"
    output.result({"log": list(map(_entry_json, found))}, told)


def _describe(entry: LogEntry) -> str:
    details = []
    for key, value in entry.details.items():
        if isinstance(value, list):
            value = f"{len(value)}" if len(value) > 3 else ", ".join(map(str, value))
        details.append(key if value is True else f"{key} {value}")
    return "; ".join(details)


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
    """Check that no row of the log was changed, removed or inserted, or name the first such row.

    It prints the hash of the last row. Keep this hash where no writer of the database can change
    it, and pass it as --head later: without --head, a rewritten log, or a log without its last
    rows, may pass. The exit code is 1 if the check fails. Examples: vde log verify;
    vde log verify --head 5d0c1f7ab2
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
        output.result(result, f"the log was changed: {found.wrong}")
        raise typer.Exit(1)
    kept = f"; the hash {head} is in the log" if head is not None else ""
    output.result(result, f"{count(found.rows, 'row')}, none changed{kept}; last hash {found.head}")


@on_project
def roles(workspace: Workspace, output: Output) -> None:
    """List the rights to read, plan, apply and publish in the state's database, and your own.

    Example: vde roles
    """
    rights = workspace.store.rights
    login, found = rights.login(), rights.roles()
    may = None
    if login is not None and found:
        may = [one.right for one in found if login.has(one.right)]
    result = {
        "login": login.user if login is not None else None,
        "owner": login.owns if login is not None else None,
        "may": may,
        "roles": [
            {"right": one.right, "role": one.name, "members": list(one.members)} for one in found
        ],
    }
    told: Any
    if login is None:
        told = "the state is a SQLite file: any user who can write to it may do everything"
    elif not found:
        told = (
            f"you are '{login.user}'; there are no roles, so any login that can write to the "
            "state's tables may do everything; to change that: vde roles create"
        )
    else:
        rows = [(one.right, one.name, ", ".join(one.members)) for one in found]
        told = simple_table(("right", "role", "members"), rows)
        output.note(f"you are '{login.user}', who may {', '.join(may or ()) or 'nothing'}")
    output.result(result, told)


@on_project
def roles_create(
    workspace: Workspace, output: Output, prefix: Prefix = "vde", dry_run: DryRun = False
) -> None:
    """Create the roles in PostgreSQL with their rights on the state's tables; can be repeated.

    Run it as the owner of the tables, and again after a plug-in created tables. --dry-run only
    prints the SQL of the roles, of their grants, and of the views through which they write, but
    not the SQL of the tables' triggers.
    Examples: vde roles create; vde roles create --prefix shop --dry-run
    """
    from vde_dagster.state.db.transfer import tables_of_plugins

    rights = workspace.store.rights
    workspace.store.project.require_own()
    if dry_run:
        statements = rights.statements(prefix)
        output.result({"statements": statements}, "".join(f"{one};\n" for one in statements))
        return
    rights.create(prefix, tables_of_plugins())
    made = [one.name for one in rights.roles()]
    output.result({"roles": made}, f"the roles {', '.join(made)} exist and have their rights")


@on_project
def roles_grant(workspace: Workspace, output: Output, right: RightName, login: LoginName) -> None:
    """Grant a right, and all lower rights, to a login of the database.

    Example: vde roles grant apply anna
    """
    workspace.store.project.require_own()
    workspace.store.rights.grant(_right(right), login)
    output.result({"right": right, "login": login}, f"'{login}' has the right to {right}")


@on_project
def roles_revoke(workspace: Workspace, output: Output, right: RightName, login: LoginName) -> None:
    """Revoke a right from a login of the database.

    Example: vde roles revoke publish anna
    """
    workspace.store.project.require_own()
    workspace.store.rights.revoke(_right(right), login)
    output.result(
        {"right": right, "login": login},
        f"'{login}' is no longer in the role with the right to {right}",
    )


def _right(name: str) -> Right:
    from vde_dagster.state.db.rights import RIGHTS

    for right in RIGHTS:
        if right == name:
            return right
    raise UsageError(f"'{name}' is not a right", hint=f"use one of {', '.join(RIGHTS)}")
