"""The ready process: `python -m vde_dagster.spark.ready.process FOLDER`.

It reads the modules to import, as JSON, from standard input; a name with a colon is a function to
call. The process has one thread, keeps no connection and no project's file open, and ends with the
engine.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from vde_dagster.spark.ready.protocol import SOCKET, process_identity, receive, send
from vde_dagster.spark.session.warm import find_engine

_LOCK = "commands.lock"
_POLL_SECONDS = 0.5
_REQUEST_SECONDS = 2.0
"""Timeout for a command to send its request, in seconds."""


def main(folder: Path) -> None:
    """Run commands in copies of this process while the folder's engine accepts clients."""
    import fcntl

    modules: list[str] = json.load(sys.stdin)
    own_identity = process_identity()  # Modules may change variables.
    os.chdir(folder)  # Names of sockets must be short.
    with open(_LOCK, "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # Another process was faster.
        seen = _import_modules(modules)
        Path(SOCKET).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(SOCKET)
            listener.listen()
            listener.settimeout(_POLL_SECONDS)
            try:
                _serve(listener, folder, own_identity, seen)
            finally:
                Path(SOCKET).unlink(missing_ok=True)


def _import_modules(modules: list[str]) -> dict[str, int]:
    """Import modules, and return the modification time (ns) of each imported module's file."""
    for named in modules:
        name, _, function = named.partition(":")
        with suppress(Exception):  # A module may be gone, or lack a dependency.
            module = importlib.import_module(name)
            if function:
                getattr(module, function)()
    gc.collect()
    gc.freeze()  # A collection would touch, and so copy, all memory that copies share.
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {file: _modification_time(file) for file in files if file}


def _modification_time(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return -1


def _serve(
    listener: socket.socket, folder: Path, own_identity: list[Any], seen: dict[str, int]
) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The copy itself reports its end to the client.
    while find_engine(folder) is not None:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            connection.settimeout(_REQUEST_SECONDS)
            files: list[int] = []
            try:
                request, files = receive(connection, 3)
                is_current = request["module"] in sys.modules and all(
                    _modification_time(file) == then for file, then in seen.items()
                )
                if not is_current or request["identity"] != own_identity:
                    send(connection, None)
                elif os.fork() == 0:
                    listener.close()
                    connection.settimeout(None)
                    _run(connection, request, files)
                if not is_current:
                    return
            except (OSError, EOFError, ValueError):
                continue
            finally:
                for file in files:
                    os.close(file)


def _run(connection: socket.socket, request: dict[str, Any], files: list[int]) -> NoReturn:
    code = 1
    try:
        _adopt_client(request, files)
        send(connection, os.getpid())
        threading.Thread(target=_exit_with_client, args=(connection,), daemon=True).start()
        code = importlib.import_module(request["module"]).call(request["arguments"])
    except KeyboardInterrupt:
        code = 130
    finally:
        # As Python exits, except for tearing down each module.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        with suppress(OSError):
            send(connection, code)
        os._exit(code)


def _adopt_client(request: dict[str, Any], files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.umask(request["umask"])
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["vde", *request["arguments"]]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        encoding, errors = request["encodings"][number]
        stream = _open_stream(number, encoding, errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _open_stream(number: int, encoding: str, errors: str) -> io.TextIOWrapper:
    raw = open(number, "rb" if number == 0 else "wb", closefd=False)  # noqa: SIM115
    by_line = number == 2 or raw.isatty()
    return io.TextIOWrapper(raw, encoding, errors, line_buffering=by_line)


def _exit_with_client(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.recv(1)
    # Killing the client must kill its work.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
