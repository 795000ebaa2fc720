"""The words of macro arguments, which a macro gets as trees and often hands back as they are.

SQLGlot would write `to_char(x, '999')` as a cast. A tree that came from an argument and was not
changed is written as its author wrote it, wherever it stands in a macro's result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_TEXT, _HASH = "vde_text", "vde_hash"
_PLACE = "__vde_words_{}__"
_PLACES = re.compile(r"__vde_words_(\d+)__")


def remember(tree: exp.Expr, text: str) -> exp.Expr:
    """Note the words of an argument on its tree; copies know them too."""
    tree.meta[_TEXT] = text.strip()
    tree.meta[_HASH] = hash(tree)
    return tree


def words_of(tree: exp.Expr) -> str | None:
    """Return the words of an argument's tree if it is as it was read."""
    text: str | None = tree.meta.get(_TEXT)
    return text if text is not None and tree.meta.get(_HASH) == hash(tree) else None


def written(tree: exp.Expr, write: Callable[[exp.Expr], str]) -> str:
    """Write a macro's result, with the words of the arguments that are in it.

    Args:
        tree: The result; it is not changed.
        write: Writes what is not an argument.
    """
    from sqlglot import exp

    own = words_of(tree)
    if own is not None:
        return own
    tree = tree.copy()
    texts: list[str] = []
    waiting = list(tree.iter_expressions())
    while waiting:
        node = waiting.pop()
        words = words_of(node)
        if words is None:
            waiting += node.iter_expressions()
        else:
            node.replace(exp.Var(this=_PLACE.format(len(texts))))
            texts.append(words)
    return _PLACES.sub(lambda match: texts[int(match[1])], write(tree))
