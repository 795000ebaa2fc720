"""Asking the ready process to run a command: it imports little, as every command waits for it."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from vde_dagster.cli.ready.protocol import SOCKET, folder_of, identity, receive, send

_OF_THEIR_OWN = frozenset({"engine", "init", "lsp", "serve", "ui"})
"""Commands that last, or that end what would run them."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run_ready(arguments: Sequence[str]) -> int | None:
    """Run a command in a copy of the ready process.

    Returns:
        Its exit code; None where there is no such process, or it is not like this one.
    """
    if sys.platform != "linux" or not arguments or arguments[0] in _OF_THEIR_OWN:
        return None
    streams = (sys.stdin, sys.stdout, sys.stderr)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            files = tuple(stream.fileno() for stream in streams)
            connection.connect(str(folder_of(_project(arguments)) / SOCKET))
            send(connection, _request(arguments), files)
            pid = receive(connection)[0]
        except (
            AttributeError,
            OSError,
            EOFError,
        ):  # None of the streams, no process, one that ended.
            return None
        return None if pid is None else _wait(connection, pid)


def _request(arguments: Sequence[str]) -> dict[str, Any]:
    os.umask(mask := os.umask(0))
    return {
        "identity": identity(),
        "arguments": list(arguments),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "umask": mask,
        "encodings": [[s.encoding, s.errors] for s in (sys.stdin, sys.stdout, sys.stderr)],
    }


def _project(arguments: Sequence[str]) -> Path:
    """Return the folder that `--project` names, or else the current one."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--project":
            return Path(following)
        if word.startswith("--project="):
            return Path(word.partition("=")[2])
    return Path()


def _wait(connection: socket.socket, pid: int) -> int:
    """Wait for the copy's end; what this process is told, it is told."""

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
