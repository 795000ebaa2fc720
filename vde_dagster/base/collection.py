"""Pause of Python's garbage collector while many lasting objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    if not gc.isenabled():
        yield
        return
    # Otherwise the collector visits the objects again and again, which takes half of the time to
    # load 5,000 models.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
