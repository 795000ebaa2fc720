"""Parts of a report: sections of rows with marked cells; formats of sizes, times and ranges."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count

if TYPE_CHECKING:
    from vde_dagster.planning.intervals.cadence import IntervalUnit
    from vde_dagster.planning.intervals.interval import Interval, IntervalSet
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.table_contents import Skipped

CONTEXT = 2
"""Number of unchanged lines around each change."""
MOST_REASONS = 4
"""Maximum number of reasons per row; the JSON form has all."""


class Mark(str, Enum):
    """The meaning of a text, such as a warning. A printer chooses the color or font."""

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
    """A text of a table with its meaning (`Mark`)."""

    text: str
    mark: Mark = Mark.PLAIN


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a section.

    Args:
        reasons: Sentences below the row that explain it.
    """

    cells: tuple[Cell, ...]
    reasons: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with rows.

    Args:
        title: First words of the heading.
        amount: Size of the section, which follows the title.
        columns: Headers of its rows' cells; empty if the rows are sentences.
    """

    title: str
    amount: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    mark: Mark = Mark.PLAIN

    @property
    def heading(self) -> str:
        return f"{self.title} {self.amount}".rstrip()


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report on a plan, an environment or a cleanup, without a format.

    Args:
        title: Words before the subject's name.
        summary: Result in one line.
        facts: Words after the summary, such as the creation time.
        breaks: Changes that break readers, if any.
        short: Sentences that the short form must include.
        work: Sections whose rows have reasons.
        rest: Sections after the reasons.
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
    """Return a tuple with one section of sentences; an empty tuple if `texts` is empty."""
    rows = tuple(Row((Cell(text, mark),)) for text in texts)
    return (Section(title, rows=rows, mark=mark),) if rows else ()


def diff_lines(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff of two texts without its file names."""
    if before == after:
        return []
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT)
    return list(lines)[2:]


def unit_name(unit: IntervalUnit) -> str:
    return unit.name.lower().replace("_", " ").removesuffix("s")


def count_units(snapshot: Snapshot, intervals: IntervalSet) -> int:
    """Count the interval units in ranges of a model; 1 for a table without intervals."""
    if not snapshot.is_incremental:
        return 1 if intervals else 0
    unit = snapshot.cadence.unit
    return sum(unit.count(interval) for interval in intervals)


def format_range(interval: Interval) -> str:
    """Write a half-open range (UTC), as in `2024-01-01 … 2024-01-31`."""
    # Days are written as dates, including the last day.
    return interval.text.removesuffix(" UTC")


def format_ranges(intervals: IntervalSet, most: int = 3) -> str:
    """Write a limited number of ranges in UTC, and the number of ranges that are left out."""
    shown = [format_range(interval) for interval in list(intervals)[:most]]
    if len(intervals) > most:
        shown.append(f"and {count(len(intervals) - most, 'more range')}")
    return ", ".join(shown)


def savings_text(skipped: Iterable[Skipped]) -> str:
    """Write the savings of skipped fills, as in `, which saves 12 s and 3.4 MB`."""
    # The estimate is based on earlier fills.
    found = list(skipped)
    seconds = sum(one.seconds or 0.0 for one in found)
    amount = sum(one.bytes or 0 for one in found)
    parts = [f"{seconds:,.1f} s"] if seconds else []
    if amount:
        parts.append(f"{amount / 1e6:,.1f} MB" if amount >= 100_000 else f"{amount / 1e3:,.1f} kB")
    return f", which saves {' and '.join(parts)}" if parts else ""


def format_duration(seconds: float | None) -> str:
    """Format a duration, as in `15 s`, `3 min` or `2.5 h`; empty if it is unknown."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def short_time(value: datetime | None) -> str:
    """Format an instant in UTC, as in `2026-11-21 09:20`."""
    return value.strftime("%Y-%m-%d %H:%M") if value is not None else ""
