"""Work that takes memory: a few at a time, in threads of its own, so that others need not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, Semaphore, move_on_after, to_thread

from vde_dagster.serve.errors import ServeError

_Found = TypeVar("_Found")


class Places:
    """Runs work in as many threads as there are places.

    Args:
        places: How many.
        seconds: How long whoever finds none waits for one.
    """

    def __init__(self, places: int, seconds: float) -> None:
        self._threads = CapacityLimiter(places)
        self._free = Semaphore(places)
        self._seconds = seconds

    async def run(self, work: Callable[[], _Found]) -> _Found:
        """Return what some work returns.

        Raises:
            ServeError: No place was free in time.
        """
        with move_on_after(self._seconds) as waited:
            await self._free.acquire()
        if waited.cancelled_caught:
            raise ServeError(
                503, "too many are reading rows; try again", headers={"Retry-After": "5"}
            )
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._free.release()
