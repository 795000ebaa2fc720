"""The semantic layer: questions about metrics as Spark SQL, which MetricFlow writes.

A dimension is asked for as MetricFlow calls it (`airline__airline_name`) or, where that is clear,
by its end (`airline_name`). What cannot be joined without counting rows twice, MetricFlow refuses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from metricflow.engine.metricflow_engine import (
    DimensionType,
    Entity,
    MetricFlowEngine,
    MetricFlowQueryRequest,
)
from metricflow.protocols.sql_client import SqlEngine
from metricflow.sql.render.databricks import DatabricksSqlPlanRenderer
from metricflow_semantics.errors.error_classes import MetricFlowException
from metricflow_semantics.model.semantic_manifest_lookup import SemanticManifestLookup

from vde_dagster.base.texts import closest, listed, meant, suggest
from vde_dagster.errors import SourceLocation, UsageError
from vde_dagster.plugins.metrics.definitions import NO_SPINE, Definitions, unknown_metric

GRAINS = ("hour", "day", "week", "month", "quarter", "year")
"""Units of time by which `--grain` divides."""
_TIME = "metric_time"
_UNITS = frozenset({*GRAINS, "nanosecond", "microsecond", "millisecond", "second", "minute"})

for _name in ("metricflow", "metricflow_semantics", "metricflow_semantic_interfaces"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # It logs each step of each query.


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of metrics.

    Args:
        names: Metrics, or one saved query, which has dimensions and conditions of its own.
        by: Dimensions and entities.
        where: Conditions in Spark SQL over dimensions, or with MetricFlow's `{{ Dimension(…) }}`.
        grain: The unit of the metrics' own time to divide by, one of `GRAINS`.
        limit: The most rows.
    """

    names: tuple[str, ...]
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    grain: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class DescribedMetric:
    """A metric, or a saved query, for people who look for one.

    Args:
        type: `simple`, `ratio`, `cumulative`, `derived`, `conversion`, or `saved query`.
        by: What it can be divided by, as MetricFlow calls it; what a saved query is divided by.
    """

    name: str
    type: str
    description: str | None
    label: str | None
    by: tuple[str, ...]
    place: SourceLocation


