"""Letting somebody in this process see the events of an apply that runs as a Dagster job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vde_dagster.execution.events import Event

_WATCHERS: list[Callable[[Event], None]] = []


@contextmanager
def watching(watcher: Callable[[Event], None]) -> Iterator[None]:
    """Call a function with every event of the applies that this process does meanwhile."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)


def tell(event: Event) -> None:
    """Show an event to those who watch."""
    for watcher in list(_WATCHERS):
        watcher(event)
