"""Identity of a process, which lets other processes on the machine detect its end.

On Linux the identity consists of the boot of the machine, the namespace of process ids (a container
has its own), the id, and the start time of the process, because ids are reused. On other systems
the identity is unknown (None). If the identity is unknown, or the process runs on another machine
or in another container, its end is not detected, and its lease lasts until it expires.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ENDED = ("Z", "X", "x")
"""States of a process that runs no more code: waiting for its parent, or being removed."""


def own_process() -> str | None:
    """Return a text that identifies this process on its machine, or None if unknown."""
    return _identity(os.getpid())


def has_ended(process: str | None) -> bool:
    """Return whether a process of this machine and namespace has certainly ended."""
    own = own_process()
    parts = (process or "").split()
    if own is None or len(parts) != 4 or own.split()[:2] != parts[:2] or not parts[2].isdigit():
        return False
    pid = int(parts[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # It exists and belongs to another user.
    found = _state(pid)
    return found is not None and (found[0] in _ENDED or found[1] != parts[3])


# Cached by id, because a forked process has its own identity.
@lru_cache(1)
def _identity(pid: int) -> str | None:
    found = _state(pid)
    try:
        boot = _BOOT.read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return f"{boot} {namespace} {pid} {found[1]}" if found is not None else None


def _state(pid: int) -> tuple[str, str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None
