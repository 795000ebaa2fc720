"""The semantic layer: metrics and dimensions in, Spark SQL out, written by MetricFlow.

A dimension has MetricFlow's name (`airline__airline_name`) or, if that is unambiguous, its last
part (`airline_name`). MetricFlow refuses joins that would count rows twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import shorten

from metricflow.engine.metricflow_engine import MetricFlowEngine, MetricFlowQueryRequest
from metricflow.protocols.sql_client import SqlEngine
from metricflow.sql.render.databricks import DatabricksSqlPlanRenderer
from metricflow_semantic_interfaces.references import MetricReference
from metricflow_semantics.errors.error_classes import MetricFlowException
from metricflow_semantics.model.linkable_element_property import GroupByItemProperty
from metricflow_semantics.model.semantic_manifest_lookup import SemanticManifestLookup
from metricflow_semantics.model.semantics.element_filter import GroupByItemSetFilter
from metricflow_semantics.model.semantics.linkable_element import LinkableElementType

from vde_dagster.api.errors import SourceLocation, UsageError
from vde_dagster.api.sql import Edit, Token, apply_edits, read_expression
from vde_dagster.api.values import listed, suggest
from vde_dagster.plugins.metrics.definitions import NO_SPINE, Definitions, unknown_metric

GRAINS = ("hour", "day", "week", "month", "quarter", "year")
"""Time units for `--grain`."""
TIME = "metric_time"
"""Name of each metric's own time dimension."""
_UNITS = frozenset({*GRAINS, "nanosecond", "microsecond", "millisecond", "second", "minute"})

