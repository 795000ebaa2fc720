"""`vde serve` as a process of its own or in a thread of this one, and plain HTTP to ask it."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from vde_dagster.cli.app import call
from vde_dagster.execution.publishers import ServerOptions
from vde_dagster.execution.workspace import Workspace
from vde_dagster.programs.serve.server import Limits, Server, uvicorn_config

REPOSITORY = Path(__file__).resolve().parents[2]
VDE = [sys.executable, "-m", "vde_dagster.cli"]


@dataclass
class Answer:
    """What a server answered.

    Args:
        status: The HTTP status.
        headers: Its headers, by lower-case name.
        body: Its content.
    """

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running server.

    Args:
        url: Where it listens.
        headers: What is sent with every request.
        process: The server's process.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    process: int = 0

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> Answer:
        """Send one request; an error is an answer, too."""
        sent = {**self.headers, **{key.replace("_", "-"): text for key, text in headers.items()}}
        request = urllib.request.Request(f"{self.url}{path}", body, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return _answer(answer)
        except urllib.error.HTTPError as error:
            return _answer(error)


def _answer(answer: Any) -> Answer:
    headers = {key.lower(): text for key, text in answer.headers.items()}
    return Answer(answer.status, headers, answer.read())


def vde(*arguments: str, root: Path) -> Any:
    """Run a `vde` command, and return its JSON."""
    told = io.StringIO()
    with redirect_stdout(told):
        call([*arguments, "--project", str(root), "--json"])
    return json.loads(told.getvalue())


def refused(*arguments: str, root: Path, path: Path = REPOSITORY) -> str:
    """Run a `vde` command that is a mistake, and return what it says.

    Args:
        arguments: The command.
        root: The project.
        path: A folder whose modules come before all others.
    """
    done = subprocess.run(
        [*VDE, *arguments, "--project", str(root)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{REPOSITORY}"},
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


@contextmanager
def serving(root: Path, *arguments: str) -> Iterator[Served]:
    """Run `vde serve` on a project, on a free port."""
    command = [*VDE, "serve", "--port", "0", "--project", str(root), "--json", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            told = process.stdout.readline()
            # The result is one JSON object, on one line or several.
            while told.strip() and not told.rstrip().endswith("}"):
                told += process.stdout.readline()
            yield Served(json.loads(told)["url"], process=process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


@contextmanager
def serving_here(
    root: Path, *, log: Path | None = None, writes_metadata: bool = False
) -> Iterator[Served]:
    """Serve a project as `vde serve` does, from a thread: a process takes seconds to import it."""
    with (
        Workspace.open(root) as workspace,
        Server(workspace, ServerOptions(log=log, writes_metadata=writes_metadata)) as listening,
    ):
        server = uvicorn.Server(uvicorn_config(listening._app, Limits()))
        thread = threading.Thread(target=server.run, args=([listening._socket],))
        thread.start()
        try:
            yield Served(listening.url)
        finally:
            server.should_exit = True
            thread.join()
