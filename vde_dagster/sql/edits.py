"""Changing a text in places."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Edit(NamedTuple):
    """A stretch of a text and what stands there instead.

    Args:
        start: Offset of its first character.
        end: Offset behind its last character.
        text: The new text.
    """

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
