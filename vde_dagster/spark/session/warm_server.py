"""The process of a warm engine: `python -m vde_dagster.spark.session.warm_server FOLDER`.

It reads its configuration as JSON from standard input, because other users see command lines. It
starts a JVM with a Spark Connect server, and ends the JVM when idle or on SIGTERM. If this process
dies, its JVM ends too, because a Py4J gateway ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from vde_dagster.spark.jvm.local_files import use_plain_files
from vde_dagster.spark.session.connect_service import ConnectService
from vde_dagster.spark.session.launch import launch
from vde_dagster.spark.session.usage import serve_usage
from vde_dagster.spark.session.warm import WarmEngine, exercise_folder, exit_code_path, log_path
from vde_dagster.spark.session.warm_up import WarmUp

_PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
_POLL_SECONDS = 0.5
_END_SECONDS = 15.0
_LAST_USERS_SECONDS = 60.0
"""Maximum idle time of an engine that accepts no new users, in seconds."""


def main(folder: Path) -> None:
    """Run the engine until it has been idle for long, or gets SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    request = json.load(sys.stdin)
    token = secrets.token_urlsafe(32)
    config: dict[str, str] = request["config"]
    # Workers that serve one user after another keep modules as the first user loaded them.
    config.setdefault("spark.python.worker.reuse", "false")
    # A user may compute for long between two statements; a dead user's session lasts until then.
    config.setdefault("spark.connect.session.manager.defaultSessionTimeout", "24h")
    config |= {
        "spark.plugins": ",".join(filter(None, (config.get("spark.plugins"), _PLUGIN))),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
    }
    listed = launch(config, log_path(folder, os.getpid()), archives=request["warm_up"])
    from pyspark import SparkContext

    process = SparkContext._gateway.proc
    service = ConnectService()
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
    own = exercise_folder(folder, engine.pid)
    warm_up = WarmUp(context, engine.master, own, service, listed)
    with engine.write(folder):
        if request["warm_up"]:
            warm_up.start()
        else:
            use_plain_files(context)
        try:
            _watch(process, service, stop, engine, folder, float(request["idle_seconds"]))
        finally:
            engine.refuse_users(folder)
            code = _stop_jvm(process)
            warm_up.end()
            with suppress(OSError):  # The folder was removed.
                exit_code_path(folder, os.getpid()).write_text(str(code))
                engine.forget(folder)


def _stop_jvm(process: subprocess.Popen[bytes]) -> int:
    if process.poll() is None:
        process.terminate()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _watch(
    process: subprocess.Popen[bytes],
    service: ConnectService,
    stop: threading.Event,
    engine: WarmEngine,
    folder: Path,
    idle_seconds: float,
) -> None:
    from py4j.protocol import Py4JError

    while process.poll() is None and not stop.wait(_POLL_SECONDS):
        limit = idle_seconds
        if not engine.accepts_users(folder):
            limit = min(limit, _LAST_USERS_SECONDS)
        with suppress(Py4JError, OSError):  # It is ending.
            if engine.is_kept_alive(folder) or service.idle_seconds() <= limit:
                continue
            # A client that joins keeps the engine alive first, and then looks whether it is
            # accepted. So one of both sees the other.
            engine.refuse_users(folder)
            if not engine.is_kept_alive(folder):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
