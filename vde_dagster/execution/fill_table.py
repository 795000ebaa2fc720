"""Filling one model's table: recover what a crash left, write what is missing, audit, record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vde_dagster.errors import AuditFailedError, ExecutionError
from vde_dagster.execution.engine import Engine
from vde_dagster.execution.events import (
    AuditFinished,
    Event,
    IntervalFilled,
    ModelFinished,
    ModelStarted,
)
from vde_dagster.execution.table_branches import TableBranches
from vde_dagster.execution.target import LeftOver, Target
from vde_dagster.lakehouse import Lakehouse
from vde_dagster.lakehouse.branch_names import BranchName
from vde_dagster.planning.cadence import Cadence
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.missing import with_lookback
from vde_dagster.planning.plan import Plan, PlannedModel
from vde_dagster.planning.render import relation, render_audit, render_query
from vde_dagster.planning.resolver import (
    Binding,
    Resolver,
    column_map,
    fill_map,
    select_physical,
)
from vde_dagster.planning.serve import choose_filler
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import AuditTask, FillResult, FillTask
from vde_dagster.project.settings import Settings
from vde_dagster.state import Lease, StateStore
from vde_dagster.state.lease_names import table_lease

TABLE_WAIT_SECONDS = 6 * 3600.0


@dataclass
class TableFiller:
    """Fills the tables of one plan; `fill` is called from several threads.

    Args:
        plan: The plan, with the tables that exist.
        resolver: The environment's target; its branches are `written`.
        attempt: Names the branches of this attempt; see `BranchName`.
        held: Leases that the apply holds until it publishes, by table id.
        shown: Tables that an environment shows; their rows wait for the publication.
        written: Branch by table id of what waits, which readers of this plan read.
        settings: The project's settings.
        store: The state store.
        lakehouse: The catalog.
        engine: Starts or returns the engine.
        owner: Who holds the leases.
        emit: Takes events from any thread.
        stop: When set, no further range is begun.
    """

    plan: Plan
    resolver: Resolver
    attempt: int
    held: dict[str, Lease]
    shown: frozenset[str]
    written: dict[str, str]
    settings: Settings
    store: StateStore
    lakehouse: Lakehouse
    engine: Callable[[], Engine]
    owner: str
    emit: Callable[[Event], None]
    stop: threading.Event
    filled: set[str] = field(default_factory=set)

    def fill(self, model: PlannedModel) -> None:
        """Fill and audit one model's missing intervals; without any, make sure of its table.

        Raises:
            AuditFailedError: A blocking audit found rows.
            ExecutionError: Spark failed, or the work was cancelled.
        """
        assert model.snapshot_id is not None
        began = time.monotonic()
        snapshot = self.plan.snapshots[model.snapshot_id]
        table = model.table
        if table is None:
            slot = Cadence(snapshot.model.cron).latest_slot(self.plan.created_at)
            self._audit(snapshot, None, slot, None)
        else:
            with self._guard(table) as lease:
                table = self._fill_table(model, snapshot, table, lease)
        if model.builds or model.audits:
            self.emit(ModelFinished(snapshot, table, time.monotonic() - began))

    def _fill_table(
        self, model: PlannedModel, snapshot: Snapshot, table: PhysicalTable, lease: Lease
    ) -> PhysicalTable:
        table = self.store.table(table.id)
        if model.builds:
            table = self.resolver.writable(table)
            table = self._fill_missing(model, snapshot, table, lease)
        if not table.created:
            # Nothing was to be filled, but views and other models have to find it.
            filler = self._definition(snapshot, table)
            slot = Cadence(snapshot.model.cron).latest_slot(self.plan.created_at)
            table = self._create(filler, table, self._task(filler, table, slot, None)).table
        if model.audits:
            for interval in table.intervals:
                self._audit(snapshot, table, interval, None)
        return table

    def evolve_layouts(self) -> None:
        """Change partitioning, sort order and properties where the plan says so, in place."""
        for model in self.plan.models:
            if not model.layout or model.table is None or model.snapshot_id is None:
                continue
            had = model.previous_snapshot_id or model.table.snapshot_id
            known = self.store.snapshots([had, model.table.snapshot_id])
            previous = known.get(had) or known[model.table.snapshot_id]
            with self._guard(model.table):
                self.engine().evolve_layout(
                    model.table, self.plan.snapshots[model.snapshot_id], previous
                )

    @contextmanager
    def _guard(self, table: PhysicalTable) -> Iterator[Lease]:
        """Hold a table's lease; for those that an environment shows the apply holds it already."""
        if table.id in self.held:
            yield self.held[table.id]
            return
        with self.store.holding_lease(
            table_lease(table.id), self.owner, wait_seconds=TABLE_WAIT_SECONDS
        ) as held:
            yield held.lease

    def _target(self, filler: Snapshot, table: PhysicalTable, lease: Lease) -> Target:
        """Decide where a table is written.

        What reads rows that wait for the publication waits for it too: when the plan is given
        up, nothing may stay that was computed from what nobody published.
        """
        waits = table.id in self.shown or self._reads(filler, self.written)
        own = BranchName(self.plan.id, self.attempt, shared=not waits)
        return Target(TableBranches(self.lakehouse, table, lease), own, waits)

    def _reads(self, snapshot: Snapshot, table_ids: Container[str]) -> bool:
        """Say whether a snapshot reads one of the tables, itself or through views."""
        for parent in snapshot.parents:
            entry = self.resolver.entries.get(parent)
            if entry is None:
                continue
            if entry.table_id is None:
                if self._reads(self.resolver.snapshots[entry.snapshot_id], table_ids):
                    return True
            elif entry.table_id in table_ids:
                return True
        return False

    def _fill_missing(
        self, model: PlannedModel, snapshot: Snapshot, table: PhysicalTable, lease: Lease
    ) -> PhysicalTable:
        filler = self._definition(snapshot, table)
        target = self._target(filler, table, lease)
        outdated = target.waits and self._reads(filler, self.filled)
        left = target.take_over(self.plan.id, restate=model.restate, outdated=outdated)
        if target.waits and left.commits:
            self.written[table.id] = target.branch
        missing = model.intervals - left.recorded
        self.emit(ModelStarted(snapshot, table, missing))
        missing = missing - self._recover(model, snapshot, target, left, missing)
        missing = with_lookback(snapshot, missing, model.intervals)
        if not missing:
            return self.store.table(table.id)
        size = snapshot.model.kind.most_intervals
        batches = list(Cadence(snapshot.model.cron).batches(missing, size))
        for number, batch in enumerate(batches, 1):
            if self.stop.is_set():
                raise ExecutionError(f"{snapshot.name}: cancelled before {batch}")
            last = number == len(batches)
            table = self._fill_range(snapshot, filler, target, table, batch, last)
        return table

    def _definition(self, snapshot: Snapshot, table: PhysicalTable) -> Snapshot:
        target = {
            name: self.plan.snapshots[entry.snapshot_id]
            for name, entry in self.plan.entries.items()
        }
        definition = self.plan.snapshots.get(table.snapshot_id)
        if definition is None:
            definition = self.store.snapshots([table.snapshot_id]).get(table.snapshot_id)
        found = choose_filler(table, snapshot, definition, target)
        if found is None:
            raise ExecutionError(
                f"{snapshot.name}: {table.ref} can no longer be filled, its definition is gone",
                hint=f"plan again: vde plan {self.plan.environment}",
            )
        return found

    def _fill_range(
        self,
        snapshot: Snapshot,
        filler: Snapshot,
        target: Target,
        table: PhysicalTable,
        interval: Interval,
        last: bool,
    ) -> PhysicalTable:
        task = self._task(filler, table, interval, target.branch)
        if not table.created:
            task = self._create(filler, table, task)
            table = task.table
        result = self.engine().fill(task)
        self.filled.add(table.id)
        if target.waits:
            self.written[table.id] = target.branch
        self._audit(snapshot, table, interval, target.branch)
        target.record(interval, result, last=last)
        filled = table.intervals
        if target.waits:
            self.written[table.id] = target.branch
        else:
            filled = filled | IntervalSet((interval,))
        self.emit(IntervalFilled(snapshot, table, interval, result, False))
        return replace(table, intervals=filled)

    def _task(
        self, filler: Snapshot, table: PhysicalTable, interval: Interval, branch: str | None
    ) -> FillTask:
        model = filler.model
        query = None
        sources = {}
        catalog = self.settings.catalog
        if model.query is not None:
            query = render_query(model, self.resolver, catalog, interval, self.plan.created_at)
        elif model.python is not None:
            for parent in model.depends_on:
                sql = relation(parent, self.resolver, catalog)
                if sql is not None:
                    sources[parent] = sql
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
        )

    def _create(self, filler: Snapshot, table: PhysicalTable, task: FillTask) -> FillTask:
        """Create the table with the types that its query really has; return the task for it."""
        declared = {column.name: column.type for column in filler.model.columns}
        prepared = None
        if task.query is not None:
            prepared = self.engine().prepare(task.query)
            analysed = {name.lower(): type_ for name, type_ in prepared.columns}
        else:
            analysed = {c.name.lower(): c.type or "STRING" for c in filler.columns}
        added = {column.name: column.type for column in filler.model.kind.added_columns}
        columns = []
        for output, physical in task.columns:
            type_ = added.get(output) or declared.get(output) or analysed.get(output.lower())
            if type_ is None:
                raise ExecutionError(
                    f"{filler.name}: its query has no column '{output}'",
                    hint=f"Spark sees {', '.join(analysed)}",
                )
            columns.append((physical, type_))
        self.engine().create_table(table, filler, tuple(columns), branch=task.branch)
        return replace(task, table=self.store.mark_created(table, columns), prepared=prepared)

    def _recover(
        self,
        model: PlannedModel,
        snapshot: Snapshot,
        target: Target,
        left: LeftOver,
        missing: IntervalSet,
    ) -> IntervalSet:
        """Take over ranges that were committed but not recorded, after auditing them again.

        A process that died between Iceberg's commit and the state's leaves such ranges. Rows
        that are not asked for or fail a blocking audit are taken off the branch.
        """
        taken = IntervalSet()
        good: int | None = None
        for commit in left.commits:
            fill = commit.fill
            if commit.snapshot_id in left.snapshot_ids:
                good = commit.snapshot_id
                continue
            if fill is None:
                continue
            # The table's id is never used again, so whoever's plan it was, the definition is ours.
            ours = fill.table_id == target.table.id and (
                fill.plan_id == self.plan.id or not (target.waits or model.restate)
            )
            if not (ours and missing.contains(fill.interval)):
                break
            if target.waits:
                self.written[target.table.id] = target.branch
            try:
                self._audit(snapshot, target.table, fill.interval, target.branch)
            except AuditFailedError:
                break
            taken = taken | IntervalSet((fill.interval,))
            result = FillResult(fill.rows, fill.iceberg_snapshot_id, 0.0)
            target.record(fill.interval, result, last=not missing - taken)
            if target.waits:
                self.written[target.table.id] = target.branch
            self.emit(IntervalFilled(snapshot, target.table, fill.interval, result, True))
            good = commit.snapshot_id
        if left.commits and left.commits[-1].snapshot_id != good:
            target.reset(good)
            if good is None:
                self.written.pop(target.table.id, None)
        return taken

    def _audit(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None,
    ) -> None:
        """Run a model's audits on one range of its table, or on the query of a view.

        Raises:
            AuditFailedError: A blocking audit found rows; the others have run all the same.
        """
        failures = []
        catalog = self.settings.catalog
        time_type = None
        if table is None:
            rows = render_query(snapshot.model, self.resolver, catalog)
        else:
            time_type = _time_type(snapshot, table)
            binding = Binding(snapshot, table, column_map(snapshot, table), branch)
            rows = select_physical(binding, catalog)
        for audit in snapshot.model.audits:
            query = render_audit(audit, snapshot, rows, self.resolver, catalog, interval, time_type)
            task = AuditTask(
                self.plan.id, snapshot.name, audit.label, query, audit.blocking, interval
            )
            result = self.engine().audit(task)
            self.store.save_audit_result(task, table.id if table else None, result)
            self.emit(AuditFinished(snapshot, table, audit, interval, result))
            if result.failed_rows and audit.blocking:
                failures.append(f"{audit.label} found {result.failed_rows} rows")
        if failures:
            raise AuditFailedError(
                f"{snapshot.name}, {interval}: " + ", ".join(failures),
                hint="the failing rows are kept with the plan",
            )


def _time_type(snapshot: Snapshot, table: PhysicalTable) -> str | None:
    """Return the type that the table has for the snapshot's time column, if it has one."""
    apart = snapshot.model.kind.interval_column
    if apart is None:
        return None
    types = {column.name: column.type for column in table.columns}
    physical = {out.lower(): types[phys] for out, phys in column_map(snapshot, table)}
    return physical.get(apart.name.lower())
