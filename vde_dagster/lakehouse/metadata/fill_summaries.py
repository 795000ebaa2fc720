"""Summary properties of a fill's commit, and the names of the branches that fills write."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any

from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.intervals.interval import Interval

PLAN_KEY = "vde.plan"
TABLE_KEY = "vde.table"
"""The physical table's id, among a table's own properties too."""
INTERVAL_KEY = "vde.interval"
KIND_KEY = "vde.kind"
FILL_KEY = "vde.fill"
"""A key that tells a fill's own commit from every other."""
SUMMARY_KEYS = (PLAN_KEY, TABLE_KEY, INTERVAL_KEY, KIND_KEY, FILL_KEY)


def fill_summary(
    plan_id: str, table_id: str, interval: Interval, kind: str, fill_id: str
) -> dict[str, str]:
    """Return the summary of a fill's commit."""
    return {
        PLAN_KEY: plan_id,
        TABLE_KEY: table_id,
        INTERVAL_KEY: str(interval),
        KIND_KEY: kind,
        FILL_KEY: fill_id,
    }


@dataclass(frozen=True, slots=True)
class CommittedFill:
    """A fill that an Iceberg commit's summary tells of."""

    plan_id: str
    table_id: str
    interval: Interval
    iceberg_snapshot_id: int
    rows: int | None


def committed_fills(metadata: dict[str, Any], branch: str | None = None) -> list[CommittedFill]:
    """Return the fills on a branch (or `main`), newest first, from the commits' summaries."""
    fills: list[CommittedFill] = []
    for snapshot in history(metadata, head_of(metadata, branch)):
        summary = snapshot.get("summary", {})
        if PLAN_KEY not in summary or INTERVAL_KEY not in summary:
            continue
        rows = summary.get("added-records")
        fills.append(
            CommittedFill(
                plan_id=summary[PLAN_KEY],
                table_id=summary.get(TABLE_KEY, ""),
                interval=Interval.parse(summary[INTERVAL_KEY]),
                iceberg_snapshot_id=int(snapshot["snapshot-id"]),
                rows=int(rows) if rows is not None else None,
            )
        )
    return fills


PREFIX = "vde_"
_PARTS = re.compile(r"vde_(?P<plan>.+)_(?P<attempt>\d+)(?P<shared>s?)")
_SCRATCH = re.compile(r"vde_(?P<plan>.+)_[0-9a-f]{32}_scratch")


@dataclass(frozen=True, slots=True)
class BranchName:
    """The parts of a branch's name.

    An attempt that stalls past its lease goes on writing to its own branch, which nobody
    publishes: whoever took over has another one. That is what fences Iceberg's own commits.

    Args:
        shared: Whether it was computed from published data alone, so that another plan may take
            over what is on it.
    """

    plan_id: str
    attempt: int
    shared: bool

    def __str__(self) -> str:
        return f"{PREFIX}{self.plan_id}_{self.attempt}{'s' if self.shared else ''}"


def parse_branch(name: str) -> BranchName | None:
    """Read a branch's name; None for one that no attempt made."""
    match = _PARTS.fullmatch(name)
    if match is None:
        return None
    return BranchName(match["plan"], int(match["attempt"]), bool(match["shared"]))


def scratch_branch(plan_id: str) -> str:
    """Name a branch on which one write is put together before it is put in place at once.

    No attempt takes it over; what a killed process leaves of it, the janitor removes.
    """
    return f"{PREFIX}{plan_id}_{uuid.uuid4().hex}_scratch"


def plan_of_branch(name: str) -> str | None:
    """Return the id of the plan that made a branch, if its name is one that plans give.

    >>> plan_of_branch("vde_prod-1f_12s"), plan_of_branch(scratch_branch("prod-1f"))
    ('prod-1f', 'prod-1f')
    >>> plan_of_branch("theirs") is None
    True
    """
    if not name.startswith(PREFIX):
        return None
    match = _PARTS.fullmatch(name) or _SCRATCH.fullmatch(name)
    return match["plan"] if match else name.removeprefix(PREFIX)
