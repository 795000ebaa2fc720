"""The command `vde lsp`; heavy modules are imported when it runs."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import UsageError


def lsp_command(
    project: Annotated[
        Path | None, typer.Option(help="The project's folder; by default the editor's folder.")
    ] = None,
) -> None:
    """Run a language server on stdin and stdout, for editors.

    It shows mistakes while you type and, above a model, the effect of each edit. It finds the
    definitions and uses of names. Editors start it; see `vde help editor`.
    """
    if find_spec("pygls") is None:
        raise UsageError("`vde lsp` needs the package pygls", hint=how_to_install("editor"))
    # Output of the project's code must not mix with the server's messages.
    talk = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    from vde_dagster.programs.editor.features import add_features
    from vde_dagster.programs.editor.server import make_server

    server = make_server(project)
    add_features(server)
    server.start_io(stdout=talk)
