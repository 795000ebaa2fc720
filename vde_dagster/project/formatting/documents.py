"""A small pretty printer: texts that are broken into lines where necessary.

After Philip Wadler, "A prettier printer" (2003): a group is written in one line if it fits.
If it does not fit, each `LINE` (a space) and `SOFT` (no text) of the group becomes a line end;
nested groups are laid out by the same rule. As an addition, a comment that follows text in its line
stays there, and every other comment gets a separate line.

>>> words = Group(("f(", Nest(2, (SOFT, "one,", LINE, "two")), SOFT, ")"))
>>> render_document(words, 80)
'f(one, two)'
>>> print(render_document(words, 8))
f(
  one,
  two
)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Break:
    """A place in a document where a line can end, or must end.

    Args:
        flat: The text to write instead of a line end if the group is one line.
        lines: Number of required line ends; 0 if a line end is only possible.
    """

    flat: str = ""
    lines: int = 0


LINE, SOFT = Break(" "), Break()
HARD, BLANK = Break(lines=1), Break(lines=2)


@dataclass(frozen=True, slots=True)
class Nest:
    """Part of a document that is indented."""

    by: int
    inside: Document


@dataclass(frozen=True, slots=True)
class Group:
    """Part of a document that is written in one line if it fits."""

    inside: Document


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment in a document; `behind` means that it follows other text in its line."""

    text: str
    behind: bool

    @property
    def ends_line(self) -> bool:
        """Whether the comment must be the last part of its line."""
        return not self.behind or self.text.startswith("--") or "\n" in self.text


# A tuple of documents is one, too.
Document = Any


def render_document(document: Document, width: int) -> str:
    """Write a document as text, with lines of at most `width` characters if possible.

    A text " " is a space; at the end of a line it is left out.
    """
    out = _Writer()
    waiting: list[tuple[int, bool, Document]] = [(0, False, document)]
    while waiting:
        indent, flat, one = waiting.pop()
        if isinstance(one, str):
            out.add(one, indent)
        elif isinstance(one, tuple):
            waiting.extend((indent, flat, part) for part in reversed(one))
        elif isinstance(one, Nest):
            waiting.append((indent + one.by, flat, one.inside))
        elif isinstance(one, Group):
            flat = flat or _fits(one.inside, width - out.column(indent), waiting)
            waiting.append((indent, flat, one.inside))
        elif isinstance(one, Remark):
            out.remark(one, indent)
        elif flat:
            out.add(one.flat, indent)
        else:
            out.end(max(one.lines, 1))
    return out.text


class _Writer:
    def __init__(self) -> None:
        self.text = ""
        self._ends = 0
        self._blank = False
        self._start = 0

    def column(self, indent: int) -> int:
        if self._ends or not self.text:
            return indent
        return len(self.text) - self._start + self._blank

    def add(self, text: str, indent: int) -> None:
        if text in ("", " "):
            self._blank = self._blank or bool(text)
            return
        if self._ends and self.text:
            self.text += "\n" * self._ends
            self._start = len(self.text)
        if self._ends or not self.text:
            self.text += " " * indent
        elif self._blank:
            self.text += " "
        self._ends, self._blank = 0, False
        self.text += text
        if "\n" in text:
            self._start = self.text.rindex("\n") + 1

    def end(self, lines: int) -> None:
        self._ends = max(self._ends, lines)

    def remark(self, remark: Remark, indent: int) -> None:
        ends = self._ends
        if remark.behind and self.text:
            self._ends, self._blank = 0, True
        else:
            self.end(1)
        self.add(remark.text, indent)
        self._blank = True
        if remark.ends_line:
            self.end(1)
        if remark.behind:
            self._ends = max(ends, self._ends)


def _fits(document: Document, width: int, waiting: list[tuple[int, bool, Document]]) -> bool:
    left, behind = width, len(waiting)
    inside = [document]
    flat = True
    while left >= 0:
        if not inside:
            if not behind:
                return True
            behind -= 1
            _, flat, following = waiting[behind]
            inside = [following]
        one = inside.pop()
        if isinstance(one, str):
            if "\n" in one:
                return behind < len(waiting)
            left -= len(one)
        elif isinstance(one, tuple):
            inside.extend(reversed(one))
        elif isinstance(one, Nest | Group):
            inside.append(one.inside)
        elif isinstance(one, Remark):
            if one.ends_line:
                return behind < len(waiting)
            left -= len(one.text) + 1
        elif one.lines:
            return behind < len(waiting)
        elif behind < len(waiting) and not flat:
            return True
        else:
            left -= len(one.flat)
    return False
