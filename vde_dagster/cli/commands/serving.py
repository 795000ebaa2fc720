"""`vde ui`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from vde_dagster.cli.errors import Cancelled
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
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
    project by itself.
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


def _stopped(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
