"""How much a restatement computes, by what the same ranges took when they were filled last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.planning.interval import Interval, IntervalSet

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """What computing something again is likely to take.

    Args:
        rows: Rows to write.
        seconds: Seconds of Spark's work, one model after the other.
    """

    rows: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {"rows": self.rows, "seconds": round(self.seconds, 1)}

    def sentence(self) -> str:
        """Say it for people."""
        return f"about {self.rows:,} rows and {self.seconds:,.0f} s of work, by earlier fills"


def estimate_restatement(warehouse: Warehouse, plan: Plan) -> WorkEstimate | None:
    """Estimate the work of what a plan computes again; None when no earlier fill says anything."""
    rows = seconds = 0.0
    known = False
    for model in plan.builds:
        if not model.restate or model.table is None:
            continue
        for fill, _, share in newest_fills(warehouse, model.table.id, model.intervals):
            known = known or fill.row_count is not None or fill.seconds is not None
            rows += share * (fill.row_count or 0)
            seconds += share * (fill.seconds or 0.0)
    return WorkEstimate(round(rows), seconds) if known else None


def newest_fills(
    warehouse: Warehouse, table_id: str, wanted: IntervalSet
) -> Iterator[tuple[Any, IntervalSet, float]]:
    """Yield the newest fill of every instant of some ranges, as far as there are any.

    Args:
        warehouse: Where the log is.
        table_id: The physical table's id.
        wanted: The ranges.

    Returns:
        The row of the log, which of the ranges it stands for, and what share of the fill that is.
    """
    left = wanted
    for fill in warehouse.store.fills.log(table_id):
        filled = Interval(fill.start_at, fill.end_at)
        part = left & IntervalSet((filled,))
        if part:
            yield fill, part, _length(part) / _length((filled,))
            left = left - part
            if not left:
                return


def _length(ranges: Iterable[Interval]) -> float:
    return sum((interval.end - interval.start).total_seconds() for interval in ranges)
