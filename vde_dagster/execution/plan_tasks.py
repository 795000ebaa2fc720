"""Tasks of an engine for a plan: the queries that fill and audit its tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.engine_tasks import AuditTask, FillTask
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
from vde_dagster.planning.kinds.repeatable import may_be_skipped, why_always
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.rendering.render import (
    only_of_session,
    relation,
    relations,
    render_audit,
    render_query,
    render_statements,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import FillFacts
from vde_dagster.planning.tables.pinned_reads import CommitRange, PinnedTable
from vde_dagster.planning.tables.table import ParentGaps, PhysicalTable
from vde_dagster.project.model import Audit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

NO_COMMITS: Mapping[ModelName, CommitRange] = {}
NO_PINS: Mapping[str, PinnedTable] = {}
MOST_SETS = 8
"""With more readers than that, of other columns each, only all columns have a digest."""
MOST_DIGESTS = 32
"""The most that one fill computes; one of more ranges has one digest for all of them."""


@dataclass(frozen=True, slots=True)
class PlanTasks:
    """Makes the tasks of one plan, with the tables that exist.

    Args:
        target: Resolves the names of what the plan's environment becomes, on `main`.
        written: What the plan's own models read beside `main`.
        digest_sets: The sets of columns of which fills take digests, by table id.
        lacks: By table id, the parent intervals missing for tables that are made whole.
    """

    plan: Plan
    target: Resolver
    written: Written
    handles: Handles
    digest_sets: Mapping[str, tuple[Columns, ...]] = field(default_factory=dict)
    lacks: Mapping[str, ParentGaps] = field(default_factory=dict)

    @property
    def catalog(self) -> str:
        """The catalog's name in Spark."""
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
        changed: str | None = None,
    ) -> FillTask:
        """Make the task that fills a range of a table.

        Args:
            anew: Whether nothing that the table holds is true any more.
            commits: What to read of parents of which not all rows are read.
            pinned: By table id, the states to read.
            changed: See `FillTask.changed`.
        """
        model = filler.model
        query, sources = None, {}
        resolver = replace(self._resolver(), commits=commits, pinned=pinned)
        if model.reads_itself:
            resolver = resolver.with_itself(filler, table)
        relation_of = relations(resolver, self.catalog, interval, self.plan.created_at)
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
            completes=self._completes(table, interval),
            changed=changed,
        )

    def plain_query(self, filler: Snapshot) -> str | None:
        """Return a definition's query over physical tables, for who wants to understand it."""
        if filler.model.query is None:
            return None
        resolver = self._resolver()
        tables = {key: replace(one, preview=None) for key, one in resolver.tables.items()}
        return render_query(
            filler.model, replace(resolver, branches={}, tables=tables), self.catalog
        )

    def tables_read(self, filler: Snapshot) -> tuple[TableRead, ...]:
        """Return the tables that a definition reads in this plan, with their branches."""
        return tables_read(filler, self._resolver(), self.catalog)

    def made_without(self, table: PhysicalTable) -> FillFacts:
        """Return the facts of a fill of which nothing else is known."""
        return FillFacts(lacks=self.lacks.get(table.id, {}))

    def key_of(self, name: ModelName) -> str:
        """Return the key by which what is read of a model with a table is known."""
        entry = self.target.entries.get(name)
        return entry.table_id if entry is not None and entry.table_id else str(name)

    def _digest_ranges(
        self, filler: Snapshot, table: PhysicalTable, interval: Interval
    ) -> tuple[Interval, ...]:
        """Return the single intervals of a range, where they are few, else the range."""
        sets = len(self.digest_sets.get(table.id, ()))
        if not sets or not filler.is_incremental:
            return (interval,)
        count = filler.cadence.unit.count(interval)
        if count * sets > MOST_DIGESTS:
            return (interval,)
        return tuple(filler.cadence.batches(IntervalSet((interval,)), 1))

    def _completes(self, table: PhysicalTable, interval: Interval) -> bool:
        """Say whether no range of a table is filled after one: ranges are filled in order."""
        return all(
            model.intervals.ranges[-1].end <= interval.end
            for model in self.plan.models
            if model.table is not None and model.table.id == table.id and model.intervals
        )

    def audits(self) -> AuditTasks:
        """Return the tasks that audit what the plan has made so far."""
        plan = self.plan
        return AuditTasks(plan.id, plan.created_at, self._resolver(), self.catalog)

    def latest_slot(self, snapshot: Snapshot) -> Interval:
        """Return the slot of a model's cron that was the latest when the plan was made."""
        return snapshot.cadence.latest_slot(self.plan.created_at)

    def reads(self, snapshot: Snapshot, table_ids: Container[str]) -> bool:
        """Say whether a snapshot reads one of the tables, itself or through views."""
        return any(read.key in table_ids for read in self.tables_read(snapshot))

    def _resolver(self) -> Resolver:
        tables = {**self.target.tables, **self.written.tables}
        return replace(self.target, branches=self.written.branches, tables=tables)


