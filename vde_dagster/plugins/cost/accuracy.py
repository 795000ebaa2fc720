"""How good estimates were: each fill, beside what those before it would have told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from vde_dagster.execution.plans.estimate import MOST, looked_back

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Looked:
    """One fill and its estimate, in seconds."""

    model: str
    at: datetime
    low: float
    expected: float
    high: float
    happened: float

    @property
    def factor(self) -> float:
        """How many times more, or less, it was than expected: 1 is exact, never below."""
        one, other = max(self.expected, 1e-3), max(self.happened, 1e-3)
        return max(one / other, other / one)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How well estimates met what happened."""

    looked: tuple[Looked, ...]

    @property
    def median_factor(self) -> float | None:
        """Half of the fills were nearer to their estimate than this factor; None without any."""
        return median(one.factor for one in self.looked) if self.looked else None

    @property
    def within(self) -> float | None:
        """The share of the fills that were in their estimate's range."""
        if not self.looked:
            return None
        return sum(one.low <= one.happened <= one.high for one in self.looked) / len(self.looked)

    @property
    def total(self) -> tuple[float, float]:
        """Seconds expected and happened, of all."""
        return sum(one.expected for one in self.looked), sum(one.happened for one in self.looked)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        expected, happened = self.total
        factor, within = self.median_factor, self.within
        return {
            "fills": len(self.looked),
            "expected_seconds": round(expected, 3),
            "seconds": round(happened, 3),
            "median_factor": None if factor is None else round(factor, 3),
            "within_range": None if within is None else round(within, 3),
        }

    def worst(self, most: int = 5) -> Sequence[Looked]:
        """Return the fills that differed most from what was expected."""
        return sorted(self.looked, key=lambda one: -one.factor)[:most]


def accuracy(workspace: Workspace, since: datetime, until: datetime) -> Accuracy:
    """Look at the fills that were recorded in a half-open range (UTC).

    Estimates are made again, of the fills of the same table that were recorded before each.
    """
    store = workspace.store
    tables = store.tables.load({one.table_id for one in store.fills.between(since, until)})
    snapshots = store.snapshots.load({one.snapshot_id for one in tables.values()})
    looked = []
    for table_id, fills in store.fills.recent(tables, 1000 + MOST, until).items():
        snapshot = snapshots.get(tables[table_id].snapshot_id)
        if snapshot is None:
            continue
        for fill, estimate in looked_back(fills, by_range=snapshot.is_incremental):
            if fill.recorded_at >= since and estimate.seconds and fill.seconds is not None:
                told = estimate.seconds
                name, at, took = str(snapshot.name), fill.recorded_at, fill.seconds
                looked.append(Looked(name, at, told.low, told.expected, told.high, took))
    return Accuracy(tuple(sorted(looked, key=lambda one: (one.at, one.model))))
