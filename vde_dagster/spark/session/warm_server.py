"""The process of a warm engine: `python -m vde_dagster.spark.session.warm_server FOLDER`.

It reads its configuration as JSON from standard input (other users see command lines), starts a
JVM with a Spark Connect server, and ends it when it is idle or told to. The JVM ends with it,
however it dies: a Py4J gateway ends when its standard input closes.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vde_dagster.spark.session.launch import launch
from vde_dagster.spark.session.usage import serve_usage
from vde_dagster.spark.session.warm import WarmEngine, end_of, exercise_of, log_of
from vde_dagster.spark.session.warm_up import EXERCISE_USER, WarmUp

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService$"
_LOOK_SECONDS = 0.5
_END_SECONDS = 15.0
_LAST_USERS_SECONDS = 60.0
"""How long one that takes no new users waits for the next statement of its last ones."""


def main(folder: Path) -> None:
    """Serve until nothing was asked for long, or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    request = json.load(sys.stdin)
    token = secrets.token_urlsafe(32)
    config: dict[str, str] = request["config"]
    # Workers that serve one user after another keep modules as the first one had them.
    config.setdefault("spark.python.worker.reuse", "false")
    # A user may compute for long between two statements; who dies leaves a session until then.
    config.setdefault("spark.connect.session.manager.defaultSessionTimeout", "24h")
    config |= {
        "spark.plugins": ",".join(filter(None, (config.get("spark.plugins"), _PLUGIN))),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
    }
    known = launch(config, log_of(folder, os.getpid()))
    from pyspark import SparkContext

    process = SparkContext._gateway.proc
    service = _Service()
    context = SparkContext._active_spark_context
    assert context is not None
    engine = WarmEngine(
        os.getpid(),
        process.pid,
        service.port,
        token,
        request["configuration"],
        time.time(),
        serve_usage(context, token),
    )
    own = exercise_of(folder, engine.pid)
    warm_up = WarmUp(context, engine.master, own, _Others(service), known)
    with engine.write(folder):
        if request["warm_up"]:
            warm_up.start()
        try:
            _watch(process, service, stop, lambda: _patience(engine, folder, request))
        finally:
            engine.take_no_users(folder)
            code = _ended(process)
            warm_up.end()
            with suppress(OSError):  # Somebody removed the folder.
                end_of(folder, os.getpid()).write_text(str(code))
                engine.forget(folder)


def _patience(engine: WarmEngine, folder: Path, request: dict[str, Any]) -> float:
    """Return how many seconds without a statement are too many."""
    if engine.is_held(folder):
        return math.inf
    patience = float(request["idle_seconds"])
    return patience if engine.takes_users(folder) else min(patience, _LAST_USERS_SECONDS)


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Let a JVM end, or end it, and return its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _watch(
    process: subprocess.Popen[bytes],
    service: _Service,
    stop: threading.Event,
    patience: Callable[[], float],
) -> None:
    """Return once the JVM has ended, was idle for too long, or has to stop."""
    from py4j.protocol import Py4JError

    while process.poll() is None and not stop.wait(_LOOK_SECONDS):
        with suppress(Py4JError, OSError):  # It is ending.
            if service.idle_seconds() > patience():
                return


class _Service:
    """The server within the JVM."""

    def __init__(self) -> None:
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        self._java = jvm.java.lang
        loader = self._java.Thread.currentThread().getContextClassLoader()
        kind = self._java.Class.forName(_SERVICE, True, loader)
        self._object = kind.getField("MODULE$").get(None)
        self.port = int(self._object.localPort())

    def idle_seconds(self) -> float:
        """Return for how long no statement ran; 0 where one runs.

        Raises:
            Py4JError, OSError: The JVM has ended.
        """
        running = self._object.listActiveExecutions()
        if not running.isLeft():
            return 0.0
        since: int = self._java.System.nanoTime() - running.swap().toOption().get()
        return since / 1e9

    def executions(self) -> list[Any]:
        """Return what runs, as the server knows it."""
        running = self._object.listActiveExecutions()
        return [] if running.isLeft() else _listed(running.toOption().get())

    def sessions(self) -> list[Any]:
        """Return the sessions that are open, as the server knows them."""
        return _listed(self._object.sessionManager().listActiveSessions())

    def close_session(self, session: Any) -> None:
        """Close a session, and end what runs in it."""
        self._object.sessionManager().closeSession(session.key(), False)


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


class _Others:
    """Who asks a server for something, beside the exercise."""

    def __init__(self, service: _Service) -> None:
        self._service = service
        self._last = 0.0

    def idle_seconds(self) -> float:
        """Return for how long no statement of others ran; 0 where one runs."""
        now = time.time()
        if any(one.userId() != EXERCISE_USER for one in self._service.executions()):
            self._last = now
        for one in self._service.sessions():
            if one.userId() != EXERCISE_USER:
                self._last = max(self._last, one.lastAccessTimeMs() / 1000)
        return now - self._last

    def close_sessions(self, user: str) -> None:
        """End the sessions of a user, and what runs in them."""
        for one in self._service.sessions():
            if one.userId() == user:
                self._service.close_session(one)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
