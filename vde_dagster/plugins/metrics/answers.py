"""Values of metrics in environments, and differences between two environments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from vde_dagster.api.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

RELATIVE_TOLERANCE = 1e-9
"""Relative difference below which floats count as equal: Spark's sums have no fixed order."""


@dataclass(frozen=True, slots=True)
class DifferentValue:
    """A metric's different values in two environments.

    Args:
        key: The values of the dimensions, in the order of `ComparedMetrics.dimensions`.
        first: The value in the first environment; None if that environment lacks the row.
    """

    metric: str
    key: tuple[Any, ...]
    first: Any
    second: Any

    @property
    def difference(self) -> Any:
        """The second value minus the first, or None unless both are numbers."""
        if not isinstance(self.first, _NUMBERS) or not isinstance(self.second, _NUMBERS):
            return None
        if isinstance(self.first, float) or isinstance(self.second, float):
            return float(self.second) - float(self.first)
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class ComparedMetrics:
    """Differences between the metrics of two environments, with values grouped by dimensions."""

    dimensions: tuple[str, ...]
    versions: tuple[int, int]
    different: tuple[DifferentValue, ...]
    equal_values: int
    redefined_metrics: tuple[str, ...]


def compare(
    workspace: Workspace,
    layers: tuple[SemanticLayer, SemanticLayer],
    question: Question,
    one: str,
    other: str,
) -> ComparedMetrics:
    """Compute metrics in two environments, each by its own definitions, and compare the values.

    Raises:
        UsageError: MetricFlow refuses the question, the sides group by different dimensions, or
            `Queries.run` fails.
    """
    # Each side may define a saved query with other metrics.
    metrics = tuple(
        dict.fromkeys(name for layer in layers for name in layer.metric_names(question.names))
    )
    found = [
        workspace.query(environment, layer.sql(question))
        for layer, environment in zip(layers, (one, other), strict=True)
    ]
    columns = [[name for name, _ in side.columns] for side in found]
    by, others = (tuple(name for name in names if name not in metrics) for names in columns)
    if by != others:
        raise UsageError(
            f"{one} groups by {', '.join(by) or 'nothing'}, and {other} by "
            f"{', '.join(others) or 'nothing'}",
            hint="use --by with the same full names, as in `vde metrics list`",
        )
    before, after = (
        {tuple(row[name] for name in by): row for row in _named_rows(names, side.rows)}
        for names, side in zip(columns, found, strict=True)
    )
    pairs = list(_pairs(before, after, metrics))
    different = tuple(pair for pair in pairs if not _is_equal(pair.first, pair.second))
    versions = (found[0].version, found[1].version)
    same = len(pairs) - len(different)
    return ComparedMetrics(by, versions, different, same, redefined_metrics(layers, question))


def redefined_metrics(
    layers: tuple[SemanticLayer, SemanticLayer], question: Question
) -> tuple[str, ...]:
    """Return the names of a question's metrics whose SQL differs between two semantic layers."""
    one, other = layers
    asked = ((name, replace(question, names=(name,))) for name in question.names)
    return tuple(name for name, alone in asked if one.sql(alone) != other.sql(alone))


_NUMBERS = (int, float, Decimal)

_Values = dict[tuple[Any, ...], dict[str, Any]]


def _named_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(names, row, strict=True)) for row in rows)


def _pairs(before: _Values, after: _Values, metrics: Sequence[str]) -> Iterator[DifferentValue]:
    for key in dict.fromkeys((*before, *after)):
        for name in metrics:
            one, other = (side.get(key, {}).get(name) for side in (before, after))
            yield DifferentValue(name, key, one, other)


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE) or (
            math.isnan(one) and math.isnan(other)
        )
    return bool(one == other)
