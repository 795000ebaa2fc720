"""Placeholders for parameters, the dialect for parsing, and the cache of trees."""

from __future__ import annotations

import gc
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect


QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "(")
"""Words that a query can begin with."""

_PREFIX = "__vde_param_"
_PLACEHOLDER = _PREFIX + "{}__"


def placeholder(name: str) -> str:
    """Return the identifier that replaces `@name` while SQLGlot parses a text."""
    return _PLACEHOLDER.format(name)


def restore_parameter_text(text: str) -> str:
    """Write `@name` for the placeholders in a text that SQLGlot cannot parse."""
    return re.sub(r"__vde_param_(\w+?)__(?!\w)", r"@\1", text)


def has_placeholder(text: str) -> bool:
    """Return whether a text may contain a placeholder."""
    return _PREFIX in text


@lru_cache(maxsize=16)
def untranslated(dialect: str) -> Dialect:
    """Return a SQLGlot dialect that keeps formats of dates and numbers as they are written.

    SQLGlot's own dialects translate every format to Python's format and back, so that `'y'` and
    `'yyyy'` become equal, although Spark pads the year only for `'yyyy'`.

    Raises:
        ValueError: SQLGlot has no such dialect.
    """
    from sqlglot.dialects.dialect import Dialect

    base = Dialect.get_or_raise(dialect).__class__
    changed: Any = type(f"Vde{base.__name__}", (base,), {"TIME_MAPPING": {}, "FORMAT_MAPPING": {}})
    made: Dialect = changed()
    return made


_MOST = 900_000


class ParsedQueries:
    """A cache of syntax trees by query text, because parsing takes most of a first load.

    Loading a project fills the cache, and planning takes the trees out again.

    Args:
        most: Maximum number of characters of queries with cached trees. A character takes about 130
            bytes.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._room = most
        self._trees: dict[str, exp.Expr] = {}

    def keep(self, query: str, tree: exp.Expr) -> None:
        """Keep a query's tree if there is room; otherwise dismantle it."""
        if len(query) > self._room or query in self._trees:
            dismantle(tree)
            return
        self._room -= len(query)
        self._trees[query] = tree

    def take(self, query: str) -> exp.Expr | None:
        """Return a query's tree and remove it from the cache."""
        tree = self._trees.pop(query, None)
        if tree is not None:
            self._room += len(query)
        return tree

    def __contains__(self, query: object) -> bool:
        return query in self._trees

    def clear(self) -> None:
        """Drop all trees that were not taken."""
        for query in list(self._trees):
            tree = self.take(query)
            if tree is not None:
                dismantle(tree)


_ALLOCATIONS = 1_500_000
"""More than the number of objects in the trees that `ParsedQueries` keeps: about a million."""


def collect_rarely() -> None:
    """Make the garbage collector of this process run less often.

    Use this only in a short process without other code. A syntax tree has thousands of objects, and
    with Python's default threshold of 700, each would be visited several times without effect.
    """
    gc.set_threshold(_ALLOCATIONS, 20, 20)


def dismantle(tree: exp.Expr) -> None:
    """Dismantle an unused tree, whose cyclic references would delay its release."""
    for node in list(tree.walk()):
        node.parent = None
