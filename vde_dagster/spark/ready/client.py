"""Client of the ready process; its imports are few, because every command waits for them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from vde_dagster.spark.ready.protocol import SOCKET, engine_folder, identity, receive, send

COMMANDS = "vde_dagster.cli.app"
"""The module whose `call` runs a command."""
_OF_THEIR_OWN = frozenset({"engine", "init", "lsp", "serve", "ui"})
"""Commands that run for a long time, or that end the process they run in."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_ready(arguments: Sequence[str]) -> int | None:
    """Run a command in a copy of the ready process; return its exit code.

    Returns None if the ready process is missing, or differs from this process.
    """
    if sys.platform != "linux" or not arguments or arguments[0] in _OF_THEIR_OWN:
        return None
    try:
        streams = [(s.fileno(), s.encoding, s.errors) for s in (sys.stdin, sys.stdout, sys.stderr)]
    except (AttributeError, OSError):  # The streams are not files.
        return None
    found = ask(_project(arguments), COMMANDS, arguments, streams)
    if found is None:
        return None
    connection, pid = found
    with connection:
        return _wait(connection, pid)


def ask(
    root: Path,
    module: str,
    arguments: Sequence[str],
    streams: Sequence[tuple[int, str, str | None]],
) -> tuple[socket.socket, int] | None:
    """Run a module's `call` in a copy of a project's ready process.

    Args:
        streams: Descriptor, encoding and error handler of standard input, output and errors.

    Returns:
        The connection and the id of the copy's process. The copy sends its exit code through the
        connection, and ends when the connection is closed. None if the ready process is missing,
        differs from this one or lacks the module.
    """
    os.umask(mask := os.umask(0))
    request = {
        "identity": identity(),
        "module": module,
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "umask": mask,
        "encodings": [said for _, *said in streams],
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(engine_folder(root) / SOCKET))
        send(connection, request, tuple(number for number, *_ in streams))
        pid = receive(connection)[0]
    except (OSError, EOFError):  # Missing, or just ended.
        pid = None
    if pid is None:
        connection.close()
        return None
    return connection, int(pid)


def _project(arguments: Sequence[str]) -> Path:
    """Return the folder of `--project`, otherwise the current folder."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--project":
            return Path(following)
        if word.startswith("--project="):
            return Path(word.partition("=")[2])
    return Path()


def _wait(connection: socket.socket, pid: int) -> int:
    """Wait for the copy's end; forward the signals that this process receives."""

    def forward(number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def pause(*_: object) -> None:
        forward(signal.SIGSTOP, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        forward(signal.SIGCONT, None)

    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)
    signal.signal(signal.SIGTSTP, pause)
    try:
        return int(receive(connection)[0])
    except (OSError, EOFError):
        print("error: the process that ran the command was ended", file=sys.stderr)
        return 1
