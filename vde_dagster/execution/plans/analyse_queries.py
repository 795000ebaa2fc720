"""Analysis of a plan's queries by an engine before an approval; writes nothing.

Queries are rendered as in an apply, over existing tables. A query without rows represents a table
that does not exist yet, so models are analyzed in topological order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot.errors import SqlglotError

from vde_dagster.base.failures import QueryPlace
from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.execution.apply.failure_report import failure_location
from vde_dagster.execution.apply.worker_pool import run_graph
from vde_dagster.planning.environments.resolver import Resolver, column_map
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Change, Plan, PlannedModel
from vde_dagster.planning.plan.stages import plan_audit_order, work_graph
from vde_dagster.planning.rendering.render import (
    relation_function,
    relation_query,
    render_audit,
    render_query,
    render_statements,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.dag import AuditOrder
from vde_dagster.project.model import Audit
from vde_dagster.spark.session.failures import column_of_cast
from vde_dagster.spark.tables.columns import cast_column, is_storable

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Result of Spark's analysis of a plan's queries.

    Args:
        analysed: Models whose queries and audits were analyzed.
        left_out: Reasons why models were not, or only partly, analyzed.
        mistakes: Errors, with model, file and line.
    """

    analysed: tuple[ModelName, ...] = ()
    left_out: Mapping[ModelName, str] = field(default_factory=dict)
    mistakes: tuple[ProjectError, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "analysed": [str(name) for name in self.analysed],
            "left_out": {str(name): why for name, why in self.left_out.items()},
        }


def analyse_plan(handles: Handles, plan: Plan) -> Analysis:
    """Let Spark check the queries and audits of changed models, without running them.

    The plan need not be stored.

    Raises:
        StoreError: Spark is not available.
    """
    # The engine starts only if there is something to analyze.
    tables = plan.tables
    tables |= handles.store.tables.load(tables)
    wanted = {
        model.name: model
        for model in plan.models
        if model.snapshot_id is not None
        and (
            model.change is not Change.UNCHANGED
            or (model.table is not None and not tables[model.table.id].created)
        )
        and not plan.snapshot_of(model).model.kind.is_external
    }
    order = plan_audit_order(plan)
    work = _QueryAnalyzer(handles, plan, tables, {name: [] for name in wanted}, order)
    models = {name: plan.snapshot_of(planned).model for name, planned in wanted.items()}
    asked = [name for name, model in models.items() if model.query is not None or model.audits]
    if not asked:
        return Analysis()
    result = run_graph(
        work_graph(plan, wanted, order),
        lambda name: work.analyze_model(wanted[name]),
        threads=handles.settings.concurrency,
    )
    for error in result.failed.values():
        raise error
    for name in filter(order.late.__contains__, wanted):
        work.analyze_late_audits(wanted[name])
    return Analysis(
        tuple(name for name in asked if name not in work.left_out),
        {name: work.left_out[name] for name in wanted if name in work.left_out},
        tuple(mistake for name in wanted for mistake in work.mistakes[name]),
    )


