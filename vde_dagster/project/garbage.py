"""Fewer garbage collections while syntax trees come and go by the thousand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 20_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look at young objects less often.

    A syntax tree lives as long as one model is read and is some thousand objects; with Python's
    threshold of 700 each is looked at several times for nothing, a tenth of a first load. Trees
    refer to their parents, so without any collection their memory would not come back.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _ALLOCATIONS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
