"""Edits of a text, mapping of expanded text to its file, and removal of empty macro results."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vde_dagster.errors import SourceLocation
from vde_dagster.sql.scanner import SourceText, Token


class Edit(NamedTuple):
    """The replacement of a range of a text by another text."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits, which must not overlap, to a text."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits):
        pieces += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join([*pieces, text[done:]])


NOTHING = "__vde_nothing__"
"""The identifier that represents a macro's empty result until the text is parsed."""

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
"""Tokens before or after a condition or a list's item."""
_CLAUSES = frozenset({"WHERE", "HAVING", "QUALIFY", "ON"})


def remove_nothing(text: str, tokens: list[Token]) -> tuple[str, int | None]:
    """Blank out each empty macro result, together with its operator, comma or clause.

    The identifier NOTHING represents an empty result: `a AND NOTHING` becomes `a`. Blanks replace
    removed words. Also return the offset of a NOTHING that cannot be removed, or None.

    Args:
        tokens: The text's tokens, without comments.
    """
    tokens = list(tokens)
    while True:
        at = next((i for i, token in enumerate(tokens) if token.text == NOTHING), None)
        if at is None:
            return text, None
        low, high = _with_wrappers(tokens, at)
        found = _with_connector(tokens, low, high)
        if found is None:
            return text, tokens[at].start
        low, high = found
        begin, end = tokens[low].start, tokens[high].end
        text = text[:begin] + " " * (end - begin) + text[end:]
        del tokens[low : high + 1]


def _with_wrappers(tokens: list[Token], at: int) -> tuple[int, int]:
    """Extend a word's range to the brackets, NOT, alias and sort order around it."""
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


def _with_connector(tokens: list[Token], low: int, high: int) -> tuple[int, int] | None:
    """Extend a range by the operator, comma or clause next to it; return None if impossible."""
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


Runs = tuple[tuple[int, int], ...]
"""Ascending offsets of a text's pieces, each with the offset of its origin in the file.

A piece that a macro wrote has one origin for all of its characters, stored inverted: `~offset`.
"""


@dataclass(frozen=True, slots=True)
class Expanded:
    """Text after macro expansion, with the offset in the file of each character (`runs`)."""

    text: str
    runs: Runs = ((0, ~0),)

    @classmethod
    def build(cls, pieces: Iterable[tuple[str, int]]) -> Expanded:
        """Concatenate pieces of (text, offset in the file, or `~offset` for a macro's text)."""
        return cls.joined(cls(text, ((0, place),)) for text, place in pieces)

    @classmethod
    def joined(cls, parts: Iterable[Expanded]) -> Expanded:
        texts: list[str] = []
        runs: list[tuple[int, int]] = []
        length = 0
        for part in parts:
            if part.text:
                texts.append(part.text)
                runs += [(length + start, place) for start, place in part.runs]
                length += len(part.text)
        return cls("".join(texts), tuple(runs) or ((0, ~0),))

    def origin(self, offset: int) -> int:
        """Return the offset in the file that a character of the text comes from."""
        place = find_place(self.runs, offset)
        return place if place >= 0 else ~place

    def was_replaced(self, offset: int) -> bool:
        """Return whether a character of the text came from a macro."""
        return find_place(self.runs, offset) < 0

    def part(self, begin: int, end: int) -> Expanded:
        first = bisect_right(self.runs, (begin, sys.maxsize))
        last = bisect_left(self.runs, (end, -sys.maxsize))
        inner = ((start - begin, place) for start, place in self.runs[first:last])
        return Expanded(self.text[begin:end], ((0, find_place(self.runs, begin)), *inner))

    def edited(self, edits: Iterable[Edit]) -> Expanded:
        """Apply edits. Inserted text gets the offset at which its edit begins."""
        parts: list[Expanded] = []
        done = 0
        for edit in sorted(edits):
            parts.append(self.part(done, edit.start))
            parts.append(Expanded(edit.text, ((0, ~self.origin(edit.start)),)))
            done = edit.end
        return Expanded.joined([*parts, self.part(done, len(self.text))])

    def through(self, outer: Expanded) -> Expanded:
        """Return this text with offsets in the file of `outer` instead of in `outer.text`."""
        runs: list[tuple[int, int]] = []
        ends = [*(start for start, _ in self.runs[1:]), len(self.text)]
        for (start, place), end in zip(self.runs, ends, strict=True):
            if place < 0:
                runs.append((start, ~outer.origin(~place)))
            else:
                inner = outer.part(place, place + end - start)
                runs += [(start + at, origin) for at, origin in inner.runs]
        return Expanded(self.text, tuple(runs))


def find_place(runs: Runs, offset: int) -> int:
    """Return the file offset of a character, or `~offset` of the macro call that wrote it."""
    start, place = runs[max(bisect_right(runs, (offset, sys.maxsize)) - 1, 0)]
    return place + offset - start if place >= 0 else place


@dataclass(frozen=True, slots=True)
class ExpandedSource(SourceText):
    """Text after macro expansion, whose locations are lines and columns of the file."""

    file: SourceText
    expanded: Expanded

    def location(self, offset: int) -> SourceLocation:
        return self.file.location(self.expanded.origin(max(offset, 0)))