@dataclass
class _QueryAnalyzer:
    handles: Handles
    plan: Plan
    tables: Mapping[str, PhysicalTable]
    mistakes: dict[ModelName, list[ProjectError]]
    order: AuditOrder
    left_out: dict[ModelName, str] = field(default_factory=dict)
    _stand_ins: dict[str, str] = field(default_factory=dict)
    _column_types: dict[str, dict[str, str]] = field(default_factory=dict)
    _columns: dict[ModelName, Columns | None] = field(default_factory=dict)

    def analyze_model(self, planned: PlannedModel) -> None:
        snapshot = self.plan.snapshot_of(planned)
        why = self._why_not_analyzed(snapshot.parents)
        if why is not None:
            self.left_out[snapshot.name] = why
            return
        table = planned.table
        if snapshot.model.reads_itself and table is not None and not self._exists(table):
            known = {column.name: column.type or "STRING" for column in snapshot.columns}
            self._add_stand_in(snapshot, table, known)
        columns: Columns | None = None
        if not all(map(snapshot.model.is_for_session, snapshot.model.pre_statements)):
            self.left_out[snapshot.name] = "statements before its query are not executed"
        elif snapshot.model.query is not None:
            columns = self._analyze_query(snapshot)
        elif snapshot.model.python is not None:
            self.left_out[snapshot.name] = "its Python code is not executed"
        if self.mistakes[snapshot.name]:
            return
        types = _column_types(snapshot, columns)
        if planned.table is not None and not self._exists(planned.table) and types:
            self._add_stand_in(snapshot, planned.table, dict(types))
        self._columns[snapshot.name] = types
        self._analyze_audits(snapshot, planned.table, types, late=False)

    def analyze_late_audits(self, planned: PlannedModel) -> None:
        snapshot = self.plan.snapshot_of(planned)
        if snapshot.name in self._columns:
            self._analyze_audits(snapshot, planned.table, self._columns[snapshot.name], late=True)

    def _why_not_analyzed(self, names: Iterable[ModelName]) -> str | None:
        for parent in names:
            if self.mistakes.get(parent):
                return f"it reads {parent}, which has an error"
            entry = self.plan.entries.get(parent)
            if entry is None:
                continue
            if entry.table_id is None:
                if parent in self.left_out:
                    return f"it reads {parent}, which was not analyzed"
                why = self._why_not_analyzed(self.plan.snapshots[entry.snapshot_id].parents)
                if why is not None:
                    return why
            elif not self.tables[entry.table_id].created and entry.table_id not in self._stand_ins:
                return f"it reads {parent}, whose column types are unknown"
        return None

    def _analyze_query(self, snapshot: Snapshot) -> Columns | None:
        engine = self.handles.engine()
        sql, before = self._render_query(snapshot)
        try:
            found = engine.analyze(sql, before)
        except ExecutionError as error:
            self._add_mistake(snapshot, error)
            return None
        problem = _shape_problem(snapshot, sql, found)
        if problem is not None:
            self._add_mistake(snapshot, problem)
            return None
        declared = {c.name.lower(): c.type for c in snapshot.model.columns if c.type}
        if declared:
            try:
                casts = ", ".join(
                    f"{cast_column(snapshot, name, has, declared[name.lower()])} AS {quote(name)}"
                    if name.lower() in declared
                    else quote(name)
                    for name, has in found
                )
                found = engine.analyze(f"SELECT {casts} FROM (\n{sql}\n)", before)
            except ExecutionError as error:
                column = column_of_cast(error.place.words) if error.place else None
                error.place = QueryPlace(sql, None, column=column) if column else None
                self._add_mistake(snapshot, error)
                return None
        return found

    def _analyze_audits(
        self, snapshot: Snapshot, table: PhysicalTable | None, types: Columns | None, *, late: bool
    ) -> None:
        model, resolver = snapshot.model, self._resolver()
        catalog = self.handles.settings.catalog
        known = {name.lower(): type_ for name, type_ in types or ()}
        apart = model.kind.interval_column
        rows = relation_query(snapshot.name, resolver, catalog)
        if not model.kind.is_read:
            rows = ""
        if rows is None or (table and not self._exists(table) and table.id not in self._stand_ins):
            return
        slot = snapshot.cadence.latest_slot(self.plan.created_at)
        before = self._session_statements(snapshot)
        time_type = known.get(apart.name.lower()) if apart else None
        if apart and time_type is None:
            return
        try:
            meaning_of(model.kind).audited_rows(model.kind, rows, slot, time_type)
        except ExecutionError as error:
            self._add_mistake(snapshot, error)
            return
        for audit in model.audits:
            if self.order.is_late(model.name, audit.reads) is not late:
                continue
            why = self._why_not_analyzed(audit.reads)
            if why is not None:
                self.left_out.setdefault(model.name, f"its audit {audit.label}: {why}")
                continue
            try:
                sql = render_audit(audit, snapshot, rows, resolver, catalog, slot, time_type)
                self.handles.engine().analyze(sql, before)
            except SqlglotError:
                continue  # It has types that SQLGlot does not support.
            except ExecutionError as error:
                error.place = None  # The place is in the audit's text, not the model's.
                self._add_mistake(snapshot, error, audit)

    def _add_stand_in(
        self, snapshot: Snapshot, table: PhysicalTable, types: Mapping[str, str]
    ) -> None:
        # If several models share the table, the query has the columns of all of them.
        known = self._column_types.setdefault(table.id, {})
        known |= {physical: types[name] for name, physical in column_map(snapshot, table)}
        made = ", ".join(f"CAST(NULL AS {type_}) AS {quote(name)}" for name, type_ in known.items())
        self._stand_ins[table.id] = f"(SELECT {made} WHERE false)"

    def _exists(self, table: PhysicalTable) -> bool:
        return self.tables[table.id].created

    def _render_query(self, snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
        now, catalog = self.plan.created_at, self.handles.settings.catalog
        slot = snapshot.cadence.latest_slot(now)
        query = render_query(snapshot.model, self._resolver(), catalog, slot, now)
        return query, self._session_statements(snapshot)

    def _session_statements(self, snapshot: Snapshot) -> tuple[str, ...]:
        resolver, catalog = self._resolver(), self.handles.settings.catalog
        now = self.plan.created_at
        return render_statements(
            tuple(filter(snapshot.model.is_for_session, snapshot.model.pre_statements)),
            relation_function(resolver, catalog, snapshot.cadence.latest_slot(now), now),
            resolver.views.quoted(snapshot.name, catalog),
            snapshot.cadence.latest_slot(now),
            now,
        )

    def _resolver(self) -> Resolver:
        return self.plan.resolver(
            self.tables,
            stand_ins=self._stand_ins,
            suffix=self.handles.settings.environment_suffix_target,
            mode=self.handles.settings.virtual_environment_mode,
        )

    def _add_mistake(
        self, snapshot: Snapshot, error: ExecutionError, audit: Audit | None = None
    ) -> None:
        what = f"{snapshot.name}: " + (f"audit {audit.label}: " if audit else "")
        self.mistakes[snapshot.name].append(
            ProjectError(
                what + (error.cause or error.message),
                hint=error.hint,
                location=failure_location(error, self.plan, snapshot, audit),
                models=(snapshot.name,),
            )
        )


def _shape_problem(snapshot: Snapshot, sql: str, found: Columns) -> ExecutionError | None:
    names = Counter(name.lower() for name, _ in found)
    twice = [name for name, number in names.items() if number > 1]
    if twice:
        return ExecutionError(
            f"its query has several columns called '{twice[0]}'",
            hint="give them different names with AS",
        )
    for column in snapshot.computed_columns:
        if column.name.lower() not in names:
            return ExecutionError(
                f"its query has no column '{column.name}'",
                hint=f"Spark finds the columns {', '.join(name for name, _ in found)}",
            )
    declared = {c.name.lower() for c in snapshot.model.columns if c.type}
    for name, type_ in found:
        if snapshot.has_table and not is_storable(type_) and name.lower() not in declared:
            problem = ExecutionError(
                f"the column '{name}' is of type {type_}, which cannot be stored",
                hint="cast the column in the query, for example CAST(NULL AS STRING)",
            )
            problem.place = QueryPlace(sql, None, column=name)
            return problem
    return None


def _column_types(snapshot: Snapshot, found: Columns | None) -> Columns | None:
    known = {name.lower(): type_ for name, type_ in found or ()}
    added = {column.name: column.type for column in snapshot.model.kind.added_columns}
    out = []
    for column in snapshot.columns:
        type_ = added.get(column.name) or known.get(column.name.lower()) or column.type
        if type_ is None:
            return None
        out.append((column.name, type_))
    return tuple(out) or None
