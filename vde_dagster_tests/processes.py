"""Processes that tests start and wait for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def end(process: subprocess.Popen[bytes], seconds: float = 30) -> None:
    """Ask a process to end, and make it where it does not.

    Args:
        process: The process.
        seconds: How long it has to end by itself.
    """
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # The second between opening and reading.
        return False
    return state != "Z"


def end_processes(*pids: int, seconds: float = 30) -> None:
    """Ask processes to end, the first one first, and kill those that do not in time."""
    deadline = time.monotonic() + seconds
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        while is_running(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is true, and fail where it does not become so in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
