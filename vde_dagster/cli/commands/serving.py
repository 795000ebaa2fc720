"""Commands of servers: `vde ui`, `vde serve`, and `vde token create`, `list` and `revoke`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.base.names import current_user
from vde_dagster.cli.errors import CANCELLED, Cancelled
from vde_dagster.cli.help import SentenceGroup
from vde_dagster.cli.options import Debug, EnvironmentName, Json, ProjectDir, on_project
from vde_dagster.cli.output import Output
from vde_dagster.execution.publishers import PUBLISHERS, ServerOptions
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.environments.tokens import Token


Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
ServedPort = Annotated[
    int,
    typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 for any free port."),
]
Log = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Access log with a line per request; default: stderr."),
]
WriteMetadata = Annotated[
    bool,
    typer.Option(
        "--write-metadata",
        help="Write the metadata of each requested table to the warehouse, for clients that "
        "read it from there, such as ClickHouse.",
    ),
]
Connections = Annotated[
    int, typer.Option("--connections", min=1, metavar="N", help="Maximum number of connections.")
]
ByAddress = Annotated[
    int,
    typer.Option(
        "--connections-per-address",
        min=1,
        metavar="N",
        help="Maximum connections per client address; a proxy counts as one client.",
    ),
]
_HTTP = "http"
PublisherName = Annotated[str, typer.Option("--publisher", metavar="NAME", help="Server plug-in.")]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]


def ui(
    port: Port = 3000,
    host: Host = "127.0.0.1",
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Open the Dagster UI on a project, until Ctrl-C.

    Uses the instance in DAGSTER_HOME, or in the project's .dagster_home, which is created if
    missing. Loads the code locations that workspace.yaml, pyproject.toml or definitions.py define;
    if they define none, creates a code location for the project. Example: vde ui --port 3001
    """
    from vde_dagster.orchestration.local_ui import local_ui

    output = Output(as_json)
    ended_by = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _stopped) for number in ended_by}
    output.note("starting Dagster")
    try:
        with local_ui(project, host=host, port=port) as found:
            output.result(
                {"url": found.url, "home": str(found.home), "log": str(found.log)},
                f"Dagster is at {found.url} (Ctrl-C stops it)",
            )
            with _ended_by_user():
                for name, message in found.load_errors().items():
                    output.err.print(
                        f"code location {name} failed to load: {message}", markup=False
                    )
                found.wait()
    except KeyboardInterrupt:
        raise Cancelled from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@on_project
def serve(
    workspace: Workspace,
    output: Output,
    host: Host = "127.0.0.1",
    port: ServedPort = 8181,
    log: Log = None,
    write_metadata: WriteMetadata = False,
    connections: Connections = 500,
    connections_per_address: ByAddress = 250,
    publisher: PublisherName = _HTTP,
) -> None:
    """Serve environments read-only, as an Iceberg REST catalog and as rows over HTTP, until Ctrl-C.

    Example: vde serve --port 8182
    """
    asked = ServerOptions(host, port, log, write_metadata, connections, connections_per_address)
    with PUBLISHERS.require(publisher).open(workspace, asked) as server:
        output.result({"url": server.url}, f"the catalog is at {server.url} (Ctrl-C stops it)")
        # A shell makes background processes ignore SIGINT: set the handlers explicitly.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with _ended_by_user():
                server.run()
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _ended_by_user() -> Iterator[None]:
    # The result is already printed, and with --json it is the only object.
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(CANCELLED) from None


def _stopped(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


token = typer.Typer(cls=SentenceGroup, help="Manage access to environments of `vde serve`.")

Expires = Annotated[
    str | None, typer.Option(metavar="TIME", help="Lifetime: 12h, 30d, 8w; default: unlimited.")
]
RowFilter = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="CONDITION", help="Rows that the token can read: 'tenant = 7'."
    ),
]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="The id, from `vde token list`.")]


@token.command("create")
@on_project
def create(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    expires: Expires = None,
    row_filter: RowFilter = None,
) -> None:
    """Create a token for reading an environment and its versions, and print it once.

    Example: vde token create prod --expires 30d --filter "tenant = 7"
    """
    from vde_dagster.base.times import parse_duration
    from vde_dagster.execution.published_version import environment_not_found
    from vde_dagster.planning.environments.environment import environment_name

    lasts = parse_duration(expires, "--expires") if expires is not None else None
    if row_filter is not None:
        PUBLISHERS.require(_HTTP).check_filter(row_filter)
    name, store = environment_name(environment), workspace.store
    if not store.environments.exists(name):
        raise environment_not_found(store, name)
    store.project.require_own()
    store.rights.require_change(name, f"grant read access to '{name}'")
    ends = store.database.clock.now() + lasts if lasts is not None else None
    made, text = store.tokens.create(name, current_user(), ends, row_filter)
    output.result({**_json(made), "token": text}, text)
    output.note(f"token {made.id} can read '{name}'; save it now, because it cannot be shown again")


@token.command("list")
@on_project
def list_tokens(workspace: Workspace, output: Output) -> None:
    """List the tokens, without their secrets.

    Example: vde token list
    """
    from vde_dagster.reports.document import short_time

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
        simple_table(head, rows) if found else "no token has been created yet",
    )


@token.command("revoke")
@on_project
def revoke(workspace: Workspace, output: Output, token_id: TokenId) -> None:
    """Revoke a token; later requests with it are refused.

    Example: vde token revoke 1f2e3d4c5b6a
    """
    workspace.store.project.require_own()
    workspace.store.tokens.revoke(token_id)
    output.result({"id": token_id, "revoked": True}, f"token {token_id} is revoked")


def _json(token: Token) -> dict[str, Any]:
    from vde_dagster.cli.shapes import instant_json

    return {
        "id": token.id,
        "environment": token.environment,
        "filter": token.row_filter,
        "created_at": instant_json(token.created_at),
        "created_by": token.created_by,
        "expires_at": instant_json(token.expires_at),
        "revoked_at": instant_json(token.revoked_at),
    }
