"""Accuracy of estimates: each fill compared with the estimate from the fills before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace


QUANTITIES = ("seconds", "task_seconds", "rows", "bytes", "bytes_read")
"""Compared quantities, which estimates and fills have as attributes."""


@dataclass(frozen=True, slots=True)
class ComparedFill:
    """One quantity of a fill, actual and estimated, such as its seconds or its bytes."""

    model: str
    at: datetime
    low: float
    expected: float
    high: float
    happened: float

    @property
    def factor(self) -> float:
        """The larger of the actual and expected values, divided by the smaller."""
        one, other = max(self.expected, 1e-3), max(self.happened, 1e-3)
        return max(one / other, other / one)

    @property
    def is_within(self) -> bool:
        """Whether the result was in the estimate's range."""
        return self.low <= self.happened <= self.high


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of the estimates of one quantity."""

    looked: tuple[ComparedFill, ...] = ()

    @property
    def median_factor(self) -> float | None:
        """The median of the fills' factors; None without fills."""
        return median(one.factor for one in self.looked) if self.looked else None

    @property
    def within(self) -> float | None:
        """The share of the fills that were in their estimate's range."""
        if not self.looked:
            return None
        return sum(one.is_within for one in self.looked) / len(self.looked)

    @property
    def total(self) -> tuple[float, float]:
        """The totals of expected and actual values."""
        expected = sum(one.expected for one in self.looked)
        return expected, sum(one.happened for one in self.looked)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        expected, happened = self.total
        factor, within = self.median_factor, self.within
        return {
            "fills": len(self.looked),
            "expected": round(expected, 3),
            "happened": round(happened, 3),
            "median_factor": None if factor is None else round(factor, 3),
            "within_range": None if within is None else round(within, 3),
        }

    def worst(self, most: int = 5) -> Sequence[ComparedFill]:
        """Return the fills that differed most from their estimates."""
        return sorted(self.looked, key=lambda one: -one.factor)[:most]


def accuracy(workspace: Workspace, since: datetime, until: datetime) -> dict[str, Accuracy]:
    """Compare fills that were recorded in a range (UTC) with their estimates, by quantity."""
    looked: dict[str, list[ComparedFill]] = {name: [] for name in QUANTITIES}
    for snapshot, fill, estimate in workspace.plans.past_estimates(since, until):
        for quantity, found in looked.items():
            spread, happened = getattr(estimate, quantity), getattr(fill, quantity)
            if spread is not None and happened is not None:
                ends = (spread.low, spread.expected, spread.high, float(happened))
                found.append(ComparedFill(str(snapshot.name), fill.recorded_at, *ends))
    return {
        quantity: Accuracy(tuple(sorted(found, key=lambda one: (one.at, one.model))))
        for quantity, found in looked.items()
    }
