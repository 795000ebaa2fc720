"""A Spark that stays in the background, which the commands and runs of a project share.

It is a Spark Connect server on the loopback interface. Its record, a file that only its user reads,
has the port and a secret token; the server locks the record for as long as it lives.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import IO

from vde_dagster.base.hashing import digest
from vde_dagster.errors import NoSparkError
from vde_dagster.spark.session.settings import SessionSettings, WarmSettings, context_config

_RECORD = "engine.json"
_LOG = "engine.log"
_LOGS = 3
"""How many logs of JVMs are kept, the newest."""
_START_SECONDS = 180.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WarmEngine:
    """A server that runs.

    Args:
        pid: Of the process that started the JVM, and ends it.
        token: Who has it may do all that the project's owner may.
        configuration: A digest of what the JVM was started with.
        started_at: In seconds since 1970, UTC.
    """

    pid: int
    jvm_pid: int
    port: int
    token: str = field(repr=False)
    configuration: str
    started_at: float

    @property
    def master(self) -> str:
        """The URL for PySpark."""
        return f"sc://127.0.0.1:{self.port}/;token={self.token}"

    @property
    def started(self) -> datetime:
        """When it was ready."""
        return datetime.fromtimestamp(self.started_at, timezone.utc)

    @property
    def memory(self) -> int | None:
        """The resident memory of its processes (bytes), where the system says it."""
        sizes = [_resident(pid) for pid in (self.pid, self.jvm_pid)]
        return sum(filter(None, sizes)) if any(sizes) else None

    def write(self, folder: Path) -> IO[bytes]:
        """Write the record, and return the file with its lock, to be held open."""
        own, current = _own_record(folder, self.pid), folder / _RECORD
        file = open(own, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        _lock(file)
        file.write(json.dumps(asdict(self)).encode())
        file.flush()
        current.unlink(missing_ok=True)
        os.link(own, current)
        return file

    def takes_users(self, folder: Path) -> bool:
        """Say whether the record is still the one that is found."""
        with suppress(FileNotFoundError):
            return (folder / _RECORD).samefile(_own_record(folder, self.pid))
        return False

    def take_no_users(self, folder: Path) -> None:
        """Let nobody else join it."""
        if self.takes_users(folder):
            (folder / _RECORD).unlink(missing_ok=True)

    def forget(self, folder: Path) -> None:
        """Remove its own record: it has ended."""
        _own_record(folder, self.pid).unlink(missing_ok=True)

    def is_alive(self, folder: Path) -> bool:
        """Say whether it runs, be it for new users or for its last ones."""
        with suppress(FileNotFoundError), _own_record(folder, self.pid).open("rb") as file:
            return _is_locked(file)
        return False


def find_engine(folder: Path) -> WarmEngine | None:
    """Return the engine of a folder that takes users; None where there is none."""
    try:
        with (folder / _RECORD).open("rb") as file:
            return WarmEngine(**json.load(file)) if _is_locked(file) else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


def join_engine(settings: SessionSettings, warm: WarmSettings, *, start: bool) -> WarmEngine | None:
    """Return the engine of a project's configuration that takes users; None where there is none.

    Args:
        start: Whether one is started then. One of another configuration takes no more users, and
            ends when it is idle.

    Raises:
        NoSparkError: It does not start.
    """
    found = find_engine(warm.folder)
    if found is None and not start:
        return None
    wanted = configuration_of(settings)
    if found is not None and found.configuration == wanted:
        return found
    if not start:
        return None
    with _starting(warm.folder):
        found = find_engine(warm.folder)
        if found is not None and found.configuration == wanted:
            return found  # Somebody else was faster.
        (warm.folder / _RECORD).unlink(missing_ok=True)
        return _start(settings, warm, wanted)


def stop_engine(folder: Path) -> WarmEngine | None:
    """End the engine of a folder, and what runs on it; return it, or None where none runs."""
    with _starting(folder):
        found = find_engine(folder)
        if found is None:
            return None
        os.kill(found.pid, signal.SIGTERM)
        until = time.monotonic() + _STOP_SECONDS
        while found.is_alive(folder):
            if time.monotonic() > until:
                for pid in (found.jvm_pid, found.pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
    return found


def configuration_of(settings: SessionSettings) -> str:
    """Return a digest of what a JVM is started with: its configuration, Java and the packages."""
    import pyspark

    config = json.dumps(context_config(settings), sort_keys=True)
    java = os.environ.get("JAVA_HOME", "")
    return digest(
        "engine", config, java, sys.executable, pyspark.__version__, version("vde-dagster")
    )


def _own_record(folder: Path, pid: int) -> Path:
    return folder / f"engine.{pid}.json"


def log_of(folder: Path, pid: int) -> Path:
    """Return where the JVM of an engine writes."""
    return folder / f"spark.{pid}.log"


def end_of(folder: Path, pid: int) -> Path:
    """Return where the exit code of an engine's JVM stands once it has ended."""
    return folder / f"ended.{pid}"


def _tidy(folder: Path) -> None:
    """Remove what engines left that are no more."""
    for file in folder.glob("engine.*.json"):
        with suppress(FileNotFoundError), file.open("rb") as record:
            if not _is_locked(record):
                file.unlink()
    ends = folder.glob("ended.*")
    logs = sorted(folder.glob("spark.*.log"), key=lambda log: log.stat().st_mtime)
    for file in (*ends, *logs[: 1 - _LOGS]):
        file.unlink(missing_ok=True)


def _start(settings: SessionSettings, warm: WarmSettings, configuration: str) -> WarmEngine:
    folder = warm.folder
    request = {
        "config": context_config(settings),
        "configuration": configuration,
        "idle_seconds": warm.idle_seconds,
    }
    _tidy(folder)
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vde_dagster.spark.session.warm_server", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for the command that needed it first.
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(request).encode())
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        found = find_engine(folder)
        if found is not None and found.pid == process.pid:
            return found
        if process.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    process.kill()
    lines = (folder / _LOG).read_text(errors="replace").strip().splitlines()
    raise NoSparkError(
        f"the warm engine did not start: {lines[-1] if lines else 'it said nothing'}",
        hint=f"what it wrote is in {folder}; `warm = false` under [tool.vde.spark] does without",
    )


@contextmanager
def _starting(folder: Path) -> Iterator[None]:
    """Let one process at a time start or stop an engine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "starting").open("wb") as file:
        _lock(file, wait=True)
        yield


class EngineProcess:
    """The JVM of an engine that was joined, as `subprocess.Popen` has those of one's own."""

    def __init__(self, engine: WarmEngine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the JVM's exit code once it has ended."""
        if self.returncode is None and not self._engine.is_alive(self._folder):
            self.returncode = _exit_code(end_of(self._folder, self._engine.pid))
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the end.

        Raises:
            subprocess.TimeoutExpired: It did not end in time (seconds).
        """
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("the warm engine", timeout)
            time.sleep(_POLL_SECONDS)
        return code


def _exit_code(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return -signal.SIGKILL  # Nobody was left to write it.


def _lock(file: IO[bytes], *, wait: bool = False) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _is_locked(file: IO[bytes]) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _resident(pid: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
