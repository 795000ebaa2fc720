"""Hooks around every named side effect, for tests; and the clock of the state.

A side effect is a change that outlives the process: a database commit, a file written or deleted,
an Iceberg commit, a lease. Code wraps each side effect in `with effects.at("publish.commit"):`, so
that a test can stop the process before or after it, let it fail, or lose its response. In
production this does nothing and costs one method call.

On PostgreSQL the clock is the server's, so that machines which share a state agree on the time.
SQLite is used by one machine, whose clock cannot be compared with another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta, timezone
from typing import Protocol

from vde_dagster.base.times import instant_text
from vde_dagster.errors import UsageError


class Effects(Protocol):
    """Marks every side effect, so that tests can make it fail or end the process there."""

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        """Return a context manager for the code of one side effect.

        Args:
            point: The effect's dotted name, such as `publish.commit`.
            detail: The object of the effect (a path, a table), for logs.
        """
        ...


_NOTHING = nullcontext()


class NoEffects:
    """`Effects` in production: does nothing."""

    __slots__ = ()

    def at(self, point: str, detail: str = "") -> AbstractContextManager[None]:
        return _NOTHING


MOST_APART = timedelta(seconds=30)
"""Maximum difference between a writing machine's clock and the database server's."""
STEP = timedelta(seconds=1)
"""A clock may step back, or differ between processes, by at most this time without an error."""
_FRESH_SECONDS = 10.0
"""Seconds for which a comparison of two clocks remains valid."""


class Clock(Protocol):
    """Clock that tests can replace."""

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ServersClock:
    """Clock of the database's server: the machine's clock, corrected by the measured difference."""

    def __init__(self, ask: Callable[[], datetime], machine: Clock | None = None) -> None:
        self.machine: Clock = machine or SystemClock()
        self._ask = ask
        self._ahead: timedelta | None = None
        self._unsure = timedelta()
        self._compared = 0.0

    def now(self) -> datetime:
        if self._ahead is None:
            self._compare(self._ask)
        assert self._ahead is not None
        return self.machine.now() - self._ahead

    def sleep(self, seconds: float) -> None:
        self.machine.sleep(seconds)

    def require_agreement(self, ask: Callable[[], datetime], *, anew: bool = False) -> None:
        """Check that the machine's clock and the server's clock differ by at most `MOST_APART`.

        Args:
            ask: Returns the time of the server's clock.
            anew: Whether to compare the clocks now, even if they were compared shortly before.

        Raises:
            UsageError: The clocks differ by more.
        """
        if anew or self._ahead is None or time.monotonic() - self._compared > _FRESH_SECONDS:
            self._compare(ask)
        assert self._ahead is not None
        if abs(self._ahead) <= MOST_APART + self._unsure:
            return
        seconds = round(abs(self._ahead).total_seconds())
        side = "ahead of" if self._ahead > timedelta() else "behind"
        raise UsageError(
            f"this machine's clock is {seconds:,} seconds {side} the database server's clock, "
            f"which reads {instant_text(self.now())}",
            hint="correct the clock (NTP), then run the command again; nothing was changed",
        )

    def _compare(self, ask: Callable[[], datetime]) -> None:
        before = self.machine.now()
        server = ask()
        # The server read its clock at some time between the request and the response.
        self._unsure = abs(self.machine.now() - before) / 2
        self._ahead = before + self._unsure - server
        self._compared = time.monotonic()
