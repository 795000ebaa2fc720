"""Pause of Python's garbage collector while many lasting objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector while the block creates objects that are kept.

    The collector would visit all of them again and again: half of the time to load 5,000 models.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_forever() -> None:
    """Exclude all present objects from later collections, in a process that needs them to its end.

    The first collections after a pause would visit them several times.
    """
    gc.freeze()
