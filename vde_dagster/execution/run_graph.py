"""Running work over a DAG with a pool of threads: parents first, failures cut off descendants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

POLL_SECONDS = 0.2
"""The calling thread wakes this often, so that signals and cancellation reach it."""


@dataclass
class GraphResult(Generic[K]):
    """How the nodes ended.

    Args:
        done: Nodes whose work succeeded, in order of completion.
        failed: The exception of each node that failed.
        skipped: Nodes that were never started, with the failed node that they wait for.
    """

    done: list[K] = field(default_factory=list)
    failed: dict[K, Exception] = field(default_factory=dict)
    skipped: dict[K, K] = field(default_factory=dict)


def run_graph(
    graph: Mapping[K, set[K]],
    work: Callable[[K], None],
    *,
    threads: int,
    on_wait: Callable[[], None] = lambda: None,
    on_failure: Callable[[K, Exception, list[K]], None] = lambda node, error, skipped: None,
    stop: threading.Event | None = None,
) -> GraphResult[K]:
    """Run every node after the nodes that it depends on.

    Args:
        graph: For each node the nodes that must be done before it.
        work: Does one node's work, in a pool thread.
        threads: How many nodes run at once.
        on_wait: Called in the calling thread several times a second while work goes on.
        on_failure: Called in the calling thread with a failed node and what is skipped for it.
        stop: When set, no further node is started.

    Returns:
        How each node ended.
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
                on_wait()
                for future in finished:
                    node = running.pop(future)
                    error = future.exception()
                    if error is None:
                        result.done.append(node)
                        for parents in waiting.values():
                            parents.discard(node)
                        continue
                    if not isinstance(error, Exception):
                        raise error
                    result.failed[node] = error
                    skipped = _cut_off(node, waiting)
                    result.skipped.update(dict.fromkeys(skipped, node))
                    on_failure(node, error, skipped)
        except BaseException:
            if stop is not None:
                stop.set()
            raise
    return result


def _cut_off(node: K, waiting: dict[K, set[K]]) -> list[K]:
    """Take every node that depends on a failed one out of the waiting ones."""
    lost = {node}
    out: list[K] = []
    changed = True
    while changed:
        changed = False
        for candidate, parents in list(waiting.items()):
            if parents & lost:
                lost.add(candidate)
                out.append(candidate)
                del waiting[candidate]
                changed = True
    return out
