"""Work that takes memory: a few at a time, in threads of its own, each client in its turn."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, Event, move_on_after, to_thread

from vde_dagster.serve.errors import ServeError

_Found = TypeVar("_Found")


class Places:
    """Runs work in as many threads as there are places.

    Who waits stands in the line of its client, and the lines are served in turn: whoever asks for
    much waits for itself, and not for others.

    Args:
        places: How many.
        seconds: How long anybody waits for one.
    """

    def __init__(self, places: int, seconds: float) -> None:
        self._threads = CapacityLimiter(places)
        self._places = self._free = places
        self._seconds = seconds
        self._lines: dict[str, deque[Event]] = {}
        self._took = 0.0

    async def run(self, work: Callable[[], _Found], client: str) -> _Found:
        """Return what some work returns.

        Args:
            work: The work.
            client: Whose it is.

        Raises:
            ServeError: No place is free in time; says when there will be one.
        """
        await self._enter(client)
        begun = time.monotonic()
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            # The newest count most.
            took = time.monotonic() - begun
            self._took = took if not self._took else 0.8 * self._took + 0.2 * took
            self._leave()

    async def _enter(self, client: str) -> None:
        if self._free:
            self._free -= 1
            return
        if self._wait(client) > self._seconds:
            raise self._full(client)
        called = Event()
        self._lines.setdefault(client, deque()).append(called)
        try:
            with move_on_after(self._seconds) as waited:
                await called.wait()
        except BaseException:
            self._give_up(client, called)
            raise
        if waited.cancelled_caught and not called.is_set():
            refused = self._full(client)
            self._give_up(client, called)
            raise refused

    def _give_up(self, client: str, called: Event) -> None:
        if called.is_set():
            self._leave()
            return
        line = self._lines[client]
        line.remove(called)
        if not line:
            del self._lines[client]

    def _leave(self) -> None:
        """Give a place to the line whose turn it is, which then stands behind all others."""
        if not self._lines:
            self._free += 1
            return
        client = next(iter(self._lines))
        line = self._lines.pop(client)
        line.popleft().set()
        if line:
            self._lines[client] = line

    def _wait(self, client: str) -> float:
        """Return in how many seconds whoever stands last in a client's line has a place."""
        own = len(self._lines.get(client, ())) + 1
        ahead = sum(min(own, len(line)) for name, line in self._lines.items() if name != client)
        return (own + ahead) * self._took / self._places

    def _full(self, client: str) -> ServeError:
        wait = max(1, math.ceil(self._wait(client)))
        return ServeError(
            503, "too many are reading rows; try again", headers={"Retry-After": str(wait)}
        )
