"""Backlogs: what the tables of a model got and lost since its last fill read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from vde_dagster.base.texts import count, listed
from vde_dagster.base.times import instant_text
from vde_dagster.planning.intervals.interval import iso


@dataclass(frozen=True, slots=True)
class TableBacklog:
    """What one table got and lost, as the summaries of its commits tell it.

    Args:
        table: The model whose table it is, or the table of others.
        commits: Commits that may have changed rows; None where not all of them are kept, or the
            table is another one than was read.
        added: Rows that they wrote, those that they carried over too; None where not known.
        removed: Rows that they took away, counted alike.
        filled_first: Whether the plan fills the table before it is read.
    """

    table: str
    commits: int | None
    added: int | None = None
    removed: int | None = None
    filled_first: bool = False

    @property
    def text(self) -> str:
        """The backlog for people."""
        parts = []
        if self.commits is None:
            parts.append("commits not known")
        elif self.commits or not self.filled_first:
            parts.append(count(self.commits, "commit"))
        if self.added is not None and self.removed is not None and self.commits:
            parts.append(f"+{self.added:,} -{self.removed:,} rows")
        parts += ["what this plan fills"] if self.filled_first else []
        return f"{self.table} {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the next fill of a model has to make up for.

    Args:
        since: When its last fill, or its last look that found nothing new, was recorded (UTC).
        tables: Those that moved since, or are about to.
        why_all: Why the fill computes all rows; empty where it computes keys alone, as far as
            that is known yet.
    """

    since: datetime
    tables: tuple[TableBacklog, ...]
    why_all: str = ""

    def sentences(self) -> Iterator[str]:
        """Say what moved, and what is computed of it."""
        if self.tables:
            moved = listed(one.text for one in self.tables)
            yield f"changes since {instant_text(self.since)}: {moved}"
        if self.why_all:
            yield f"all rows are computed: {self.why_all}"

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "since": iso(self.since),
            "tables": [asdict(one) for one in self.tables],
            "computes": "all" if self.why_all else "keys",
            "why_all": self.why_all or None,
        }
