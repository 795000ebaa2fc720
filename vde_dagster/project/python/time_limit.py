"""A limit for how long the reading of one file may take: files of a project can run any code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(BaseException):
    """The limit is over; no `except Exception` of the code that runs catches it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what runs inside, loops and waits alike.

    Only the main thread can be interrupted, where the system has timers and nobody else uses
    the one that there is; elsewhere there is no limit. Servers load projects in a process of
    their own, whose main thread this is.

    Args:
        seconds: How long it may take, by the clock on the wall.

    Raises:
        TooSlow: It took longer.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or not hasattr(signal, "setitimer")
        or signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
    ):
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, interrupt)
    # Again every second: a bare `except:` in a loop may swallow the first ones.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
