"""Text without macros whose pieces know their place in the file, and edits of such text."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vde_dagster.errors import SourceLocation
from vde_dagster.sql.edits import Edit
from vde_dagster.sql.scanner import SourceText, too_deep


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


@dataclass(frozen=True, slots=True)
class ExpandedSource(SourceText):
    """Text with variables replaced, whose places are those of the file.

    Args:
        expanded: Knows where the text came from.
    """

    file: SourceText
    expanded: Expanded

    def location(self, offset: int) -> SourceLocation:
        """Return the line and column in the file."""
        return self.file.location(self.expanded.origin(max(offset, 0)))


def edited(text: Expanded, edits: Iterable[Edit]) -> Expanded:
    """Replace stretches of a text; what is new came from where the old began."""
    pieces: list[Expanded] = []
    done = 0
    for edit in sorted(edits, key=lambda one: one.start):
        pieces.append(text.part(done, edit.start))
        pieces.append(Expanded(edit.text, (0,), ((text.origin(edit.start), False),)))
        done = edit.end
    pieces.append(text.part(done, len(text.text)))
    return _joined(pieces)


def through(inner: Expanded, outer: Expanded) -> Expanded:
    """Return a text whose pieces came from another one with where they came from in the end."""
    pieces: list[Expanded] = []
    ends = (*inner.starts[1:], len(inner.text))
    for start, end, (base, verbatim) in zip(inner.starts, ends, inner.origins, strict=True):
        if verbatim:
            pieces.append(outer.part(base, base + end - start))
        else:
            piece = inner.text[start:end]
            pieces.append(Expanded(piece, (0,), ((outer.origin(base), False),)))
    return _joined(pieces)


def _joined(pieces: Iterable[Expanded]) -> Expanded:
    texts: list[str] = []
    starts: list[int] = []
    origins: list[tuple[int, bool]] = []
    position = 0
    for piece in pieces:
        if piece.text:
            texts.append(piece.text)
            starts += [position + start for start in piece.starts]
            origins += piece.origins
            position += len(piece.text)
    if not starts:
        return Expanded("", (0,), ((0, False),))
    return Expanded("".join(texts), tuple(starts), tuple(origins))


def bracketed(text: str, dialect: str) -> str:
    """Put brackets around text that is an operator's expression and nothing more."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if "@" in text or text.isidentifier() or too_deep(SourceText(Path("macro"), text)) is not None:
        return text  # What is too deep is refused with the place of the call.
    try:
        tree = parse_one(text, dialect=dialect)
    except SqlglotError:  # not an expression of its own: a clause, a list, part of a statement
        return text
    loose = exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In
    atomic = exp.Paren | exp.Dot | exp.Func
    if isinstance(tree, loose) and not isinstance(tree, atomic):
        return f"({text})"
    if isinstance(tree, exp.Connector):
        return f"({text})"
    return text
