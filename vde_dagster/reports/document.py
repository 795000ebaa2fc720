"""The parts of a report: sections of rows with marked cells, reasons and changed lines."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

CONTEXT = 2
"""Unchanged lines shown around each change."""


class Mark(str, Enum):
    """The meaning of a text, by which a printer chooses a colour or a font."""

    PLAIN = "plain"
    NAME = "name"
    GOOD = "good"
    CHANGED = "changed"
    AFFECTED = "affected"
    WORK = "work"
    BAD = "bad"
    QUIET = "quiet"
    PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with its mark."""

    text: str
    mark: Mark = Mark.PLAIN


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a section.

    Args:
        reasons: Sentences that explain it.
        diff: Lines of a unified diff.
    """

    cells: tuple[Cell, ...]
    reasons: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part with a title of its own.

    Args:
        title: Its first words.
        amount: What follows them: how much it is about.
        columns: The headers of its rows' cells; none where rows are sentences.
    """

    title: str
    amount: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    mark: Mark = Mark.PLAIN

    @property
    def heading(self) -> str:
        """The title with its amount."""
        return f"{self.title} {self.amount}".rstrip()


@dataclass(frozen=True, slots=True)
class Report:
    """A report for people.

    Args:
        title: Stands before the subject's name.
        summary: The result in a line.
        facts: When it was made and against what.
        breaks: What readers will not find as it is, if anything.
        short: Sentences that a short form must not leave out.
        work: Sections whose rows have reasons.
        rest: Sections that follow the reasons.
    """

    title: str
    subject: str
    summary: str
    id: str = ""
    facts: str = ""
    breaks: Section | None = None
    warnings_title: str = ""
    warnings: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    work: tuple[Section, ...] = ()
    rest: tuple[Section, ...] = ()


def sentences(title: str, texts: Sequence[str], mark: Mark = Mark.PLAIN) -> tuple[Section, ...]:
    """Return a section of sentences, if there are any."""
    rows = tuple(Row((Cell(text, mark),)) for text in texts)
    return (Section(title, rows=rows, mark=mark),) if rows else ()


def diff_lines(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff of two texts without its file names."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    return list(lines)[2:]
