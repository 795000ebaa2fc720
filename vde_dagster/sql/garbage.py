"""Memory of syntax trees, which come and go by the thousand, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_ALLOCATIONS = 1_500_000
"""More than the objects of all trees that `ParsedQueries` keeps, about a million."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look seldom, and never at what was there before.

    A syntax tree is some thousand objects; with Python's threshold of 700 each is looked at
    several times for nothing, a tenth of a first load. What is alive at the end is old at once:
    freezing and unfreezing moves it there without looking at it.
    """
    before = gc.get_threshold()
    ours = before[0] > 0 and gc.get_freeze_count() == 0  # Someone else's frozen objects stay so.
    if ours:
        gc.freeze()
    gc.set_threshold(max(before[0], _ALLOCATIONS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        if ours:
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)


def dismantle(tree: exp.Expr) -> None:
    """Take a tree apart that nobody needs: nodes know their parents, so none is freed by itself."""
    for node in list(tree.walk()):
        node.parent = None