for _name in ("metricflow", "metricflow_semantics", "metricflow_semantic_interfaces"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # It logs each step of each query.


@dataclass(frozen=True, slots=True)
class Question:
    """Metrics to compute, with the dimensions to group by and the conditions.

    Args:
        names: Metrics, or one saved query.
        by: Dimensions and entities.
        where: Conditions in Spark SQL over dimensions, or with MetricFlow's `{{ Dimension(…) }}`.
        grain: Also group by the metrics' own time in this unit, one of `GRAINS`.
        limit: Maximum number of rows.
    """

    names: tuple[str, ...]
    by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    grain: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class MetricListing:
    """A row of `vde metrics list`: a metric or a saved query.

    Args:
        type: `simple`, `ratio`, `cumulative`, `derived`, `conversion`, or `saved query`.
        by: Dimensions and entities under MetricFlow's names.
    """

    name: str
    type: str
    description: str | None
    label: str | None
    by: tuple[str, ...]
    place: SourceLocation


class SemanticLayer:
    """Writes the SQL of a project's metrics with MetricFlow's engine."""

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        manifest = definitions.manifest
        self.metrics = {m.name: m for m in manifest.metrics if not m.type_params.is_private}
        self.saved_queries = {one.name: one for one in manifest.saved_queries}

    @cached_property
    def _lookup(self) -> SemanticManifestLookup:
        return SemanticManifestLookup(self.definitions.manifest)

    @cached_property
    def _engine(self) -> MetricFlowEngine:
        return MetricFlowEngine(self._lookup, _SparkSqlClient())

    def list_metrics(self) -> Iterator[MetricListing]:
        places = self.definitions.places
        for metric in self.metrics.values():
            by = tuple(self.group_bys([metric.name]))
            type_ = str(metric.type.value).lower()
            texts = metric.description, metric.label
            yield MetricListing(metric.name, type_, *texts, by, places[metric.name])
        for one in self.saved_queries.values():
            names = tuple(one.query_params.metrics)
            texts = one.description or f"{', '.join(names)}", one.label
            by = tuple(map(_dimension_name, one.query_params.group_by))
            yield MetricListing(one.name, "saved query", *texts, by, places[one.name])

    def group_bys(self, names: Sequence[str]) -> list[str]:
        """Return the sorted dimensions and entities that all given metrics can be grouped by."""
        return sorted(self._dimensions(names))

    def _dimensions(self, names: Sequence[str]) -> dict[str, _GroupBy]:
        """Return the dimensions and entities that metrics share, by name as in `Question.by`."""
        # The name of a joined model's entity contains the path to it (`customer__region`). For a
        # metric's own entity, only the short name is returned, not MetricFlow's `order__customer`.
        common = self._lookup.metric_lookup.get_common_group_by_items(
            metric_references=tuple(map(MetricReference, names)),
            set_filter=GroupByItemSetFilter.create(any_properties_denylist=_UNLISTED_GROUP_BYS),
        )
        specs = common.annotated_specs
        own = {one.spec.element_name for one in specs if not one.spec.entity_links}
        found: dict[str, _GroupBy] = {}
        for one in specs:
            path = tuple(entity.element_name for entity in one.spec.entity_links)
            is_local = GroupByItemProperty.LOCAL in one.property_set
            is_entity = one.element_type is LinkableElementType.ENTITY
            if is_entity and path and is_local and one.spec.element_name in own:
                continue
            name = "__".join([*path, one.spec.element_name])
            grain = one.time_grain.name if one.time_grain is not None else None
            found[name] = _GroupBy(one.spec.element_name, path, is_entity, grain)
        return found

    def metric_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the given metrics or, for the name of a saved query, the query's metrics.

        Raises:
            UsageError: A name is unknown, or a saved query is combined with other names.
        """
        for name in names:
            if name not in self.metrics and name not in self.saved_queries:
                raise unknown_metric(name, {**self.metrics, **self.saved_queries})
        asked = [name for name in names if name not in self.metrics]
        if asked and len(names) > 1:
            raise UsageError(
                f"'{asked[0]}' is a saved query, and cannot be combined with other names",
                hint="query the saved query alone",
            )
        return tuple(self.saved_queries[asked[0]].query_params.metrics) if asked else tuple(names)

    def sql(self, question: Question) -> str:
        """Return the SQL that computes a question's metrics, with quoted model names as tables.

        Raises:
            UsageError: A metric or dimension does not exist, or MetricFlow refuses the question.
        """
        metrics = self.metric_names(question.names)
        by = [self._resolve_dimension(one, metrics) for one in question.by]
        if question.grain is not None:
            by.insert(0, self._time(question.grain, metrics))
        where = [self._template_condition(one, metrics) for one in question.where]
        is_saved = question.names[0] not in self.metrics
        if is_saved and by:
            raise UsageError(
                f"'{question.names[0]}' is a saved query, which has its own dimensions",
                hint=f"query its metrics instead: {', '.join(metrics)}",
            )
        told = {"saved_query_name": question.names[0]} if is_saved else {"metric_names": metrics}
        try:
            request = MetricFlowQueryRequest.create(
                **told,
                group_by_names=by or None,
                where_constraints=where or None,
                order_by_names=(self._sort_columns(question.names[0]) if is_saved else by) or None,
                limit=question.limit,
            )
            statement = self._engine.explain(request).sql_statement
        except (MetricFlowException, ValueError, NotImplementedError, AssertionError) as error:
            message = _short_message(error)
            hint = "list the dimensions of each metric: vde metrics list"
            if TIME in message and not any(name.startswith(TIME) for name in by):
                hint = f"group by the metric's time: --by {TIME}"
            raise UsageError(
                f"MetricFlow refuses {', '.join(question.names)}: {message}", hint=hint
            ) from error
        sql = _remove_comments(statement.sql)
        if NO_SPINE in sql:
            raise UsageError(
                f"{', '.join(question.names)} needs a time spine (a table of days), but none "
                "is declared",
                hint="name one under project_configuration: time_spines in metrics/, see "
                "`vde help metrics`",
            )
        return sql

    def needs_time(self, name: str) -> bool:
        """Return whether a metric only has values by time, such as a sum over seven days."""
        if TIME not in self.group_bys([name]):
            return False
        try:
            self.sql(Question((name,)))
        except UsageError:
            return True
        return False

    def _sort_columns(self, saved: str) -> list[str]:
        asked = self.saved_queries[saved].query_params
        if asked.order_by or not all(map(_PLAIN.fullmatch, asked.group_by)):
            return []
        return [*map(_dimension_name, asked.group_by)]

    def _time(self, grain: str, metrics: Sequence[str]) -> str:
        if grain not in GRAINS:
            hint = suggest(grain, GRAINS, "grains")
            raise UsageError(f"the grain '{grain}' does not exist", hint=hint)
        if TIME not in self.group_bys(metrics):
            raise UsageError(
                f"{', '.join(metrics)} have no time dimension in common",
                hint="query each metric separately",
            )
        return f"{TIME}__{grain}"

    def _resolve_dimension(self, name: str, metrics: Sequence[str]) -> str:
        """Return a dimension's MetricFlow name.

        Raises:
            UsageError: The dimension is missing or ambiguous.
        """
        stem, _, unit = name.lower().rpartition("__")
        stem, unit = (stem, f"__{unit}") if stem and unit in _UNITS else (name.lower(), "")
        known = self.group_bys(metrics)
        found = [one for one in known if one == stem] or _names_ending_with(known, stem)
        if len(found) == 1:
            return found[0] + unit
        asked = ", ".join(metrics)
        if found:
            raise UsageError(
                f"'{name}' is ambiguous for {asked}: {' or '.join(found)}",
                hint="write one of these",
            )
        others = sorted({by for one in self.metrics for by in self.group_bys([one])})
        if stem in others or _names_ending_with(others, stem):
            raise UsageError(
                f"{asked} cannot be grouped by '{name}': it cannot be joined to every metric "
                "without counting rows more than once",
                hint=f"possible dimensions: {listed(known, 20)}",
            )
        ends = {one.rpartition("__")[2]: one for one in known}
        possible = f"possible dimensions: {listed(known, 20)}"
        raise UsageError(
            f"{asked} cannot be grouped by '{name}', which does not exist",
            hint=suggest(stem, [*known, *ends], otherwise=possible),
        )

    def _template_condition(self, text: str, metrics: Sequence[str]) -> str:
        """Replace each column in a condition with a template, such as `{{ Dimension('a') }}`."""
        if _TEMPLATE.search(text):
            return text
        try:
            condition = read_expression(text)
        except ValueError as error:
            raise UsageError(
                f"the condition '{text}' cannot be read: {error}", hint="write it in Spark SQL"
            ) from error
        dimensions = self._dimensions(metrics)
        tokens = [one for one in Token.split(text) if one.kind != "hint"]
        between = zip(
            [0, *(one.end for one in tokens)],
            [*(one.start for one in tokens), len(text)],
            strict=True,
        )
        comments = [
            Edit(end - len(text[start:end].lstrip()), start + len(text[start:end].rstrip()), " ")
            for start, end in between
            if text[start:end].strip()
        ]
        edits = [
            *comments,
            *(
                Edit(found.start(), found.end(), f"{{{{ '{found[0]}' }}}}")
                for found in _TEMPLATE_SIGNS.finditer(text)
                if not any(one.start <= found.start() < one.end for one in comments)
            ),
        ]
        for parts, places in condition.mentions:
            whole = "__".join(parts).lower()
            first = [parts[0].lower(), *_names_ending_with(list(dimensions), parts[0].lower())]
            is_path = any(dimensions[name].is_entity for name in first if name in dimensions)
            if len(parts) > 1 and is_path:  # `customer.region`, not a field of a struct
                edits.append(Edit(places[0][0], places[-1][1], self._template(whole, metrics)))
            else:
                edits.append(Edit(*places[0], self._template(parts[0], metrics)))
        # A comment at the end would hide the text that MetricFlow adds after the condition.
        return apply_edits(text, edits).strip()

    def _template(self, name: str, metrics: Sequence[str]) -> str:
        """Return a dimension or entity as a template, such as `{{ Entity('a') }}`."""
        found = self._resolve_dimension(name, metrics)
        dimensions = self._dimensions(metrics)
        unit = ""
        if found not in dimensions:
            found, _, unit = found.rpartition("__")
        one = dimensions[found]
        path = one.path if one.is_entity else one.path[:-1]
        given = [repr("__".join([*one.path[len(path) :], one.name]))]
        if one.grain is not None:
            given.append(f"'{unit or one.grain}'")
        if path:
            given.append(f"entity_path={list(path)}")
        form = "Entity" if one.is_entity else "Dimension" if one.grain is None else "TimeDimension"
        return f"{{{{ {form}({', '.join(given)}) }}}}"


@dataclass(frozen=True, slots=True)
class _GroupBy:
    """A dimension or an entity.

    Args:
        path: Entities that MetricFlow joins, in order, to reach the dimension or entity.
        grain: A time dimension's finest unit; None for other dimensions and entities.
    """

    name: str
    path: tuple[str, ...]
    is_entity: bool
    grain: str | None


class _SparkSqlClient:
    sql_engine_type = SqlEngine.DATABRICKS
    sql_plan_renderer = DatabricksSqlPlanRenderer()

    def render_bind_parameter_key(self, bind_parameter_key: str) -> str:
        return f":{bind_parameter_key}"


_UNLISTED_GROUP_BYS = frozenset(
    {
        GroupByItemProperty.DERIVED_TIME_GRANULARITY,
        GroupByItemProperty.DATE_PART,
        GroupByItemProperty.METRIC,
    }
)
"""Kinds of group-bys that need `--grain` or a template, or are unsupported."""
_TEMPLATE = re.compile(r"\{\{\s*(Dimension|TimeDimension|Entity|Metric)\b")
_TEMPLATE_SIGNS = re.compile(r"\{[{%#]")
"""Texts that would begin a statement or a comment of MetricFlow's template."""
_COMMENT = re.compile(r"^[ \t]*--.*(?:\n|\Z)", re.MULTILINE)
_PLAIN = re.compile(r"\w+\('(\w+)'(?:, *'(\w+)')?\)")


def _remove_comments(sql: str) -> str:
    inside = [
        (token.start, token.end)
        for token in Token.split(sql)
        if "\n" in sql[token.start : token.end]
    ]
    return _COMMENT.sub(
        lambda line: line[0] if any(a < line.start() < b for a, b in inside) else "", sql
    ).strip("\n")


def _dimension_name(written: str) -> str:
    """Convert a saved query's dimension, such as `TimeDimension('a', 'day')`, to `a__day`."""
    found = _PLAIN.search(written)
    return "__".join(part for part in found.groups() if part) if found else written


def _names_ending_with(known: Sequence[str], stem: str) -> list[str]:
    """Return the names that end with `__stem` and have the fewest parts."""
    found = [one for one in known if one.endswith(f"__{stem}")]
    least = min((one.count("__") for one in found), default=0)
    return [one for one in found if one.count("__") == least]


def _short_message(error: Exception) -> str:
    found = re.search(r"Message:\s+(.*?)(?:\n\s*\n|\Z)", str(error), re.DOTALL)
    message = " ".join((found[1] if found else str(error)).split())
    return shorten(message.partition(" Common issues are:")[0], 400, placeholder=" …")