@dataclass(frozen=True, slots=True)
class AuditTasks:
    """Makes the tasks of audits.

    Args:
        run_id: The plan's id, or that of audits by themselves.
        now: The instant that queries call now (UTC).
    """

    run_id: str
    now: datetime
    resolver: Resolver
    catalog: str

    def of(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None = None,
        chosen: Callable[[Audit], bool] = lambda audit: True,
    ) -> Iterator[tuple[Audit, AuditTask]]:
        """Make the tasks that audit a range of a model's table, or the query of a view.

        Where an audit names the model itself, it reads the same branch.

        Args:
            branch: The branch to read, or None for the table's own.
        """
        resolver, catalog = self.resolver, self.catalog
        if table is not None and branch is not None:
            resolver = replace(resolver, branches={**resolver.branches, table.id: branch})
        time_type = None
        if table is None:
            rows = relation(snapshot.name, resolver, catalog) or ""
        else:
            time_type = _time_type(snapshot, table)
            entry = resolver.entries.get(snapshot.name)
            if entry is not None and entry.held is not None:
                binding = resolver.resolve(snapshot.name)
            else:
                branch = branch or table.branch
                binding = Binding(snapshot, table, column_map(snapshot, table), branch)
            rows = select_physical(binding, catalog)
        # What a model's queries need of their session its audits may need, too.
        named = table.ref if table is not None else resolver.views.ref(snapshot.name)
        before = render_statements(
            tuple(filter(only_of_session, snapshot.model.pre_statements)),
            relations(resolver, catalog, interval, self.now),
            named.quoted(catalog),
            interval,
            self.now,
        )
        for audit in filter(chosen, snapshot.model.audits):
            query = render_audit(audit, snapshot, rows, resolver, catalog, interval, time_type)
            task = AuditTask(
                self.run_id, snapshot.name, audit.label, query, audit.blocking, interval, before
            )
            yield audit, task


def _time_type(snapshot: Snapshot, table: PhysicalTable) -> str | None:
    apart = snapshot.model.kind.interval_column
    if apart is None:
        return None
    types = {column.name: column.type for column in table.columns}
    physical = {out.lower(): types[phys] for out, phys in column_map(snapshot, table)}
    return physical.get(apart.name.lower())


def digest_sets(plan: Plan, resolver: Resolver, catalog: str) -> dict[str, tuple[Columns, ...]]:
    """Return the sets of columns that models of a plan read of its tables, by table id.

    All columns together are always one of them, for readers to come. Tables that no model reads
    which may be skipped have none.
    """
    target = plan.target
    found: dict[str, set[Columns]] = {}
    for snapshot in target.values():
        if not may_be_skipped(snapshot) or why_always(snapshot, target) is not None:
            continue
        for read in tables_read(snapshot, resolver, catalog):
            if not read.external:
                found.setdefault(read.key, set()).add(read.columns)
    some = {key: sorted(one for one in sets if one is not None) for key, sets in found.items()}
    return {key: (None, *(own if len(own) < MOST_SETS else ())) for key, own in some.items()}


class Written:
    """The tables that an apply has written; each look at them is a value that never changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.branches: Mapping[str, str] = {}
        """By table id, the branch of what waits for the publication."""
        self.filled: frozenset[str] = frozenset()
        """The ids of the tables in which ranges were computed."""
        self.tables: Mapping[str, PhysicalTable] = {}
        """By id, the tables that got columns since the plan was made, as they are now."""

    def put_branch(self, table_id: str, branch: str) -> None:
        """Let readers of a table read a branch from now on."""
        with self._lock:
            self.branches = {**self.branches, table_id: branch}

    def drop_branch(self, table_id: str) -> None:
        """Let readers of a table read `main` again."""
        with self._lock:
            rest = self.branches.items()
            self.branches = {key: branch for key, branch in rest if key != table_id}

    def put_table(self, table: PhysicalTable) -> None:
        """Let readers of a table know its columns from now on."""
        with self._lock:
            self.tables = {**self.tables, table.id: table}

    def note_filled(self, table_id: str) -> None:
        """Note that a range of a table was computed."""
        with self._lock:
            self.filled |= {table_id}
