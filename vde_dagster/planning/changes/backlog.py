"""Backlogs: changes of a model's input tables since the model's last fill."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.intervals.interval import iso

FIRST_FILL = "it is the first fill of the table"
"""Why a table that was never filled is not refreshed from changes."""
RESTATED = "it is computed again"
"""Why a restated table is not refreshed from changes, if the plan fills none of its inputs."""


@dataclass(frozen=True, slots=True)
class TableBacklog:
    """Rows that were added to and removed from an input table since a model's last fill.

    Args:
        table: The model that owns the table, or the name of an external table.
        commits: Number of commits that may have changed rows; None if unknown.
        added, removed: Rows that these commits wrote or removed, copied rows included; None if
            unknown.
        filled_first: Whether the plan fills the table before the model.
    """

    table: str
    # Unknown if some commits have expired, or if the table was replaced since the last fill.
    commits: int | None
    added: int | None = None
    removed: int | None = None
    filled_first: bool = False


@dataclass(frozen=True, slots=True)
class Backlog:
    """The changes of input tables that a model's next fill processes.

    Args:
        since: Time (UTC) of the model's last recorded fill, or of its last check without new data.
        tables: The changed tables, including tables that the plan fills first.
        why_all: Why the fill computes all rows; empty if it does not.
        refresh: How rows are computed, if the plan could choose.
    """

    since: datetime
    tables: tuple[TableBacklog, ...]
    why_all: str = ""
    refresh: Refresh | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "since": iso(self.since),
            "tables": [asdict(one) for one in self.tables],
            "computes": "all" if self.why_all else "keys",
            "why_all": self.why_all or None,
            "refresh": self.refresh.to_json() if self.refresh is not None else None,
        }
