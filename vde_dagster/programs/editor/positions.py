"""Conversion between lines and columns, offsets in texts, and LSP positions.

LSP positions count the UTF-16 units of a line, unless client and server agree on another unit.
Offsets in texts and columns in messages count characters. Lines and columns in messages begin at 1.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

from vde_dagster.errors import SourceLocation

_BREAK = re.compile(r"\r\n|\n|\r")
_TOKEN = re.compile(r"\w+|`[^`\n]*`|'[^'\n]*'|\"[^\"\n]*\"|[^\w\s]")


class Lines:
    r"""The lines of a text, to convert between offsets, line numbers and LSP positions.

    >>> Lines("SELECT\n  1").offset(2, 3)
    9
    """

    def __init__(self, text: str) -> None:
        self.text = text
        breaks = list(_BREAK.finditer(text))
        self._starts = [0, *(found.end() for found in breaks)]
        self._ends = [*(found.start() for found in breaks), len(text)]

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column (1-based), or the nearest offset."""
        index = min(max(line, 1), len(self._starts)) - 1
        return min(self._starts[index] + max(column - 1, 0), self._ends[index])

    def position(self, offset: int, codec: PositionCodec) -> Position:
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        return Position(line, codec.client_num_units(self.text[self._starts[line] : offset]))

    def range(self, start: int, end: int, codec: PositionCodec) -> Range:
        return Range(self.position(start, codec), self.position(end, codec))

    def offset_at(self, position: Position, codec: PositionCodec) -> int:
        """Return the offset of an LSP position, at most the end of its line."""
        if position.line >= len(self._starts):
            return len(self.text)
        at, units = self._starts[position.line], 0
        while at < self._ends[position.line] and units < position.character:
            units += codec.client_num_units(self.text[at])
            at += 1
        return at

    def token_span(self, location: SourceLocation) -> tuple[int, int]:
        """Return the span of the word at a location; without a column, the span of the line."""
        index = min(location.line or 1, len(self._starts)) - 1
        if location.line is None or location.column is None:
            line = self.text[self._starts[index] : self._ends[index]]
            return self._starts[index] + len(line) - len(line.lstrip()), self._ends[index]
        start = self.offset(location.line, location.column)
        found = _TOKEN.match(self.text, start)
        return start, found.end() if found else min(start + 1, len(self.text))


@lru_cache(maxsize=64)
def split_lines(text: str) -> Lines:
    return Lines(text)
