"""`vde ui` and `vde serve`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from vde_dagster.base.package_version import how_to_install
from vde_dagster.cli.errors import Cancelled
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
ServedPort = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 for any.")
]
Log = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where each request gets a line; by default stderr."),
]
WriteMetadata = Annotated[
    bool,
    typer.Option(
        "--write-metadata",
        help="Write the metadata of each table that is asked for to the warehouse, for clients "
        "that read it from there, such as ClickHouse.",
    ),
]
Connections = Annotated[
    int, typer.Option("--connections", min=1, metavar="N", help="The most connections at a time.")
]
ByAddress = Annotated[
    int,
    typer.Option(
        "--connections-per-address",
        min=1,
        metavar="N",
        help="The most of one address; a proxy is one.",
    ),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]


def ui(
    port: Port = 3000,
    host: Host = "127.0.0.1",
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Open Dagster on a project, until Ctrl-C.

    Works on the instance in DAGSTER_HOME, or in the project's .dagster_home, which is made. The
    code location is that of workspace.yaml, of pyproject.toml or of definitions.py, or else the
    project by itself. Example: vde ui --port 3001
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
                lambda console: console.print(f"Dagster is at {found.url} (Ctrl-C stops it)"),
            )
            for name, message in found.load_errors().items():
                output.err.print(f"the code location {name} does not load: {message}", markup=False)
            found.wait()
    except KeyboardInterrupt:
        raise Cancelled from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def serve(
    host: Host = "127.0.0.1",
    port: ServedPort = 8181,
    log: Log = None,
    write_metadata: WriteMetadata = False,
    connections: Connections = 500,
    connections_per_address: ByAddress = 250,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Serve the environments, read-only, until Ctrl-C: an Iceberg REST catalog, and rows over HTTP.

    Example: vde serve --port 8182
    """
    from vde_dagster.cli.opening import opened

    output = Output(as_json)
    with opened(project) as workspace:
        try:
            from vde_dagster.serve.limits import Limits
            from vde_dagster.serve.server import Server
        except ModuleNotFoundError as error:
            raise UsageError(
                f"`vde serve` needs a package that is not installed: {error.name}",
                hint=how_to_install("serve"),
            ) from error
        limits = Limits(connections=connections, by_address=connections_per_address)
        with Server(workspace.warehouse, host, port, log, write_metadata, limits) as server:
            output.result(
                {"url": server.url},
                lambda console: console.print(
                    f"the catalog is at {server.url} (Ctrl-C stops it)", soft_wrap=True
                ),
            )
            # A shell that starts it in the background lets it ignore what ends it all the same.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                server.run()
            except KeyboardInterrupt:
                raise Cancelled from None
            finally:
                signal.signal(signal.SIGINT, before)


def _stopped(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
