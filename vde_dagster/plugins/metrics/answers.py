"""Values of metrics in environments, and differences between two environments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

SAME = 1e-9
"""Relative difference below which fractions are equal, because Spark adds them in any order."""


@dataclass(frozen=True, slots=True)
class DifferentValue:
    """A metric's different values in two environments; None for an environment without the row.

    Args:
        by: The values of the dimensions, in the comparison's order.
    """

    metric: str
    by: tuple[Any, ...]
    one: Any
    other: Any

    @property
    def difference(self) -> Any:
        """The other value minus this one; None unless both are numbers."""
        if not isinstance(self.one, _NUMBERS) or not isinstance(self.other, _NUMBERS):
            return None
        if isinstance(self.one, float) or isinstance(self.other, float):
            return float(self.other) - float(self.one)
        return self.other - self.one


@dataclass(frozen=True, slots=True)
class ComparedMetrics:
    """The comparison of metrics in two environments.

    Args:
        by: Names of the dimensions.
        versions: The versions of the environments that were read.
        same: Number of equal values.
        redefined: Metrics with different definitions.
    """

    by: tuple[str, ...]
    versions: tuple[int, int]
    different: tuple[DifferentValue, ...]
    same: int
    redefined: tuple[str, ...]


def compare(
    workspace: Workspace,
    layers: tuple[SemanticLayer, SemanticLayer],
    question: Question,
    one: str,
    other: str,
) -> ComparedMetrics:
    """Compare metrics in two environments or versions, each with its own definitions.

    Raises:
        UsageError: MetricFlow refuses the question, or `Queries.run` fails.
    """
    metrics = layers[0].metric_names(question.names)
    first, second = (
        workspace.query(environment, layer.sql(question))
        for layer, environment in zip(layers, (one, other), strict=True)
    )
    names = [name for name, _ in first.columns]
    by = tuple(name for name in names if name not in metrics)
    before, after = (
        {
            tuple(row[name] for name in by): {name: row[name] for name in metrics}
            for row in (dict(zip(names, values, strict=True)) for values in found.rows)
        }
        for found in (first, second)
    )
    pairs = list(_pairs(before, after, metrics))
    different = tuple(pair for pair in pairs if not _is_same(pair.one, pair.other))
    versions = (first.version, second.version)
    same = len(pairs) - len(different)
    return ComparedMetrics(by, versions, different, same, redefined(layers, question))


def redefined(layers: tuple[SemanticLayer, SemanticLayer], question: Question) -> tuple[str, ...]:
    """Return a question's metrics with different SQL in two semantic layers."""
    one, other = layers
    asked = ((name, replace(question, names=(name,))) for name in question.names)
    return tuple(name for name, alone in asked if one.sql(alone) != other.sql(alone))


_NUMBERS = (int, float, Decimal)

_Values = dict[tuple[Any, ...], dict[str, Any]]


def _pairs(before: _Values, after: _Values, metrics: Sequence[str]) -> Iterator[DifferentValue]:
    for key in dict.fromkeys((*before, *after)):
        for name in metrics:
            one, other = (side.get(key, {}).get(name) for side in (before, after))
            yield DifferentValue(name, key, one, other)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
