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

from vde_dagster.spark.ready.protocol import SOCKET, engine_folder, process_identity, receive, send

COMMANDS = "vde_dagster.cli.app"
"""The module whose `call` runs a command."""
_EXCLUDED_COMMANDS = frozenset({"engine", "init", "lsp", "serve", "ui"})
"""Commands that run for a long time, or that end the process they run in."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_ready(arguments: Sequence[str]) -> int | None:
    """Run a command in a copy of the ready process, and return its exit code.

    Return None if the command must run in this process instead.
    """
    if sys.platform != "linux" or not arguments or arguments[0] in _EXCLUDED_COMMANDS:
        return None
    try:
        streams = [(s.fileno(), s.encoding, s.errors) for s in (sys.stdin, sys.stdout, sys.stderr)]
    except (AttributeError, OSError):  # The streams are not files.
        return None
    found = run_in_copy(_project_folder(arguments), COMMANDS, arguments, streams)
    if found is None:
        return None
    connection, pid = found
    with connection:
        return _wait(connection, pid)


def run_in_copy(
    root: Path,
    module: str,
    arguments: Sequence[str],
    streams: Sequence[tuple[int, str, str | None]],
) -> tuple[socket.socket, int] | None:
    """Run a module's `call` in a copy of a project's ready process.

    Args:
        streams: Descriptor, encoding and error handler of standard input, output and errors.

    Returns:
        The connection and the copy's process id. The copy sends its exit code through the
        connection, and ends when the connection is closed. None if the ready process is missing,
        differs from this process or lacks the module.
    """
    os.umask(mask := os.umask(0))
    request = {
        "identity": process_identity(),
        "module": module,
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "umask": mask,
        "encodings": [encoding for _, *encoding in streams],
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


def _project_folder(arguments: Sequence[str]) -> Path:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--project":
            return Path(following)
        if word.startswith("--project="):
            return Path(word.partition("=")[2])
    return Path()


def _wait(connection: socket.socket, pid: int) -> int:
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
