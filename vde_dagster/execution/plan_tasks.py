"""Engine tasks of a plan: queries that fill and audit its tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.changes.refresh import RULE_OF_THUMB, RefreshCosts
from vde_dagster.planning.engine_tasks import AuditTask, Changes, FillTask
from vde_dagster.planning.environments.resolver import (
    Binding,
    Columns,
    Resolver,
    TableRead,
    column_map,
    fill_map,
    select_physical,
    tables_read,
)
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds.repeatable import explain_never_skipped, may_be_skipped
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.rendering.render import (
    relation_function,
    relation_query,
    render_audit,
    render_plain_query,
    render_query,
    render_statements,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import FillFacts
from vde_dagster.planning.tables.pinned_reads import CommitRange, PinnedTable
from vde_dagster.planning.tables.table import ParentGaps, PhysicalTable, external_table
from vde_dagster.project.model import Audit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

NO_COMMITS: Mapping[ModelName, CommitRange] = {}
NO_PINS: Mapping[str, PinnedTable] = {}
MOST_SETS = 8
"""Maximum number of column sets of a table that get a digest.

If a table has more, only the set of all columns gets one.
"""
MOST_DIGESTS = 32
"""Maximum number of digests per fill; with more, the whole fill is one digest range."""


@dataclass(frozen=True, slots=True)
class PlanTasks:
    """Builds the tasks that fill and audit the tables of one plan.

    Args:
        target: Resolver of the environment as the plan publishes it; reads tables on `main`.
        written: Branches that the plan's own models read instead of `main`.
        digest_sets: Sets of columns that get a digest in a fill, by table id.
        lacks: Missing intervals of parents, by id of each table that is replaced as a whole.
        costs: Returns the costs of refreshing, fitted to fills of the plan's tables.
    """

    plan: Plan
    target: Resolver
    written: WrittenTables
    handles: Handles
    digest_sets: Mapping[str, tuple[Columns, ...]] = field(default_factory=dict)
    lacks: Mapping[str, ParentGaps] = field(default_factory=dict)
    costs: Callable[[], RefreshCosts] = lambda: RULE_OF_THUMB

    @property
    def catalog(self) -> str:
        return self.handles.settings.catalog

    def fill(
        self,
        filler: Snapshot,
        table: PhysicalTable,
        interval: Interval,
        branch: str | None,
        *,
        anew: bool = False,
        commits: Mapping[ModelName, CommitRange] = NO_COMMITS,
        pinned: Mapping[str, PinnedTable] = NO_PINS,
        changed: Changes | None = None,
    ) -> FillTask:
        """Build the task that computes a range of a table on Spark.

        Args:
            anew: Whether all rows of the table are replaced.
            commits: Commits to read instead of all rows, by parent.
            pinned: Iceberg snapshots to read, by table id.
            changed: Rows to change, as in `FillTask.changed`.
        """
        model = filler.model
        query, sources = None, {}
        resolver = replace(self._resolver(), commits=commits, pinned=pinned)
        if model.reads_itself:
            resolver = resolver.with_own_table(filler, table)
        relation_of = relation_function(resolver, self.catalog, interval, self.plan.created_at)
        if model.query is not None:
            query = render_query(model, resolver, self.catalog, interval, self.plan.created_at)
        elif model.python is not None:
            own = (model.name,) if model.reads_itself else ()
            known = {parent: relation_of(parent) for parent in (*model.depends_on, *own)}
            sources = {parent: sql for parent, sql in known.items() if sql is not None}
        name = table.ref.quoted(self.catalog)
        before, after = (
            render_statements(statements, relation_of, name, interval, self.plan.created_at)
            for statements in (model.pre_statements, model.post_statements)
        )
        return FillTask(
            plan_id=self.plan.id,
            snapshot=filler,
            table=table,
            columns=fill_map(filler, table),
            interval=interval,
            query=query,
            sources=sources,
            branch=branch,
            execution_time=self.plan.created_at,
            before=before,
            after=after,
            anew=anew,
            digest_sets=self.digest_sets.get(table.id, ()),
            digest_ranges=self._digest_ranges(filler, table, interval),
            completes=self._is_last_range(table, interval),
            changed=changed,
        )

    def plain_query(self, filler: Snapshot) -> str | None:
        """Return a model's query over physical tables, for analysis; None if it has no query."""
        if filler.model.query is None:
            return None
        return render_plain_query(filler.model, self._resolver(), self.catalog)

    def tables_read(self, filler: Snapshot) -> tuple[TableRead, ...]:
        """Return the physical tables and branches that a model's query reads in this plan."""
        return tables_read(filler, self._resolver(), self.catalog)

    def facts_without_inputs(self, table: PhysicalTable) -> FillFacts:
        """Return the facts to store with a fill whose input tables are in unknown states."""
        return FillFacts(lacks=self.lacks.get(table.id, {}))

    def input_key(self, name: ModelName) -> str:
        """Return a parent's key in the stored inputs of a fill: the parent's table id or name."""
        entry = self.target.entries.get(name)
        return entry.table_id if entry is not None and entry.table_id else str(name)

    def _digest_ranges(
        self, filler: Snapshot, table: PhysicalTable, interval: Interval
    ) -> tuple[Interval, ...]:
        # Each unit is a range if there are few units. Otherwise, the whole interval is one range.
        sets = len(self.digest_sets.get(table.id, ()))
        if not sets or not filler.is_incremental:
            return (interval,)
        count = filler.cadence.unit.count(interval)
        if count * sets > MOST_DIGESTS:
            return (interval,)
        return tuple(filler.cadence.batches(IntervalSet((interval,)), 1))

    def _is_last_range(self, table: PhysicalTable, interval: Interval) -> bool:
        return all(
            model.intervals.ranges[-1].end <= interval.end
            for model in self.plan.models
            if model.table is not None and model.table.id == table.id and model.intervals
        )

    def audits(self) -> AuditTasks:
        """Return the builder of audit tasks that read the rows written by the plan so far."""
        plan = self.plan
        return AuditTasks(plan.id, plan.created_at, self._resolver(), self.catalog)

    def latest_slot(self, snapshot: Snapshot) -> Interval:
        """Return the last complete interval of a model that was due when the plan was created."""
        return snapshot.cadence.latest_slot(self.plan.created_at)

    def reads(self, snapshot: Snapshot, table_ids: Container[str]) -> bool:
        """Check whether a model reads one of the given tables, directly or through views."""
        return any(read.key in table_ids for read in self.tables_read(snapshot))

    def _resolver(self) -> Resolver:
        tables = {**self.target.tables, **self.written.tables}
        return replace(self.target, branches=self.written.branches, tables=tables)


