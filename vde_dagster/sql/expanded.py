"""Text without macros whose pieces know their place in the file, and edits of such text."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from vde_dagster.errors import SourceLocation
from vde_dagster.sql.edits import Edit
from vde_dagster.sql.scanner import SourceText

Runs = tuple[tuple[int, int], ...]
"""Where the pieces of a text begin, ascending, each with the offset in the file that it came from.

Of a piece that a macro wrote, all came from one offset, which is inverted: `~offset`.
"""


@dataclass(frozen=True, slots=True)
class Expanded:
    """Text without macros, and where its pieces came from; the first begins at 0."""

    text: str
    runs: Runs = ((0, ~0),)

    @classmethod
    def of(cls, pieces: Iterable[tuple[str, int]]) -> Expanded:
        """Put pieces together, each with its place as in `Runs`."""
        return cls.joined(cls(text, ((0, place),)) for text, place in pieces)

    @classmethod
    def joined(cls, parts: Iterable[Expanded]) -> Expanded:
        """Put texts together."""
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
        """Return the offset in the file that a character of the text came from."""
        place = place_in(self.runs, offset)
        return place if place >= 0 else ~place

    def was_replaced(self, offset: int) -> bool:
        """Say whether a character of the text came from a macro."""
        return place_in(self.runs, offset) < 0

    def part(self, begin: int, end: int) -> Expanded:
        """Return a part of the text, between two offsets in it."""
        first = bisect_right(self.runs, (begin, sys.maxsize))
        last = bisect_left(self.runs, (end, -sys.maxsize))
        inner = ((start - begin, place) for start, place in self.runs[first:last])
        return Expanded(self.text[begin:end], ((0, place_in(self.runs, begin)), *inner))

    def edited(self, edits: Iterable[Edit]) -> Expanded:
        """Return the text with edits; what they write came from where they begin."""
        parts: list[Expanded] = []
        done = 0
        for edit in sorted(edits):
            parts.append(self.part(done, edit.start))
            parts.append(Expanded(edit.text, ((0, ~self.origin(edit.start)),)))
            done = edit.end
        return Expanded.joined([*parts, self.part(done, len(self.text))])

    def through(self, outer: Expanded) -> Expanded:
        """Return a text whose pieces came from another one with where they came from in the end."""
        runs: list[tuple[int, int]] = []
        ends = [*(start for start, _ in self.runs[1:]), len(self.text)]
        for (start, place), end in zip(self.runs, ends, strict=True):
            if place < 0:
                runs.append((start, ~outer.origin(~place)))
            else:
                inner = outer.part(place, place + end - start)
                runs += [(start + at, origin) for at, origin in inner.runs]
        return Expanded(self.text, tuple(runs))


def place_in(runs: Runs, offset: int) -> int:
    """Return the place, as in `Runs`, that a character came from."""
    start, place = runs[max(bisect_right(runs, (offset, sys.maxsize)) - 1, 0)]
    return place + offset - start if place >= 0 else place


@dataclass(frozen=True, slots=True)
class ExpandedSource(SourceText):
    """Text with variables replaced, whose places are those of the file."""

    file: SourceText
    expanded: Expanded

    def location(self, offset: int) -> SourceLocation:
        """Return the line and column in the file."""
        return self.file.location(self.expanded.origin(max(offset, 0)))
