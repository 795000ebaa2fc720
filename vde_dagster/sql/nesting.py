"""How deeply a text may be nested.

The parser's compiled build has no limit of its own: a text of twenty thousand brackets ends the
process, and one of a few hundred nested types takes minutes. So brackets are counted first.
"""

from __future__ import annotations

import re

from vde_dagster.errors import ProjectError
from vde_dagster.sql.scanner import CLOSING, OPENING, SourceText, scan

DEEPEST = 200
"""Levels of brackets, of types and of CASE; Spark's own parser gives up not far above."""

NESTED = "this is nested too deeply"
NESTED_HINT = "split it into several models or common table expressions"

_CASE = re.compile(r"\bcase\b", re.IGNORECASE)
_TYPES = ("ARRAY", "MAP", "STRUCT")


def too_deep(source: SourceText, *, backslash: bool = True) -> int | None:
    """Find where a text is nested more deeply than any reader of it can follow.

    Args:
        source: The text.
        backslash: As for `scan`.

    Returns:
        The offset of the first bracket that is too deep, or None.
    """
    if not _may_be_deep(source.text):
        return None
    try:
        offset, depth = deepest(source, backslash=backslash, stop_at=DEEPEST + 1)
    except ProjectError:
        return None  # Something is not closed, which is a mistake of its own.
    return offset if depth > DEEPEST else None


def refuse_too_deep(source: SourceText, *, backslash: bool = True) -> None:
    """Refuse a text that is nested too deeply; arguments as for `too_deep`.

    Raises:
        ProjectError: It is; points at the first bracket that is too deep.
    """
    found = too_deep(source, backslash=backslash)
    if found is not None:
        raise source.error(NESTED, found, NESTED_HINT)


def nested_too_deeply(source: SourceText, hint: str = NESTED_HINT) -> ProjectError:
    """Make the error for a text whose reading used up the stack; points at what looks guilty.

    Args:
        source: The text.
        hint: What to do.
    """
    try:
        offset, depth = deepest(source)
    except ProjectError:
        offset, depth = 0, 0
    if depth < DEEPEST // 10:
        # It is not brackets: a long chain of operators, which is mostly a long line.
        offset = source.text.find(max(source.text.split("\n"), key=len))
    return source.error(NESTED, offset, hint)


def _may_be_deep(text: str) -> bool:
    """Count openings: far cheaper than finding out which of them are closed again."""
    brackets = sum(text.count(opening) for opening in OPENING)
    if brackets + text.count("<") > DEEPEST:
        return True
    return len(text) > 4 * DEEPEST and len(_CASE.findall(text)) > DEEPEST


def deepest(
    source: SourceText,
    *,
    backslash: bool = True,
    stop_at: int | None = None,
) -> tuple[int, int]:
    """Find the most deeply nested place of a text.

    Args:
        source: The text.
        backslash: As for `scan`.
        stop_at: Look no further once this level is reached.

    Returns:
        Its offset and its level.
    """
    found, most = 0, 0
    levels: list[str] = []
    before = ""
    for token in scan(source, backslash=backslash):
        text = token.text
        if token.kind == "word":
            text = text.upper() if len(text) < 7 else text
            if text == "CASE":
                levels.append("END")
            elif text == "END" and levels and levels[-1] == "END":
                levels.pop()
        elif token.kind == "punct":
            if text in OPENING:
                levels.append(OPENING[text])
            elif text == "<" and before in _TYPES:
                levels.append(">")
            elif text in CLOSING or (text == ">" and levels and levels[-1] == ">"):
                while levels and levels.pop() != text:
                    pass  # A bracket closes what was left open within it.
        before = text
        if len(levels) > most:
            found, most = token.start, len(levels)
            if stop_at is not None and most >= stop_at:
                break
    return found, most