@dataclass(frozen=True, slots=True)
class AuditTasks:
    """Builds tasks that run audits on Spark.

    Args:
        run_id: The plan's id, or the id of a run of audits.
        now: The current time in the audits' queries (UTC).
    """

    run_id: str
    now: datetime
    resolver: Resolver
    catalog: str

    def create(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None = None,
        chosen: Callable[[Audit], bool] = lambda audit: True,
    ) -> Iterator[tuple[Audit, AuditTask]]:
        """Yield tasks that audit a range of a model's table or branch, or the query of a view."""
        # An audit that names the model itself reads the same branch.
        resolver, catalog = self.resolver, self.catalog
        if table is not None and branch is not None:
            resolver = replace(resolver, branches={**resolver.branches, table.id: branch})
        time_type = None
        if table is None:
            rows = relation_query(snapshot.name, resolver, catalog) or ""
        else:
            time_type = _time_column_type(snapshot, table)
            entry = resolver.entries.get(snapshot.name)
            if entry is not None and entry.held is not None:
                binding = resolver.resolve(snapshot.name)
            else:
                branch = branch or table.branch
                binding = Binding(snapshot, table, column_map(snapshot, table), branch)
            rows = select_physical(binding, catalog)
        # Audits may need the same session settings as the model's queries.
        named = table.ref if table is not None else resolver.views.ref(snapshot.name)
        before = render_statements(
            tuple(filter(snapshot.model.is_for_session, snapshot.model.pre_statements)),
            relation_function(resolver, catalog, interval, self.now),
            named.quoted(catalog),
            interval,
            self.now,
        )
        external = ""
        if snapshot.model.kind.is_external:
            outside = external_table(snapshot.model)
            external = quote(outside.namespace, outside.name)
        for audit in filter(chosen, snapshot.model.audits):
            query = render_audit(audit, snapshot, rows, resolver, catalog, interval, time_type)
            yield (
                audit,
                AuditTask(
                    self.run_id,
                    snapshot.name,
                    audit.label,
                    query,
                    audit.blocking,
                    interval,
                    before,
                    external,
                ),
            )


def _time_column_type(snapshot: Snapshot, table: PhysicalTable) -> str | None:
    apart = snapshot.model.kind.interval_column
    if apart is None:
        return None
    types = {column.name: column.type for column in table.columns}
    physical = {out.lower(): types[phys] for out, phys in column_map(snapshot, table)}
    return physical.get(apart.name.lower())


def digest_sets(plan: Plan, resolver: Resolver, catalog: str) -> dict[str, tuple[Columns, ...]]:
    """Return the sets of columns that get a digest when a fill writes a table, by table id."""
    # The set of all columns (None) is always included, for future readers. Tables without a
    # skippable reader have no sets.
    target = plan.target
    found: dict[str, set[Columns]] = {}
    for snapshot in target.values():
        if not may_be_skipped(snapshot) or explain_never_skipped(snapshot, target) is not None:
            continue
        for read in tables_read(snapshot, resolver, catalog):
            if not read.external:
                found.setdefault(read.key, set()).add(read.columns)
    some = {key: sorted(one for one in sets if one is not None) for key, sets in found.items()}
    return {key: (None, *(own if len(own) < MOST_SETS else ())) for key, own in some.items()}


class WrittenTables:
    """Tables and branches that an apply has written so far, for its later tasks to read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.branches: Mapping[str, str] = {}
        """Branches that wait for the publication, by table id."""
        self.filled: frozenset[str] = frozenset()
        """Ids of the tables with computed ranges."""
        self.tables: Mapping[str, PhysicalTable] = {}
        """Current state of tables that got columns since the plan was created, by id."""

    def put_branch(self, table_id: str, branch: str) -> None:
        """Let later tasks read a table on a branch instead of `main`."""
        with self._lock:
            self.branches = {**self.branches, table_id: branch}

    def drop_branch(self, table_id: str) -> None:
        """Let later tasks read a table on `main` again."""
        with self._lock:
            rest = self.branches.items()
            self.branches = {key: branch for key, branch in rest if key != table_id}

    def put_table(self, table: PhysicalTable) -> None:
        """Let later tasks see the new columns of a table."""
        with self._lock:
            self.tables = {**self.tables, table.id: table}

    def note_filled(self, table_id: str) -> None:
        with self._lock:
            self.filled |= {table_id}
