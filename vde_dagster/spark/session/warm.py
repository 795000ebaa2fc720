"""A warm engine: Spark running in the background, shared by a project's commands and runs.

It is a Spark Connect server on the loopback interface. A file that only its user can read (the
engine's record) has its port and a secret token. The server locks this file while it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import IO

from vde_dagster.base.hashing import digest
from vde_dagster.base.installing import __version__
from vde_dagster.errors import NoSparkError
from vde_dagster.spark.session.settings import (
    SessionSettings,
    WarmSettings,
    context_config,
    session_config,
)
from vde_dagster.spark.session.usage import Usage, request_usage

_RECORD = "engine.json"
_LOG = "engine.log"
_LOGS = 3
"""Number of JVM logs to keep, the newest."""
_START_SECONDS = 180.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05
_ENVIRONMENT = (
    *("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "PYTHONPATH", "SPARK_CONF_DIR", "SPARK_HOME"),
    *("SPARK_SUBMIT_OPTS", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
)
"""Prefixes of variables that affect a JVM and its Python workers."""
_CLIENT_VARIABLES = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")
"""Variables that make PySpark a Spark Connect client; `connect()` sets the first variable."""


@dataclass(frozen=True, slots=True)
class WarmEngine:
    """A running Spark Connect server that a project's processes share.

    Args:
        pid: The process that started the JVM, and ends it.
        token: Secret that grants all rights of the project's owner.
        usage_port: Port of its usage server, see `usage.py`.
        configuration: A digest of the JVM's start configuration.
        started_at: Time of the start, in seconds since 1970.
    """

    pid: int
    jvm_pid: int
    port: int
    token: str = field(repr=False)
    configuration: str
    started_at: float
    usage_port: int = 0

    @property
    def master(self) -> str:
        return f"sc://127.0.0.1:{self.port}/;token={self.token}"

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self.started_at, timezone.utc)

    @property
    def memory(self) -> int | None:
        """Resident memory of `pid` and `jvm_pid` in bytes, if the system reports it."""
        sizes = [_resident_memory(pid) for pid in (self.pid, self.jvm_pid)]
        return sum(filter(None, sizes)) if any(sizes) else None

    def write(self, folder: Path) -> IO[bytes]:
        """Write the file with the engine's port and token, and return it locked. Keep it open."""
        own, current = _record_path(folder, self.pid), folder / _RECORD
        file = open(own, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        _lock(file)
        file.write(json.dumps(asdict(self)).encode())
        file.flush()
        current.unlink(missing_ok=True)
        os.link(own, current)
        return file

    def accepts_users(self, folder: Path) -> bool:
        """Return whether new clients can find and join this engine. Earlier clients stay joined."""
        with suppress(FileNotFoundError):
            return (folder / _RECORD).samefile(_record_path(folder, self.pid))
        return False

    def refuse_users(self, folder: Path) -> None:
        """Remove the file through which clients find the engine, so that no more clients join."""
        if self.accepts_users(folder):
            (folder / _RECORD).unlink(missing_ok=True)

    def is_kept_alive(self, folder: Path) -> bool:
        """Return whether a client keeps the engine running, see `EngineProcess.keep_alive`."""
        with suppress(FileNotFoundError), _keep_alive_path(folder, self.pid).open("rb") as file:
            return _is_locked(file, by_sharers=True)
        return False

    def forget(self, folder: Path) -> None:
        for file in (_record_path(folder, self.pid), _keep_alive_path(folder, self.pid)):
            file.unlink(missing_ok=True)

    def is_alive(self, folder: Path) -> bool:
        """Return whether the engine runs, even if it accepts no new clients."""
        with suppress(FileNotFoundError), _record_path(folder, self.pid).open("rb") as file:
            return _is_locked(file)
        return False


def find_engine(folder: Path) -> WarmEngine | None:
    """Return a folder's running engine if it accepts clients."""
    return _read_engine(folder / _RECORD)


def _read_engine(record: Path) -> WarmEngine | None:
    try:
        with record.open("rb") as file:
            return WarmEngine(**json.load(file)) if _is_locked(file) else None
    except (OSError, ValueError, TypeError):  # Not an engine's record, or another user's.
        return None


def join_engine(
    settings: SessionSettings,
    warm: WarmSettings,
    *,
    start: bool,
    given_up: threading.Event | None = None,
) -> WarmEngine | None:
    """Return the running engine with a project's configuration, or None without one.

    Args:
        start: Whether to start a missing engine. An engine with another configuration then accepts
            no more users, and ends when it is idle.
        given_up: When this event is set, an engine that is still starting is ended.

    Raises:
        NoSparkError: The engine does not start.
    """
    found = find_engine(warm.folder)
    if found is None and not start:
        return None
    wanted = configuration_digest(settings)
    if found is not None and found.configuration == wanted:
        return found
    if not start:
        return None
    with _start_lock(warm.folder):
        found = find_engine(warm.folder)
        if found is not None and found.configuration == wanted:
            return found  # Another process was faster.
        (warm.folder / _RECORD).unlink(missing_ok=True)
        return _start_engine(settings, warm, wanted, given_up or threading.Event())


def find_engines(folder: Path) -> list[WarmEngine]:
    """Return all running engines of a folder, even if they accept no new clients."""
    return [found for record in folder.glob("engine.*.json") if (found := _read_engine(record))]


def stop_engines(folder: Path) -> list[WarmEngine]:
    """Stop all engines of a folder, cancel their work, and return the stopped engines."""
    if not folder.is_dir():
        return []
    with _start_lock(folder):
        found = find_engines(folder)
        _send_signal([engine.pid for engine in found], signal.SIGTERM)
        until = time.monotonic() + _STOP_SECONDS
        while left := [engine for engine in found if engine.is_alive(folder)]:
            if time.monotonic() > until:
                _send_signal(
                    [pid for one in left for pid in (one.jvm_pid, one.pid)], signal.SIGKILL
                )
            time.sleep(_POLL_SECONDS)
    return found


def _send_signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def configuration_digest(settings: SessionSettings) -> str:
    """Hash the settings, variables, Java and packages that affect an engine's start."""
    import pyspark

    warm = settings.warm
    own = (warm.idle_seconds, warm.warm_up) if warm is not None else ()
    config = json.dumps([context_config(settings), own], sort_keys=True)
    variables = sorted(item for item in os.environ.items() if item[0].startswith(_ENVIRONMENT))
    return digest(
        *("engine", config, json.dumps(variables), str(shutil.which("java")), sys.executable),
        *(pyspark.__version__, __version__),
    )


def _record_path(folder: Path, pid: int) -> Path:
    return folder / f"engine.{pid}.json"


def _keep_alive_path(folder: Path, pid: int) -> Path:
    return folder / f"held.{pid}"


def log_path(folder: Path, pid: int) -> Path:
    return folder / f"spark.{pid}.log"


def exit_code_path(folder: Path, pid: int) -> Path:
    return folder / f"ended.{pid}"


def exercise_folder(folder: Path, pid: int) -> Path:
    """Return the folder of the small project that warms up an engine, see `warm_up.py`."""
    return folder / f"exercise.{pid}"


def _delete_old_files(folder: Path) -> None:
    for file in folder.glob("engine.*.json"):
        with suppress(FileNotFoundError), file.open("rb") as record:
            if not _is_locked(record):
                pid = int(file.name.split(".")[1])
                _keep_alive_path(folder, pid).unlink(missing_ok=True)
                shutil.rmtree(exercise_folder(folder, pid), ignore_errors=True)
                file.unlink()
    for file in folder.glob("held.*"):
        if not _record_path(folder, int(file.suffix[1:])).exists():  # Its engine ended meanwhile.
            file.unlink(missing_ok=True)
    ends = folder.glob("ended.*")
    logs = sorted(folder.glob("spark.*.log"), key=lambda log: log.stat().st_mtime)
    for file in (*ends, *logs[: 1 - _LOGS]):
        file.unlink(missing_ok=True)


def _start_engine(
    settings: SessionSettings, warm: WarmSettings, configuration: str, given_up: threading.Event
) -> WarmEngine:
    folder = warm.folder
    request = {
        "config": {**session_config(settings), **context_config(settings)},
        "configuration": configuration,
        "idle_seconds": warm.idle_seconds,
        "warm_up": warm.warm_up,
    }
    _delete_old_files(folder)
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vde_dagster.spark.session.warm_server", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=settings.project_root or folder,
            env=environment_without_client(),
            start_new_session=True,  # Ctrl-C stops only the command that started it.
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(request).encode())
    # A session needs PySpark's client, whose import takes almost a second: here it costs no time.
    with suppress(ImportError):
        import_module("pyspark.sql.connect.session")
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and not given_up.is_set():
        found = find_engine(folder)
        if found is not None and found.pid == process.pid:
            return found
        if process.poll() is not None:
            break
        time.sleep(_POLL_SECONDS)
    with suppress(ProcessLookupError):  # Spark's scripts and their JVM are in its group.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    lines = (folder / _LOG).read_text(errors="replace").strip().splitlines()
    raise NoSparkError(
        f"the warm engine did not start: {lines[-1] if lines else 'it printed nothing'}",
        hint=f"the engine's output is in {folder}; or set `warm = false` under [tool.vde.spark]",
    )


