"""Memory of syntax trees, which come and go by the thousand, without the garbage collector."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_ALLOCATIONS = 1_500_000
"""More than the objects of all trees that `ParsedQueries` keeps, about a million."""


def collect_rarely() -> None:
    """Let the garbage collector of this process look seldom.

    Only for a process that is all ours and ends soon: a syntax tree is some thousand objects, and
    with Python's threshold of 700 each is looked at several times for nothing.
    """
    gc.set_threshold(_ALLOCATIONS, 20, 20)


def dismantle(tree: exp.Expr) -> None:
    """Take a tree apart that nobody needs: nodes know their parents, so none is freed by itself."""
    for node in list(tree.walk()):
        node.parent = None
