"""Identity of a process, by which others on the same machine see that it has ended.

On Linux: the boot of the machine, the namespace of process ids (a container has its own), the id,
and the time at which the process started, as ids are used again. Elsewhere, and for a process of
another machine or container, nothing is known, and a lease ends by its time.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ENDED = ("Z", "X", "x")
"""States of a process that runs no more code: it waits for its parent, or is being removed."""


def own_process() -> str | None:
    """Return the identity of this process, or None where it has none."""
    return _identity(os.getpid())


def has_ended(process: str | None) -> bool:
    """Say whether a process is known to have ended: one of this machine and namespace."""
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
        pass  # It is there, and another user's.
    found = _state(pid)
    return found is not None and (found[0] in _ENDED or found[1] != parts[3])


@lru_cache(1)
def _identity(pid: int) -> str | None:
    """Return the identity of the process that has an id now; after a fork there is another one."""
    found = _state(pid)
    try:
        boot = _BOOT.read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return f"{boot} {namespace} {pid} {found[1]}" if found is not None else None


def _state(pid: int) -> tuple[str, str] | None:
    """Return a process's state and its start, in ticks since the machine's; None if unreadable."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # Its name, in brackets, may have blanks and brackets in it.
    fields = text.rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None