def environment_without_client() -> dict[str, str]:
    """Return the environment without the variables that make PySpark a client."""
    return {key: value for key, value in os.environ.items() if key not in _CLIENT_VARIABLES}


@contextmanager
def _start_lock(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "starting").open("wb") as file:
        _lock(file, wait=True)
        yield


class EngineProcess:
    """The JVM of a joined engine, with the interface of `subprocess.Popen`."""

    def __init__(self, engine: WarmEngine, folder: Path) -> None:
        self._engine, self._folder = engine, folder
        self._holding, self._held = threading.Lock(), 0
        self._file: IO[bytes]
        self.returncode: int | None = None

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Keep the engine running while the caller computes between two statements."""
        with self._holding:
            if self._held == 0:
                self._file = _keep_alive_path(self._folder, self._engine.pid).open("ab")
                _lock(self._file, wait=True, share=True)
            self._held += 1
        try:
            yield
        finally:
            with self._holding:
                self._held -= 1
                if self._held == 0:
                    self._file.close()

    @property
    def log_file(self) -> Path:
        return log_path(self._folder, self._engine.pid)

    @property
    def accepts_users(self) -> bool:
        return self._engine.accepts_users(self._folder)

    def usage(self, tag: str) -> Usage:
        return request_usage(self._engine.usage_port, self._engine.token, tag)

    def poll(self) -> int | None:
        """Return the exit code of the JVM, or None while the JVM runs."""
        if self.returncode is None and not self._engine.is_alive(self._folder):
            self.returncode = _exit_code(exit_code_path(self._folder, self._engine.pid))
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the JVM's end, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: The JVM did not end in time (seconds).
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
        return -signal.SIGKILL  # No process was left to write it.


def _lock(file: IO[bytes], *, wait: bool = False, share: bool = False) -> None:
    import fcntl

    how = fcntl.LOCK_SH if share else fcntl.LOCK_EX
    fcntl.flock(file, how | (0 if wait else fcntl.LOCK_NB))


def _is_locked(file: IO[bytes], *, by_sharers: bool = False) -> bool:
    """Return whether another process has locked a file; `by_sharers` counts shared locks too."""
    try:
        _lock(file, share=not by_sharers)
    except BlockingIOError:
        return True
    return False


def _resident_memory(pid: int) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
