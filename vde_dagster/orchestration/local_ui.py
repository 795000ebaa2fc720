"""Local Dagster on one project, which `vde ui` starts and stops."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.orchestration import instance

LOG = "ui.log"
_LOCK = "ui.lock"
_START_SECONDS = 180.0
_STOP_SECONDS = 30.0
_LAST_SECONDS = 10.0
_LOCATIONS = """
{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError {
  ... on PythonError { message causes { message } } } } } } }
"""


@dataclass(frozen=True)
class LocalUi:
    """A running `dagster dev`, which leads a process group."""

    url: str
    home: Path
    log: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait for Dagster to end. Raises ExecutionError, because only an error ends it."""
        self.process.wait()
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        last = lines[-1] if lines else "no output"
        raise ExecutionError(f"Dagster ended: {last}", hint=f"see {self.log}")

    def load_errors(self) -> dict[str, str]:
        """Return the code locations that failed to load, each with its root cause."""
        answer = instance.query_webserver(self.url, _LOCATIONS, 60)
        entries = answer["workspaceOrError"]["locationEntries"]
        found = {entry["name"]: (entry["locationOrLoadError"] or {}) for entry in entries}
        return {
            name: [said, *said["causes"]][-1]["message"].strip()
            for name, said in found.items()
            if "message" in said
        }


@contextmanager
def local_ui(root: Path, *, host: str, port: int) -> Iterator[LocalUi]:
    """Run Dagster on a project while the block runs. The block begins once the webserver responds.

    Raises:
        UsageError: The project does not exist, the webserver is not installed, the port is taken,
            or Dagster already runs with this home. Nothing was started.
        ExecutionError: Dagster does not start.
    """
    root = root.resolve()
    if find_spec("dagster_webserver") is None:
        raise UsageError(
            "the Dagster UI requires the package dagster-webserver, which is not installed",
            hint=how_to_install(),
        )
    workspace = instance.workspace_file(root)
    home = instance.dagster_home(root)
    url = f"http://{host}:{port}"
    with _alone(home, url):
        _check_free(host, port)
        chosen = [] if workspace is None else ["--workspace", str(workspace)]
        command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port)]
        log = home / LOG
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*command, *chosen],
                cwd=root,
                env={
                    **os.environ,
                    instance.HOME_VARIABLE: str(home),
                    instance.URL_VARIABLE: url,
                    instance.PROJECT_VARIABLE: str(root),
                },
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        found = LocalUi(url, home, log, process)
        try:
            _wait_until_it_answers(found)
            yield found
        finally:
            _stop(process)


def _check_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"the address {host}:{port} is not available: {error.strerror}",
                hint=f"choose another port: vde ui --port {port + 1 if port < 65535 else port - 1}",
            ) from error


@contextmanager
def _alone(home: Path, url: str) -> Iterator[None]:
    import fcntl

    # Two `dagster dev` processes on one home would interfere silently.
    with (home / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise UsageError(
                f"Dagster already runs with the home {home}: {lock.read().strip()}",
                hint="open the page of that Dagster, or stop that Dagster first",
            ) from error
        lock.truncate(0)
        lock.write(url)
        lock.flush()
        yield


def _wait_until_it_answers(ui: LocalUi) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if ui.process.poll() is not None:
            ui.wait()
        with suppress(OSError), urllib.request.urlopen(f"{ui.url}/server_info", timeout=5):
            return
        time.sleep(0.2)
    raise ExecutionError(
        f"Dagster did not respond at {ui.url} within {_START_SECONDS:.0f} s", hint=f"see {ui.log}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    # Another Ctrl-C shortens the wait.
    with suppress(KeyboardInterrupt):
        process.send_signal(SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    for signal in (SIGTERM, SIGKILL):
        with suppress(KeyboardInterrupt):
            if _ended(process, signal):
                return


def _ended(process: subprocess.Popen[bytes], signal: Signals) -> bool:
    deadline = time.monotonic() + _LAST_SECONDS
    try:
        os.killpg(process.pid, signal)
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.1)
    except ProcessLookupError:
        return True
    return False
