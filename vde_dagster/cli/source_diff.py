"""A model's text before and after, as a red and green diff."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

CONTEXT = 2
"""Unchanged lines shown around each change."""


def diff_lines(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff without its file names.

    Args:
        before: The text that the environment has.
        after: The text that the project has.
    """
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    return [line for line in lines if not line.startswith(("---", "+++"))]


def coloured(lines: list[str]) -> Text:
    """Colour a diff: removed lines red, added ones green."""
    from rich.text import Text

    text = Text()
    for number, line in enumerate(lines):
        style = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], "dim")
        text.append(("\n" if number else "") + line, style=style)
    return text
