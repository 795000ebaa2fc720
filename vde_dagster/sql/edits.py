"""Edits of a text in places, and removal of the nothing that a macro returned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vde_dagster.sql.scanner import Token


class Edit(NamedTuple):
    """A stretch of a text and what stands there instead."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with its edits, which do not overlap."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits):
        pieces += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*pieces, text[done:]])


NOTHING = "__vde_nothing__"
"""The identifier that stands for a macro's empty result until the tree is parsed."""

_BEFORE_BRACKET = frozenset(
    {"AND", "OR", "NOT", "WHERE", "HAVING", "QUALIFY", "ON", "SELECT", "BY", "WHEN", "THEN", "ELSE"}
    | {"IN", "AS", "FROM", "JOIN", "BETWEEN", "LIKE", "IS", "DISTINCT"}
)
_BORDERS = frozenset(
    {"", "(", ")", ",", "AND", "OR", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "BY"}
    | {"ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION", "EXCEPT"}
    | {"INTERSECT", "MINUS", "ON", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL"}
    | {"LATERAL", "WHEN", "THEN", "ELSE", "END", "USING", "ROWS", "RANGE"}
)
"""What stands at the end of a condition or of a list's item."""
_CLAUSES = frozenset({"WHERE", "HAVING", "QUALIFY", "ON"})


def without_nothing(text: str, tokens: list[Token]) -> tuple[str, int | None]:
    """Blank out NOTHING, with the operator, comma or clause that it leaves without an operand.

    Args:
        tokens: Its tokens, without comments.

    Returns:
        The text, of the same length, and None; or where a word stands that something has to be.
    """
    tokens = list(tokens)
    while True:
        at = next((i for i, token in enumerate(tokens) if token.text == NOTHING), None)
        if at is None:
            return text, None
        low, high = _around(tokens, at)
        found = _with_neighbour(tokens, low, high)
        if found is None:
            return text, tokens[at].start
        low, high = found
        begin, end = tokens[low].start, tokens[high].end
        text = text[:begin] + " " * (end - begin) + text[end:]
        del tokens[low : high + 1]


def _around(tokens: list[Token], at: int) -> tuple[int, int]:
    """Take in the brackets, NOT, alias and sort order of a word."""
    low = high = at
    while True:
        before, behind = _word(tokens, low - 1), _word(tokens, high + 1)
        if before == "(" and behind == ")" and not _is_call(tokens, low - 1):
            low, high = low - 1, high + 1
        elif before == "NOT":
            low -= 1
        elif behind == "AS":
            high += 2
        elif behind in ("ASC", "DESC"):
            high += 1
        elif behind == "NULLS":
            high += 2
        else:
            return low, min(high, len(tokens) - 1)


def _with_neighbour(tokens: list[Token], low: int, high: int) -> tuple[int, int] | None:
    """Take in what stands beside; AND before OR, as it binds tighter."""
    before, behind = _word(tokens, low - 1), _word(tokens, high + 1)
    if before not in _BORDERS or behind not in _BORDERS:
        return None  # It is an operand of something else.
    for operator in ("AND", "OR"):
        if before == operator:
            return low - 1, high
        if behind == operator:
            return low, high + 1
    if before == ",":
        return low - 1, high
    if behind == ",":
        return low, high + 1
    if before in _CLAUSES:
        return low - 1, high
    if before == "BY":
        return max(low - 2, 0), high
    if before == "(" and behind == ")":
        return low, high
    return None


def _word(tokens: list[Token], index: int) -> str:
    return tokens[index].text.upper() if 0 <= index < len(tokens) else ""


def _is_call(tokens: list[Token], bracket: int) -> bool:
    if not bracket:
        return False
    name = tokens[bracket - 1]
    return name.kind in ("word", "quoted") and name.text.upper() not in _BEFORE_BRACKET
