"""`vde token create`, `vde token list` and `vde token revoke`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, EnvironmentName, Json, ProjectDir
from vde_dagster.cli.output import Output, simple_table
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.state.tokens import Token

token = typer.Typer(help="Say who may read environments from `vde serve`.")

Expires = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When it ends: 12h, 30d, 8w; without, it never does."),
]
RowFilter = Annotated[
    str | None,
    typer.Option("--filter", metavar="CONDITION", help="The rows that it reads: 'tenant = 7'."),
]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id, as in the list.")]

_HOURS = {"h": 1, "d": 24, "w": 168}


@token.command("create")
def create(
    environment: EnvironmentName,
    expires: Expires = None,
    row_filter: RowFilter = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a token that reads an environment and its versions, and show it, once.

    Example: vde token create prod --expires 30d --filter "tenant = 7"
    """
    output = Output(as_json)
    lasts = _duration(expires) if expires is not None else None
    with opened(project) as workspace:
        from vde_dagster.execution.workspace import current_user
        from vde_dagster.planning.environment import environment_name

        if row_filter is not None:
            from vde_dagster.serve.row_filters import parse_filter

            parse_filter(row_filter)
        name, store = environment_name(environment), workspace.store
        if not store.environments.exists(name):
            raise UsageError(
                f"there is no environment '{name}'", hint="`vde environments` lists them"
            )
        store.project.require_own()
        ends = store.database.clock.now() + lasts if lasts is not None else None
        made, text = store.tokens.create(name, current_user(), ends, row_filter)
        output.result(
            {**_json(made), "token": text}, lambda console: console.print(text, soft_wrap=True)
        )
        output.note(f"token {made.id} reads '{name}'; keep it, it cannot be shown again")


@token.command("list")
def list_tokens(
    project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False
) -> None:
    """List the tokens, without their secrets.

    Example: vde token list
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.shapes import short_time

        found = workspace.store.tokens.all()
        rows = [
            (
                one.id,
                one.environment,
                one.row_filter or "",
                short_time(one.created_at),
                one.created_by,
                f"revoked {short_time(one.revoked_at)}"
                if one.revoked_at
                else short_time(one.expires_at) or "never",
            )
            for one in found
        ]
        head = ("id", "environment", "rows", "created (UTC)", "by", "ends (UTC)")
        output.result(
            {"tokens": [_json(one) for one in found]},
            lambda console: console.print(
                simple_table(head, rows) if found else "no token was made yet"
            ),
        )


@token.command("revoke")
def revoke(
    token_id: TokenId,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make a token void, from the next request on.

    Example: vde token revoke 1f2e3d4c5b6a
    """
    output = Output(as_json)
    with opened(project) as workspace:
        workspace.store.project.require_own()
        workspace.store.tokens.revoke(token_id)
        output.result(
            {"id": token_id, "revoked": True},
            lambda console: console.print(f"token [bold]{token_id}[/] is void"),
        )


def _duration(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--expires '{text}' is no time", hint="write 12h, 30d or 8w")
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])


def _json(token: Token) -> dict[str, Any]:
    from vde_dagster.planning.interval import iso

    def when(value: Any) -> str | None:
        return iso(value) if value is not None else None

    return {
        "id": token.id,
        "environment": token.environment,
        "filter": token.row_filter,
        "created_at": when(token.created_at),
        "created_by": token.created_by,
        "expires_at": when(token.expires_at),
        "revoked_at": when(token.revoked_at),
    }
