"""A model's query as Spark runs it: rendered, or run without writing anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.plans.build_plans import PlanBuilder
from vde_dagster.planning.environments.contracts import find_reader_mistakes
from vde_dagster.planning.environments.environment import PRODUCTION, environment_name
from vde_dagster.planning.environments.resolver import Resolver
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.rendering.render import relation_query, render_audit, render_query
from vde_dagster.project.dag import needed_models
from vde_dagster.project.selection import find_model

if TYPE_CHECKING:
    from vde_dagster.execution.changes.show_refresh import TableRefresh
    from vde_dagster.execution.handles import Handles
    from vde_dagster.execution.project_files.write_descriptions import AddedDescriptions
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.project.model import Exposure, Model


@dataclass(frozen=True, slots=True)
class EvaluatedRows:
    """The rows that a model's query returns for a range.

    Args:
        columns: (name, Spark SQL type) in order.
        left_out: Number of statements before the query that were not executed.
    """

    model: ModelName
    interval: Interval
    columns: tuple[tuple[str, str], ...]
    rows: Sequence[tuple[Any, ...]]
    left_out: int


@dataclass(frozen=True, slots=True)
class Models:
    """Renders and runs models' queries over the tables that a plan would use."""

    handles: Handles

    def write_descriptions(self) -> AddedDescriptions:
        from vde_dagster.execution.project_files.write_descriptions import write_descriptions

        return write_descriptions(self.handles)

    def mistakes_in_readers(
        self, readers: Iterable[Exposure], snapshots: Mapping[ModelName, Snapshot]
    ) -> list[ProjectError]:
        """Return the errors in exposures, such as a column that a metric's model lacks."""
        return list(find_reader_mistakes(readers, snapshots, []))

    def render(
        self,
        model: str,
        environment: str = PRODUCTION,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> str:
        """Return the SQL that Spark runs for a model, or for a standalone audit.

        Args:
            start: First instant of the range (UTC); by default the start of the latest slot.

        Raises:
            UsageError: The model does not exist, or it has no SQL.
        """
        definition = self.find(model)
        is_audit = not definition.kind.is_read
        if definition.query is None and not is_audit:
            raise _no_sql_error(definition)
        snapshot, _, resolver = self._plan_model(definition.name, environment)
        interval, now = self._range_and_now(snapshot, start, end)
        catalog = self.handles.settings.catalog
        if is_audit:
            return ";\n".join(
                render_audit(audit, snapshot, "", resolver, catalog, interval)
                for audit in definition.audits
            )
        return render_query(definition, resolver, catalog, interval, now)

    def refresh(self, model: str, environment: str = PRODUCTION) -> list[TableRefresh]:
        """Describe, per input table, how a model is refreshed after the table changes.

        A table has two entries if the refresh is different after the table only gained rows.

        Raises:
            UsageError: The model does not exist or does not refresh from changes, or a parent has
                no table yet.
        """
        from vde_dagster.execution.changes.show_refresh import show_refresh

        snapshot, snapshots, resolver = self._plan_model(self.find(model).name, environment)
        self._require_tables(snapshot, resolver, environment)
        return show_refresh(self.handles, snapshot, snapshots, resolver)

    def evaluate(
        self,
        model: str,
        environment: str = PRODUCTION,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 100,
        query: str | None = None,
    ) -> EvaluatedRows:
        """Run a model's query or code over an environment's tables, without writing anything.

        Args:
            start: First instant of the range (UTC); by default the start of the latest slot.
            query: A part of the model's query to run instead of the whole query.

        Raises:
            UsageError: The model does not exist, it has neither query nor code, or a parent has no
                table yet.
            ExecutionError: Spark failed.
        """
        definition, engine = self.find(model), self.handles.engine
        name = definition.name
        if definition.query is None and definition.python is None:
            raise _no_sql_error(definition)
        snapshot, _, resolver = self._plan_model(name, environment)
        self._require_tables(snapshot, resolver, environment)
        interval, now = self._range_and_now(snapshot, start, end)
        catalog = self.handles.settings.catalog
        if definition.query is not None:
            part = definition if query is None else replace(definition, query=query)
            sql = render_query(part, resolver, catalog, interval, now)
            columns, rows = engine().query(sql, limit)
        else:
            sources = {
                parent: query
                for parent in definition.depends_on
                if (query := relation_query(parent, resolver, catalog, interval, now)) is not None
            }
            columns, rows = engine().run_python(snapshot, sources, interval, now)
        left_out = len(definition.pre_statements)
        return EvaluatedRows(name, interval, tuple(columns), rows[:limit], left_out)

    def find(self, model: str) -> Model:
        models = self.handles.project.models
        return models[find_model(models, model, self.handles.settings.default_namespace)]

    @staticmethod
    def _require_tables(snapshot: Snapshot, resolver: Resolver, environment: str) -> None:
        for parent in _missing_tables(snapshot, resolver):
            raise UsageError(
                f"{snapshot.name} reads {parent}, whose current definition has no table yet",
                hint=f"to compute it, run: vde apply {environment} --select {parent}",
            )

    def _plan_model(
        self, name: ModelName, environment: str
    ) -> tuple[Snapshot, Mapping[ModelName, Snapshot], Resolver]:
        models = self.handles.project.models
        needed = needed_models(models, [name])
        part = {one: model for one, model in models.items() if one in needed}
        plan = PlanBuilder(self.handles).make_part(part, environment_name(environment))
        return plan.target[name], plan.target, plan.resolver()

    def _range_and_now(
        self, snapshot: Snapshot, start: datetime | None, end: datetime | None
    ) -> tuple[Interval, datetime]:
        now = self.handles.store.database.clock.now()
        slot = snapshot.cadence.latest_slot(now)
        return Interval(start or slot.start, end or slot.end), now


def _missing_tables(snapshot: Snapshot, resolver: Resolver) -> Iterator[ModelName]:
    for parent in snapshot.parents:
        binding = resolver.resolve(parent)
        if binding.table is not None and not binding.table.created:
            yield parent
        elif binding.table is None and binding.external is None:
            yield from _missing_tables(binding.snapshot, resolver)


def _no_sql_error(model: Model) -> UsageError:
    what = "in Python" if model.python else ""
    return UsageError(
        f"{model.name} has no SQL: it is a {model.kind.name} model {what}".rstrip(),
        hint=f"its file is {model.location.path}",
    )
