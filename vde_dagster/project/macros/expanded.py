"""Text without macros, which knows where in the file each of its pieces came from."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from vde_dagster.sql.edits import Edit


@dataclass(frozen=True, slots=True)
class Expanded:
    """Text without macros.

    Args:
        text: The text.
        starts: Offsets in `text` where a piece begins, ascending.
        origins: Per piece, the offset in the file, and whether offsets inside it run along.
    """

    text: str
    starts: tuple[int, ...]
    origins: tuple[tuple[int, bool], ...]

    def origin(self, offset: int) -> int:
        """Return the offset in the file that a character of the text came from."""
        if not self.starts:
            return 0
        index = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        base, verbatim = self.origins[index]
        return base + (offset - self.starts[index]) if verbatim else base

    def was_replaced(self, offset: int) -> bool:
        """Say whether a character of the text came from a macro."""
        index = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        return bool(self.starts) and not self.origins[index][1]

    def edited(self, edits: Iterable[Edit]) -> Expanded:
        """Return the text with edits; what they write came from where they begin."""
        text: list[str] = []
        starts: list[int] = []
        origins: list[tuple[int, bool]] = []
        done = length = 0

        def keep(piece: Expanded) -> None:
            nonlocal length
            starts.extend(length + start for start in piece.starts)
            origins.extend(piece.origins)
            text.append(piece.text)
            length += len(piece.text)

        for edit in sorted(edits):
            if edit.start > done:
                keep(self.part(done, edit.start))
            keep(Expanded(edit.text, (0,), ((self.origin(edit.start), False),)))
            done = edit.end
        if done < len(self.text):
            keep(self.part(done, len(self.text)))
        return Expanded("".join(text), tuple(starts), tuple(origins))

    def part(self, begin: int, end: int) -> Expanded:
        """Return a part of the text, between two offsets in it."""
        first = max(bisect.bisect_right(self.starts, begin) - 1, 0)
        starts, origins = [0], [(self.origin(begin), self.origins[first][1])]
        for start, origin in zip(self.starts, self.origins, strict=True):
            if begin < start < end:
                starts.append(start - begin)
                origins.append(origin)
        return Expanded(self.text[begin:end], tuple(starts), tuple(origins))
