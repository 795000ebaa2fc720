"""Work in a thread, its events in the main thread, and a way to stop it.

Dagster's log and its interrupts belong to the main thread; Spark must be started off it, since
PySpark replaces the SIGINT handler of whichever process starts it from its main thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from vde_dagster.execution.events import Event

T = TypeVar("T")
POLL_SECONDS = 0.2
STOP_SECONDS = 120.0


@dataclass
class Streamed(Generic[T]):
    """The result of streamed work, there once all its events were taken."""

    value: T | None = None


def stream_events(
    work: Callable[[Callable[[Event], None]], T],
    cancel: Callable[[], None],
    result: Streamed[T],
) -> Iterator[Event]:
    """Run work in a thread and yield its events as they come.

    Args:
        work: Called in a thread with a function that takes events.
        cancel: Called in this thread when it is interrupted, until the work has ended.
        result: Takes what the work returns.

    Yields:
        The events, in order, in the calling thread.

    Raises:
        Exception: Whatever the work raised, after its last event.
    """
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.value = work(events.put)
        except BaseException as error:
            failure.append(error)
        finally:
            events.put(None)

    thread = threading.Thread(target=run, name="vde-work", daemon=True)
    thread.start()
    finished = False
    try:
        while not finished:
            try:
                event = events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if event is None:
                finished = True
            else:
                yield event
    finally:
        if not finished:
            _stop(thread, cancel)
    thread.join()
    if failure:
        raise failure[0]


def _stop(thread: threading.Thread, cancel: Callable[[], None]) -> None:
    """Ask work to end, again and again: it may not yet have begun what is to be cancelled."""
    deadline = time.monotonic() + STOP_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        cancel()
        thread.join(POLL_SECONDS)
