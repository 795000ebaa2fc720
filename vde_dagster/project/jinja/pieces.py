"""Changing text that knows where every piece of it came from."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.project.macros.expanded import Expanded
from vde_dagster.sql.edits import Edit


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
