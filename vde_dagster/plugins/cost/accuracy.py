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
    """The actual and the estimated value of one quantity of a fill, such as its seconds."""

    model: str
    at: datetime
    low: float
    expected: float
    high: float
    actual: float

    @property
    def factor(self) -> float:
        """The larger of the actual and expected values, divided by the smaller."""
        one, other = max(self.expected, 1e-3), max(self.actual, 1e-3)
        return max(one / other, other / one)


@dataclass(frozen=True, slots=True)
class Accuracy:
    fills: tuple[ComparedFill, ...] = ()

    @property
    def median_factor(self) -> float | None:
        """The median of `ComparedFill.factor`, or None without fills."""
        return median(one.factor for one in self.fills) if self.fills else None

    @property
    def share_within(self) -> float | None:
        """The share of fills with an actual value in the estimated range, or None without fills."""
        if not self.fills:
            return None
        return sum(one.low <= one.actual <= one.high for one in self.fills) / len(self.fills)

    @property
    def total(self) -> tuple[float, float]:
        expected = sum(one.expected for one in self.fills)
        return expected, sum(one.actual for one in self.fills)

    def to_json(self) -> dict[str, Any]:
        expected, happened = self.total
        factor, within = self.median_factor, self.share_within
        return {
            "fills": len(self.fills),
            "expected": round(expected, 3),
            "happened": round(happened, 3),
            "median_factor": None if factor is None else round(factor, 3),
            "within_range": None if within is None else round(within, 3),
        }

    def least_accurate(self) -> Sequence[ComparedFill]:
        """Return the five fills that differed most from their estimates."""
        return sorted(self.fills, key=lambda one: -one.factor)[:5]


def measure_accuracy(workspace: Workspace, since: datetime, until: datetime) -> dict[str, Accuracy]:
    """Compare the fills of a time range (UTC) with their estimates, for each quantity."""
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
