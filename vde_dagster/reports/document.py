"""The parts of a report: sections of rows with marked cells; sizes, times and ranges in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vde_dagster.planning.intervals.cadence import IntervalUnit
    from vde_dagster.planning.intervals.interval import Interval, IntervalSet
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.table_contents import Skipped

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


def unit_name(unit: IntervalUnit) -> str:
    """Name a unit, as in `day` or `quarter hour`."""
    return unit.name.lower().replace("_", " ").removesuffix("s")


def units(snapshot: Snapshot, intervals: IntervalSet) -> int:
    """Count the units of work in what a model fills; a whole table is one."""
    if not snapshot.is_incremental:
        return 1 if intervals else 0
    unit = snapshot.cadence.unit
    return sum(unit.count(interval) for interval in intervals)


def span(interval: Interval) -> str:
    """Write a half-open range (UTC): days by their dates, both ends included."""
    return interval.text.removesuffix(" UTC")


def spans(intervals: IntervalSet, most: int = 3) -> str:
    """Write the first few of some ranges (UTC)."""
    shown = [span(interval) for interval in list(intervals)[:most]]
    if len(intervals) > most:
        shown.append(f"and {len(intervals) - most} more ranges")
    return ", ".join(shown)


def saved(skipped: Iterable[Skipped]) -> str:
    """Say what skipping saves, as far as earlier fills tell: `, which saves 12 s and 3.4 MB`."""
    found = list(skipped)
    seconds = sum(one.seconds or 0.0 for one in found)
    amount = sum(one.bytes or 0 for one in found)
    parts = [f"{seconds:,.1f} s"] if seconds else []
    if amount:
        parts.append(f"{amount / 1e6:,.1f} MB" if amount >= 100_000 else f"{amount / 1e3:,.1f} kB")
    return f", which saves {' and '.join(parts)}" if parts else ""


def duration(seconds: float | None) -> str:
    """Write a time of work: `15 s`, `3 min`, `2.5 h`; nothing where it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def short_time(value: datetime | None) -> str:
    """Write an instant: `2026-11-21 09:20`, UTC."""
    return value.strftime("%Y-%m-%d %H:%M") if value is not None else ""
