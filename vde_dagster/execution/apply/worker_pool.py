"""Worker pool of an apply: threads process a graph, parents first, limited by slots."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

POLL_SECONDS = 0.2
"""Interval in which the calling thread wakes up to handle signals and cancellation."""


@dataclass
class GraphResult(Generic[K]):
    """Exceptions of failed nodes, and the failed node that each skipped node waits for."""

    failed: dict[K, Exception] = field(default_factory=dict)
    skipped: dict[K, K] = field(default_factory=dict)


def run_graph(
    graph: Mapping[K, Set[K]],
    work: Callable[[K], None],
    *,
    threads: int,
    on_failure: Callable[[K, Exception, list[K]], None] = lambda node, error, skipped: None,
    stop: threading.Event | None = None,
) -> GraphResult[K]:
    """Process the nodes of a graph in threads, each after the nodes that it depends on.

    Args:
        graph: Dependencies of each node.
        work: Processes one node, in a pool thread.
        on_failure: Called in the calling thread with a failed node and the nodes skipped for it.
        stop: If set, no further node is started.
    """
    result: GraphResult[K] = GraphResult()
    waiting = {node: set(parents) for node, parents in graph.items()}
    running: dict[Future[None], K] = {}
    with ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="vde") as pool:
        try:
            while waiting or running:
                if stop is None or not stop.is_set():
                    ready = [node for node, parents in waiting.items() if not parents]
                    for node in ready[: max(1, threads) - len(running)]:
                        del waiting[node]
                        running[pool.submit(work, node)] = node
                if not running:
                    break
                finished, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    node = running.pop(future)
                    error = future.exception()
                    if error is None:
                        for parents in waiting.values():
                            parents.discard(node)
                        continue
                    if not isinstance(error, Exception):
                        raise error
                    result.failed[node] = error
                    skipped = _remove_dependents(node, waiting)
                    result.skipped.update(dict.fromkeys(skipped, node))
                    on_failure(node, error, skipped)
        except BaseException:
            if stop is not None:
                stop.set()
            raise
    return result


def _remove_dependents(node: K, waiting: dict[K, set[K]]) -> list[K]:
    lost = {node: None}
    for candidate, parents in list(waiting.items()):
        if not parents.isdisjoint(lost):
            lost[candidate] = None
            del waiting[candidate]
    return list(lost)[1:]


class Slots:
    """Limits the threads of an apply. Threads for batches take only slots that no model wants."""

    def __init__(self, count: int) -> None:
        self.count = max(1, count)
        self._free = self.count
        self._waiting = 0
        self._waiting_alone = 0
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def slot(self, *, alone: bool = False) -> Iterator[Callable[[], bool]]:
        """Wait for a worker slot, and hold it while the block runs.

        Args:
            alone: Whether to run alone: wait until nothing else runs, and let nothing else start.

        Returns:
            A function that returns whether nothing else has run during the block so far.
        """
        needed = self.count if alone else 1
        with self._changed:
            self._waiting += needed
            self._waiting_alone += alone
            self._changed.wait_for(
                lambda: self._free >= needed and (alone or not self._waiting_alone)
            )
            self._waiting -= needed
            self._waiting_alone -= alone
            beside = self._free < self.count
            self._free -= needed
            self._taken += 1
            taken = self._taken
        try:
            yield lambda: not beside and self._taken == taken
        finally:
            self.give_back(needed)

    def take_spare(self, wanted: Callable[[], bool]) -> bool:
        """Take a slot that no model waits for, or return False once `wanted` returns false."""
        with self._changed:
            self._changed.wait_for(lambda: not wanted() or self._free > self._waiting)
            taken = wanted()
            self._free -= taken
            self._taken += taken
            return taken

    def give_back(self, slots: int = 1) -> None:
        with self._changed:
            self._free += slots
            self._changed.notify_all()
