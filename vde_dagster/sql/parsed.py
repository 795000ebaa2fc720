"""Syntax trees of queries that were just read, for whoever wants them next.

Their owner is who loads a project and then plans it: loading fills what the owner gives it,
planning takes them out again. Who only loads gives none, and none are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.sql.garbage import dismantle

if TYPE_CHECKING:
    from sqlglot import exp

_MOST = 900_000


class ParsedQueries:
    """Trees by their queries' texts, up to a size: parsing is what a first load costs most.

    Args:
        most: How many characters of queries to keep trees of. A character takes about 130 bytes.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._room = most
        self._trees: dict[str, exp.Expr] = {}

    def keep(self, query: str, tree: exp.Expr) -> None:
        """Keep a query's tree if there is room; otherwise it is of no use any longer."""
        if len(query) > self._room or query in self._trees:
            dismantle(tree)
            return
        self._room -= len(query)
        self._trees[query] = tree

    def take(self, query: str) -> exp.Expr | None:
        """Hand over a query's tree; it is not kept any longer."""
        tree = self._trees.pop(query, None)
        if tree is not None:
            self._room += len(query)
        return tree

    def clear(self) -> None:
        """Forget all that nobody took."""
        for query in list(self._trees):
            tree = self.take(query)
            if tree is not None:
                dismantle(tree)