class SemanticLayer:
    """MetricFlow's engine over a project's definitions; it only writes SQL.

    Args:
        definitions: All metrics of a project.
    """

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        manifest = definitions.manifest
        self.metrics = {m.name: m for m in manifest.metrics if not m.type_params.is_private}
        self.saved = {one.name: one for one in manifest.saved_queries}

    @cached_property
    def _engine(self) -> MetricFlowEngine:
        lookup = SemanticManifestLookup(self.definitions.manifest)
        return MetricFlowEngine(lookup, _Spark())

    def described(self) -> Iterator[DescribedMetric]:
        """Yield the metrics, and then the saved queries."""
        places = self.definitions.places
        for metric in self.metrics.values():
            by = tuple(self.group_bys([metric.name]))
            type_ = str(metric.type.value).lower()
            said = metric.description, metric.label
            yield DescribedMetric(metric.name, type_, *said, by, places[metric.name])
        for one in self.saved.values():
            names = tuple(one.query_params.metrics)
            said = one.description or f"{', '.join(names)}", one.label
            by = tuple(map(_plain, one.query_params.group_by))
            yield DescribedMetric(one.name, "saved query", *said, by, places[one.name])

    def group_bys(self, names: Sequence[str]) -> list[str]:
        """Return what metrics can be divided by together, sorted."""
        found = self._engine.list_group_bys(list(names))
        return sorted({_called(one) for one in found})

    def metrics_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the metrics that a question's names stand for.

        Raises:
            UsageError: There is none of a name, or a saved query stands beside others.
        """
        for name in names:
            if name not in self.metrics and name not in self.saved:
                raise unknown_metric(name, {**self.metrics, **self.saved})
        asked = [name for name in names if name not in self.metrics]
        if asked and len(names) > 1:
            raise UsageError(
                f"'{asked[0]}' is a saved query, which is asked for alone", hint="ask once for each"
            )
        return tuple(self.saved[asked[0]].query_params.metrics) if asked else tuple(names)

    def sql(self, question: Question) -> str:
        """Write the SQL of a question; tables are called as models are, between back quotes.

        Raises:
            UsageError: There is no such metric or dimension, or MetricFlow refuses it.
        """
        metrics = self.metrics_of(question.names)
        by = [self._resolved(one, metrics) for one in question.by]
        if question.grain is not None:
            by.insert(0, self._time(question.grain, metrics))
        where = [self._condition(one, metrics) for one in question.where]
        is_saved = question.names[0] not in self.metrics
        if is_saved and by:
            raise UsageError(
                f"'{question.names[0]}' is a saved query, which says itself what it is divided by",
                hint=f"ask for its metrics instead: {', '.join(metrics)}",
            )
        told = {"saved_query_name": question.names[0]} if is_saved else {"metric_names": metrics}
        try:
            request = MetricFlowQueryRequest.create(
                **told,
                group_by_names=by or None,
                where_constraints=where or None,
                order_by_names=(self._order(question.names[0]) if is_saved else by) or None,
                limit=question.limit,
            )
            statement = self._engine.explain(request).sql_statement
        except (MetricFlowException, ValueError, NotImplementedError, AssertionError) as error:
            raise UsageError(
                f"MetricFlow refuses {', '.join(question.names)}: {_said(error)}",
                hint="`vde metrics list` says what each metric can be divided by",
            ) from error
        sql = "\n".join(line for line in statement.sql.splitlines() if not _COMMENT.match(line))
        if NO_SPINE in sql:
            raise UsageError(
                f"{', '.join(question.names)} needs a table of days, a time spine, and none is "
                "declared",
                hint="name one under project_configuration: time_spines in metrics/, see "
                "docs/metrics.md",
            )
        return sql

    def _order(self, saved: str) -> list[str]:
        """Return the order of a saved query that has none of its own: what it is divided by."""
        asked = self.saved[saved].query_params
        if asked.order_by or not all(map(_PLAIN.fullmatch, asked.group_by)):
            return []
        return [*map(_plain, asked.group_by)]

    def _time(self, grain: str, metrics: Sequence[str]) -> str:
        if grain not in GRAINS:
            hint = suggest(grain, GRAINS, "grains")
            raise UsageError(f"there is no grain '{grain}'", hint=hint)
        if _TIME not in self.group_bys(metrics):
            raise UsageError(f"{', '.join(metrics)} have no time in common", hint="ask for each")
        return f"{_TIME}__{grain}"

    def _resolved(self, name: str, metrics: Sequence[str]) -> str:
        """Return a dimension as MetricFlow calls it.

        Raises:
            UsageError: The metrics have none of the name, or several.
        """
        stem, _, unit = name.lower().rpartition("__")
        stem, unit = (stem, f"__{unit}") if stem and unit in _UNITS else (name.lower(), "")
        known = self.group_bys(metrics)
        found = [one for one in known if one == stem] or _ending(known, stem)
        if len(found) == 1:
            return found[0] + unit
        asked = ", ".join(metrics)
        if found:
            raise UsageError(
                f"'{name}' may be {' or '.join(found)} for {asked}", hint="write one of these"
            )
        others = sorted({by for one in self.metrics for by in self.group_bys([one])})
        if stem in others or _ending(others, stem):
            raise UsageError(
                f"{asked} cannot be divided by '{name}': nothing leads there from every metric "
                "without counting rows more than once",
                hint=f"it can be divided by {listed(known, 20)}",
            )
        ends = {one.rpartition("__")[2]: one for one in known}
        near = closest(stem, [*known, *ends])
        raise UsageError(
            f"{asked} cannot be divided by '{name}', which nothing is called",
            hint=meant(name, near) if near else f"it can be divided by {listed(known, 20)}",
        )

    def _condition(self, text: str, metrics: Sequence[str]) -> str:
        """Return a condition as MetricFlow's template, with each column as a dimension."""
        if "{{" in text:
            return text
        from sqlglot import exp, parse_one
        from sqlglot.errors import SqlglotError

        try:
            tree = parse_one(text, dialect="spark")
        except SqlglotError as error:
            said = str(error).splitlines()[0]
            raise UsageError(
                f"the condition '{text}' cannot be read: {said}", hint="write it in Spark SQL"
            ) from error

        def dimension(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            return exp.to_identifier(self._template(node.sql(dialect="spark"), metrics), False)

        return tree.transform(dimension).sql(dialect="spark")

    def _template(self, name: str, metrics: Sequence[str]) -> str:
        """Return a dimension or entity as MetricFlow's conditions name it."""
        found = self._resolved(name.replace("`", ""), metrics)
        stem, _, unit = found.rpartition("__")
        if stem and unit in _UNITS:
            return f"{{{{ TimeDimension('{stem}', '{unit}') }}}}"
        for one in self._engine.list_group_bys(list(metrics)):
            if _called(one) == found and isinstance(one, Entity):
                return f"{{{{ Entity('{found}') }}}}"
            if _called(one) == found and one.type is DimensionType.TIME:
                return f"{{{{ TimeDimension('{found}', '{_least(one)}') }}}}"
        return f"{{{{ Dimension('{found}') }}}}"


class _Spark:
    """Spark's dialect for MetricFlow, which gives no query to anybody from here."""

    sql_engine_type = SqlEngine.DATABRICKS
    sql_plan_renderer = DatabricksSqlPlanRenderer()

    def render_bind_parameter_key(self, bind_parameter_key: str) -> str:
        """Return a parameter of a query."""
        return f":{bind_parameter_key}"


_COMMENT = re.compile(r"\s*--")
_PLAIN = re.compile(r"\w+\('(\w+)'(?:, *'(\w+)')?\)")


def _called(one: Any) -> str:
    """Return how a dimension or an entity is called; a time without its unit."""
    name = str(getattr(one, "dunder_name", None) or one.name)
    return _TIME if name.startswith(f"{_TIME}__") else name


def _least(one: Any) -> str:
    return str(one.type_params.time_granularity.value) if one.type_params else "day"


def _plain(written: str) -> str:
    """Return a saved query's dimension as a question names it."""
    found = _PLAIN.search(written)
    return "__".join(part for part in found.groups() if part) if found else written


def _ending(known: Sequence[str], stem: str) -> list[str]:
    """Return what ends with a name, of that what is reached in the fewest steps."""
    found = [one for one in known if one.endswith(f"__{stem}")]
    least = min((one.count("__") for one in found), default=0)
    return [one for one in found if one.count("__") == least]


def _said(error: Exception) -> str:
    """Return what MetricFlow says, without where in itself it says so."""
    found = re.search(r"Message:\s+(.*?)(?:\n\s*\n|\Z)", str(error), re.DOTALL)
    said = " ".join((found[1] if found else str(error)).split())
    return said.partition(" Common issues are:")[0][:400]
