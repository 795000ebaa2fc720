"""The clock that state asks for the time, so that tests can bring their own."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """What tells the time and waits."""

    def now(self) -> datetime:
        """Return the current instant (UTC)."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a duration in seconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current instant (UTC)."""
        return datetime.now(timezone.utc)

    def sleep(self, seconds: float) -> None:
        """Wait for a duration in seconds."""
        time.sleep(seconds)
