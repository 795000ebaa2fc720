"""The style of laid out SQL: blanks between words, and their case."""

from __future__ import annotations

from vde_dagster.plugins.formatter.nodes import Leaf
from vde_dagster.project.settings import LayoutOptions
from vde_dagster.sql.query_text import CLAUSE_WORDS

_NONE_BEHIND = frozenset(["(", "[", ".", "::"])
_NONE_BEFORE = frozenset([")", "]", ",", ";", ".", "::"])
_AS_WRITTEN = frozenset("${}:?!~\\#@")
"""Signs that may mean something else away from their neighbours."""

_WORDS = """
ALL AND AS ASC BETWEEN BY CASE DESC DISTINCT ELSE EXISTS FALSE IN IS LIKE NOT NULL ON OR OVER
RECURSIVE RLIKE THEN TRUE USING WHEN
"""
KEYWORDS = frozenset(_WORDS.split())
"""Words that are always written in capitals; those of clauses are, where a clause begins."""

_BEFORE_BY = ("GROUP", "ORDER", "PARTITION", "SORT", "CLUSTER", "DISTRIBUTE")


def blank_between(before: Leaf, leaf: Leaf) -> bool:
    """Say whether a blank stands between two leaves that follow each other in a line."""
    if leaf.kind == "type" or before.kind == "type":
        return before.text == ">" and leaf.kind != "type"
    if leaf.text in _NONE_BEFORE or before.text in _NONE_BEHIND:
        return False
    if _sticks(before) or _sticks(leaf) or _prefixes(before, leaf) or _is_joined(before, leaf):
        return not leaf.adjacent
    if before.is_sign:
        return leaf.text in ("-", "+")  # Two of them would begin a comment.
    if leaf.text == "(":
        called = before.kind == "quoted" or (before.kind == "word" and before.is_value)
        return not called
    if leaf.text == "[":
        return not (leaf.adjacent and before.is_value)
    return True


def _sticks(leaf: Leaf) -> bool:
    return leaf.kind == "punct" and leaf.text in _AS_WRITTEN


def _is_joined(before: Leaf, leaf: Leaf) -> bool:
    """Say whether one may be a part of a name that the other has another part of."""
    if "macro" not in (before.kind, leaf.kind):
        return False
    return before.is_value or before.kind == "macro"


def _prefixes(before: Leaf, leaf: Leaf) -> bool:
    """Say whether a word or string may be one literal with the string behind it."""
    return leaf.kind == "string" and before.kind in ("word", "string", "quoted")


def text_of(leaf: Leaf, before: Leaf | None, following: Leaf | None, options: LayoutOptions) -> str:
    """Return a leaf's text, keywords in capitals where the options say so.

    Args:
        before: The one before it.
        following: The one behind it.
    """
    word = leaf.word
    if not word or _is_name(leaf, before, following):
        return leaf.text
    if word in KEYWORDS or (word in _BEFORE_BY and following and following.word == "BY"):
        return word if options.keywords else leaf.text
    functions = options.normalize_functions
    if following and following.text == "(" and functions and word not in CLAUSE_WORDS:
        return word if functions == "upper" else leaf.text.lower()
    return leaf.text


def _is_name(leaf: Leaf, before: Leaf | None, following: Leaf | None) -> bool:
    """Say whether a word is a part of a name, or an alias."""
    if before and (before.text == "." or before.word == "AS"):
        return True
    if before and before.kind == "macro" and leaf.adjacent:
        return True
    if following and following.kind == "macro" and following.adjacent:
        return True
    return bool(following and following.text == ".")
