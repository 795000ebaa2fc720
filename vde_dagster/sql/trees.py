"""Placeholders for parameters, the dialect for parsing, and the cache of trees."""

from __future__ import annotations

import atexit
import gc
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vde_dagster.base.workers import usable_memory

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
    return re.sub(r"__vde_param_(\w+?)__(?!\w)", r"@\1", text)


def has_placeholder(text: str) -> bool:
    """Return whether a text may contain a placeholder."""
    return _PREFIX in text


@lru_cache(maxsize=16)
def plain_dialect(dialect: str) -> Dialect:
    """Return a SQLGlot dialect that keeps formats of dates and numbers as written.

    Raises ValueError if SQLGlot has no such dialect.
    """
    from sqlglot.dialects.dialect import Dialect

    base = Dialect.get_or_raise(dialect).__class__
    # SQLGlot's own dialects translate every format to Python's format and back. Then `'y'` and
    # `'yyyy'` become equal, although Spark pads the year only for `'yyyy'`.
    changed: Any = type(f"Vde{base.__name__}", (base,), {"TIME_MAPPING": {}, "FORMAT_MAPPING": {}})
    made: Dialect = changed()
    return made


_LEAST_CHARACTERS = 900_000
_SHARE, _BYTES = 16, 150
"""Trees may take a 16th of the usable memory. The tree of a query takes 150 bytes a character."""


class ParsedQueries:
    """A cache of syntax trees by query text.

    Args:
        most: Maximum total length of the cached queries, in characters; by default, it depends on
            the machine's memory.
    """

    def __init__(self, most: int | None = None) -> None:
        # The trees may take a sixteenth of the memory, but at least 135 MB.
        if most is None:
            most = max(_LEAST_CHARACTERS, usable_memory() // (_SHARE * _BYTES))
        self._room = most
        self._kept = 0
        self._trees: dict[str, exp.Expr] = {}

    def keep(self, query: str, tree: exp.Expr) -> None:
        """Cache a query's tree.

        If the query is already cached or longer than the room left, release the tree's memory.
        """
        if len(query) > self._room or query in self._trees:
            dismantle(tree)
            return
        self._room -= len(query)
        self._kept += len(query)
        self._trees[query] = tree
        rare = gc.get_threshold()[0]
        if rare >= _GC_THRESHOLD and self._kept > rare // 2:
            gc.set_threshold(2 * rare, 20, 20)  # A tree has about one object per character.

    def take(self, query: str) -> exp.Expr | None:
        """Remove a query's tree from the cache and return it, or None if it is missing."""
        tree = self._trees.pop(query, None)
        if tree is not None:
            self._room += len(query)
            self._kept -= len(query)
        return tree

    def __contains__(self, query: object) -> bool:
        return query in self._trees

    def clear(self) -> None:
        for query in list(self._trees):
            tree = self.take(query)
            if tree is not None:
                dismantle(tree)
        if gc.get_threshold()[0] > _GC_THRESHOLD:
            collect_rarely()


_GC_THRESHOLD = 1_500_000
"""Number of new objects after which the garbage collector runs.

Trees of queries with `_LEAST_CHARACTERS` characters in total have fewer objects.
"""


def collect_rarely() -> None:
    """Make Python's garbage collector run less often; only for short processes."""
    # A syntax tree has thousands of objects. With Python's default threshold of 700, each would be
    # visited several times without effect. While `ParsedQueries` keeps more trees, the collector
    # runs even less often.
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    # The end of the process releases its memory, so the collector ignores all objects then.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def used_args(node: exp.Expr) -> set[str]:
    return {key for key, value in node.args.items() if value}


def dismantle(tree: exp.Expr) -> None:
    """Break the reference cycles of an unused tree, so that its memory is released at once."""
    from sqlglot.expressions import Expr, Identifier, Literal

    nodes = [tree]
    for node in nodes:
        if node.__class__ is not Identifier and node.__class__ is not Literal:
            for value in node.args.values():
                if value.__class__ is list:
                    nodes += [item for item in value if isinstance(item, Expr)]
                elif isinstance(value, Expr):
                    nodes.append(value)
        node.parent = None
