"""Running the batches of one model at the same time, as far as an apply has room for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from vde_dagster.execution.slots import Slots
from vde_dagster.planning.interval import Interval


@dataclass
class BatchRun:
    """Batches that need not wait for each other.

    The thread that asks for them works, too; others help while the apply has a slot to spare and
    leave after each batch if a model waits for one. After a failure no batch is begun any more,
    and those that run go on to their end.

    Args:
        batches: The batches, in the order in which they are begun.
        work: Does one.
        most: How many run at once at most.
        slots: The apply's; the calling thread has one already.
        stop: When set, no further batch is begun.
    """

    batches: Sequence[Interval]
    work: Callable[[Interval], None]
    most: int
    slots: Slots
    stop: threading.Event
    failed: dict[Interval, Exception] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _left: deque[Interval] = field(init=False)
    _helpers: list[Future[None]] = field(default_factory=list)
    _helping: int = 0
    _broken: bool = False

    def run(self) -> list[Interval]:
        """Run them; return those that were not begun, after a failure or a stop."""
        self._left = deque(self.batches)
        with ThreadPoolExecutor(max(1, self.most - 1), thread_name_prefix="vde-batch") as pool:
            while (batch := self._next()) is not None:
                self._find_help(pool)
                self._do(batch)
        for helper in self._helpers:
            helper.result()  # What is no error of a batch ends everything.
        return list(self._left)

    def _find_help(self, pool: ThreadPoolExecutor) -> None:
        with self._lock:
            wanted = min(self.most - 1 - self._helping, len(self._left))
            while wanted > 0 and self.slots.take_spare():
                self._helping += 1
                wanted -= 1
                self._helpers.append(pool.submit(self._help, pool))

    def _help(self, pool: ThreadPoolExecutor) -> None:
        try:
            batch = self._next()
            if batch is not None:
                self._do(batch)
        finally:
            with self._lock:
                self._helping -= 1
            self.slots.give_back()
        if self._left and not self._is_over:
            self._find_help(pool)

    @property
    def _is_over(self) -> bool:
        return bool(self.failed) or self._broken or self.stop.is_set()

    def _next(self) -> Interval | None:
        with self._lock:
            return self._left.popleft() if self._left and not self._is_over else None

    def _do(self, batch: Interval) -> None:
        try:
            self.work(batch)
        except Exception as error:
            with self._lock:
                self.failed[batch] = error
        except BaseException:
            self._broken = True
            raise
