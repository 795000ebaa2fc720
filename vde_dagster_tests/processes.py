"""Servers that tests run in processes of their own."""

from __future__ import annotations

import subprocess


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
