"""Processes that tests start and wait for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


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


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is true, and fail where it does not become so in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
