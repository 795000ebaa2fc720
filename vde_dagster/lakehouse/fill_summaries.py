"""What the summary of a fill's Iceberg commit says: written by engines, read by recovery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vde_dagster.lakehouse.table_metadata import head_of, history
from vde_dagster.planning.interval import Interval

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
    """Return what a fill's commit is to say.

    Args:
        plan_id: The plan on whose behalf.
        table_id: The physical table that it is meant for.
        interval: The range (UTC, half-open).
        kind: The name of the model's kind.
        fill_id: An id that is never used again.
    """
    return {
        PLAN_KEY: plan_id,
        TABLE_KEY: table_id,
        INTERVAL_KEY: str(interval),
        KIND_KEY: kind,
        FILL_KEY: fill_id,
    }


@dataclass(frozen=True, slots=True)
class CommittedFill:
    """A fill that an Iceberg commit's summary tells of.

    Args:
        plan_id: The plan that filled it.
        table_id: The physical table that it was meant for.
        interval: The range (UTC, half-open).
        iceberg_snapshot_id: The commit.
        rows: Rows that the commit added, when its summary says.
    """

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
