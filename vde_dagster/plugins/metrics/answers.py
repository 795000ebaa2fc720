"""Answers to questions about metrics from environments, and what two of them say otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.planning.environments.contracts import mistakes_in_metrics
from vde_dagster.project.files import METRICS, decoded, metrics_files
from vde_dagster.semantics.versions.version import how_to_install

if TYPE_CHECKING:
    from vde_dagster.execution.query.query import QueryResult
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer
    from vde_dagster.project.model import Exposure

SAME = 1e-9
"""The relative difference up to which fractions are one value: Spark adds them in any order."""


def layer_of(workspace: Workspace) -> SemanticLayer:
    """Return the semantic layer of a project.

    Raises:
        UsageError: It has no metrics, or MetricFlow is not installed.
        ProjectError: A definition has a mistake, or reads a model or a column that is not there.
    """
    files = metrics_files(workspace.settings)
    if find_spec("metricflow") is not None:
        # Where dbt compiled, its file names what it has; of the product's own a reader is enough.
        paths = {one.location.path for one in _metrics(workspace)}
        dbts = sorted(path.as_posix() for path in paths if path.suffix == ".json")
        files = [*(files if len(paths) > len(dbts) else ()), *dbts]
    if not files:
        raise UsageError(
            f"there are no metrics in {workspace.root / METRICS}",
            hint="docs/metrics.md has an example",
        )
    if find_spec("metricflow") is None:
        hint = how_to_install("metrics")
        raise UsageError("metrics need MetricFlow, which is not installed", hint=hint)
    from vde_dagster.plugins.metrics.definitions import read_definitions
    from vde_dagster.plugins.metrics.layer import SemanticLayer
    from vde_dagster.plugins.metrics.reading import readers

    texts = {Path(one): decoded(Path(one), (workspace.root / one).read_bytes()) for one in files}
    project = workspace.project
    layer = SemanticLayer(read_definitions(texts, project.names))
    missing = [
        ProjectError(
            f"a semantic model is of {name}, which is no model",
            hint="name a model of the project",
            location=place,
        )
        for name, place in layer.definitions.models.values()
        if name not in project.models
    ]
    mistakes = [*missing, *mistakes_in_metrics(readers(layer), workspace.snapshots())]
    if mistakes:
        raise ProjectError.of(mistakes)
    return layer


def _metrics(workspace: Workspace) -> Iterator[Exposure]:
    yield from (one for one in workspace.project.exposures if one.what == "metric")


def answer(
    workspace: Workspace, layer: SemanticLayer, question: Question, environment: str
) -> QueryResult:
    """Ask an environment, or a version of one (`prod@41`).

    Raises:
        UsageError: MetricFlow refuses the question, or as `Queries.run`.
    """
    return workspace.queries.run(environment, layer.sql(question))


@dataclass(frozen=True, slots=True)
class DifferentValue:
    """A value of a metric that two environments do not share; None where one has no such row.

    Args:
        by: The values of the dimensions, in the comparison's order.
    """

    metric: str
    by: tuple[Any, ...]
    one: Any
    other: Any

    @property
    def difference(self) -> Any:
        """How much more the other says; None where that is not said in numbers."""
        if not isinstance(self.one, _NUMBERS) or not isinstance(self.other, _NUMBERS):
            return None
        if isinstance(self.one, float) or isinstance(self.other, float):
            return float(self.other) - float(self.one)
        return self.other - self.one


@dataclass(frozen=True, slots=True)
class ComparedMetrics:
    """What two environments say of metrics.

    Args:
        by: Names of the dimensions.
        versions: The versions of the environments that were read.
        same: How many values both share.
    """

    by: tuple[str, ...]
    versions: tuple[int, int]
    different: tuple[DifferentValue, ...]
    same: int


def compare(
    workspace: Workspace, layer: SemanticLayer, question: Question, one: str, other: str
) -> ComparedMetrics:
    """Compare what two environments, or versions of them, say of metrics.

    Raises:
        UsageError: As `answer`.
    """
    metrics = layer.metrics_of(question.names)
    sql = layer.sql(question)
    first, second = (workspace.queries.run(environment, sql) for environment in (one, other))
    names = [name for name, _ in first.columns]
    by = tuple(name for name in names if name not in metrics)
    before, after = (_by_key(found, by, metrics) for found in (first, second))
    pairs = list(_pairs(before, after, metrics))
    different = tuple(pair for pair in pairs if not _is_same(pair.one, pair.other))
    versions = (first.version, second.version)
    return ComparedMetrics(by, versions, different, len(pairs) - len(different))


_NUMBERS = (int, float, Decimal)

_Values = dict[tuple[Any, ...], dict[str, Any]]


def _by_key(found: QueryResult, by: Sequence[str], metrics: Sequence[str]) -> _Values:
    rows = (dict(zip((name for name, _ in found.columns), row, strict=True)) for row in found.rows)
    return {tuple(row[name] for name in by): {name: row[name] for name in metrics} for row in rows}


def _pairs(before: _Values, after: _Values, metrics: Sequence[str]) -> Iterator[DifferentValue]:
    for key in dict.fromkeys((*before, *after)):
        for name in metrics:
            one, other = (side.get(key, {}).get(name) for side in (before, after))
            yield DifferentValue(name, key, one, other)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
