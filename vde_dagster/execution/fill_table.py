"""Filling one model's table: recover what a crash left, write what is missing, audit, record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.audit_table import Auditor
from vde_dagster.execution.events import Event, IntervalFilled, ModelFinished, ModelStarted
from vde_dagster.execution.in_place import add_columns, branch_off
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.execution.recover import recover
from vde_dagster.execution.skipping import Skipping
from vde_dagster.execution.table_branches import TableBranches
from vde_dagster.execution.table_leases import TableLeases
from vde_dagster.execution.target import LeftOver, Target
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.lakehouse.branch_names import BranchName
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.missing import with_lookback
from vde_dagster.planning.plan import PlannedModel
from vde_dagster.planning.resolver import fill_map
from vde_dagster.planning.serve import choose_filler, extended
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.statements import only_of_session
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import AnalysedQuery, FillResult, FillTask
from vde_dagster.state import Lease


@dataclass(frozen=True, slots=True)
class TableFiller:
    """Fills the tables of one plan; `fill` is called from several threads.

    Args:
        tasks: The plan, and what the engine is asked to do for it.
        warehouse: Where the tables are.
        leases: Those of the tables; of what an environment shows they are held already, and its
            rows wait for the publication.
        attempt: Names the branches of this attempt; see `BranchName`.
        emit: Takes events from any thread.
        stop: When set, no further range is begun.
    """

    tasks: PlanTasks
    warehouse: Warehouse
    leases: TableLeases
    attempt: int
    emit: Callable[[Event], None]
    stop: threading.Event

    def fill(self, model: PlannedModel) -> None:
        """Fill and audit one model's missing intervals; without any, make sure of its table.

        Raises:
            AuditFailedError: A blocking audit found rows.
            ExecutionError: Spark failed, or the work was cancelled.
        """
        assert model.snapshot_id is not None
        began = time.monotonic()
        snapshot = self.tasks.plan.snapshots[model.snapshot_id]
        table = model.table
        if table is None:
            self._auditor().audit(snapshot, None, self.tasks.latest_slot(snapshot), None)
        else:
            with self.leases.guard(table) as lease:
                table = self._fill_table(model, snapshot, table, lease)
        if model.builds or model.audits:
            self.emit(ModelFinished(snapshot, table, time.monotonic() - began))

    def _fill_table(
        self, model: PlannedModel, snapshot: Snapshot, table: PhysicalTable, lease: Lease
    ) -> PhysicalTable:
        table = self.warehouse.store.tables.get(table.id)
        if model.deploys:
            table = self._extend(snapshot, table, lease)
        if model.builds:
            table = self._fill_missing(model, snapshot, table, lease)
        if not table.created:
            # Nothing was to be filled, but views and other models have to find it.
            filler = self._definition(snapshot, table)
            task = self.tasks.fill(filler, table, self.tasks.latest_slot(snapshot), None)
            table = self._create(filler, table, task, lease).table
        if model.audits:
            for interval in table.intervals:
                self._auditor().audit(snapshot, table, interval, None)
        return table

    def evolve_layouts(self) -> None:
        """Change partitioning, sort order and properties where the plan says so, in place."""
        for model in self.tasks.plan.models:
            if not model.layout or model.table is None or model.snapshot_id is None:
                continue
            had = model.previous_snapshot_id or model.table.snapshot_id
            known = self.warehouse.store.snapshots.load([had, model.table.snapshot_id])
            previous = known.get(had) or known[model.table.snapshot_id]
            with self.leases.guard(model.table):
                self.warehouse.engine().evolve_layout(
                    model.table, self.tasks.plan.snapshots[model.snapshot_id], previous
                )

    def _auditor(self) -> Auditor:
        return Auditor(self.tasks, self.warehouse, self.emit)

    def _target(self, filler: Snapshot, table: PhysicalTable, lease: Lease) -> Target:
        """Decide where a table is written.

        What reads rows that wait for the publication waits for it too: when the plan is given
        up, nothing may stay that was computed from what nobody published.
        """
        waiting = self.tasks.written.branches()
        waits = table.id in self.leases.held or self.tasks.reads(filler, waiting)
        own = BranchName(self.tasks.plan.id, self.attempt, shared=not waits)
        return Target(TableBranches(self.warehouse.lakehouse, table, lease), own, waits)

    def _fill_missing(
        self, model: PlannedModel, snapshot: Snapshot, table: PhysicalTable, lease: Lease
    ) -> PhysicalTable:
        filler = self._definition(snapshot, table)
        target = self._target(filler, table, lease)
        written = self.tasks.written
        outdated = target.waits and self.tasks.reads(filler, written.filled())
        left = target.take_over(self.tasks.plan.id, restate=model.restate, outdated=outdated)
        if target.waits and left.commits:
            written.put_branch(table.id, target.branch)
        self._audit_rows_of_others(model, snapshot, target, left)
        missing = model.intervals - left.recorded
        if missing and model.skippable and not model.restate and not left.commits:
            skipped = self._skip(snapshot, filler, target, table, missing)
            if skipped is not None:
                return skipped
        self.emit(ModelStarted(snapshot, table, missing))
        taken = recover(model, snapshot, target, left, missing, self._auditor())
        missing = missing - taken
        # What goes on in place keeps the rows that are there, whichever ranges are filled again;
        # a preview that nothing counts of any more is begun anew.
        kept = table.preview is not None and bool(table.available or not table.created)
        goes_on = model.in_place is not None or kept
        begins = not goes_on and not (left.recorded or taken)
        anew = snapshot.model.kind.restates_whole and begins
        missing = with_lookback(snapshot, missing, model.intervals)
        if not missing:
            return self.warehouse.store.tables.get(table.id)
        if model.records_only:
            return self._record_empty(snapshot, filler, target, table, missing)
        size = meaning_of(snapshot.model.kind).most_intervals(snapshot.model)
        batches = list(snapshot.cadence.batches(missing, size))
        for number, batch in enumerate(batches, 1):
            if self.stop.is_set():
                raise ExecutionError(f"{snapshot.name}: cancelled before {batch}")
            last = number == len(batches)
            first = anew and number == 1
            table = self._fill_range(snapshot, filler, target, table, batch, last, first)
        return table

    def _record_empty(
        self,
        snapshot: Snapshot,
        filler: Snapshot,
        target: Target,
        table: PhysicalTable,
        missing: IntervalSet,
    ) -> PhysicalTable:
        """Record ranges as filled as they are, without computing anything."""
        if not table.created:
            slot = self.tasks.latest_slot(snapshot)
            task = self.tasks.fill(filler, table, slot, None)
            table = self._create(filler, table, task, target.branches.lease).table
        for interval in missing:
            result = FillResult(rows=0, iceberg_snapshot_id=None, seconds=0.0)
            target.record(interval, result, None, last=True)
            self.emit(IntervalFilled(snapshot, table, interval, result, False))
        return replace(table, intervals=table.intervals | missing)

    def _skip(
        self,
        snapshot: Snapshot,
        filler: Snapshot,
        target: Target,
        table: PhysicalTable,
        missing: IntervalSet,
    ) -> PhysicalTable | None:
        """Let slots count as filled when nothing that the model reads has changed."""
        found = self._skipping().nothing_new(filler, table)
        if found is None:
            return None
        last, facts = found
        assert facts.skipped is not None
        result = FillResult(last.rows, facts.skipped.commit, None)
        for interval in missing:
            target.record_skipped(interval, last.rows, facts)
            event = IntervalFilled(snapshot, table, interval, result, skipped=facts.skipped)
            self.emit(event)
        return table

    def _skipping(self) -> Skipping:
        return Skipping(self.tasks, self.warehouse)

    def _audit_rows_of_others(
        self, model: PlannedModel, snapshot: Snapshot, target: Target, left: LeftOver
    ) -> None:
        """Audit what the model needs and another one has filled, in a table that both share.

        Rows are audited by the model in whose name they are filled, and others may ask more of
        them.
        """
        table = target.table
        if table.snapshot_id == snapshot.id:
            return
        branch = target.branch if target.waits and left.commits else None
        for interval in model.intervals & left.recorded:
            self._auditor().audit(snapshot, table, interval, branch)

    def _definition(self, snapshot: Snapshot, table: PhysicalTable) -> Snapshot:
        plan = self.tasks.plan
        target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
        definition = plan.snapshots.get(table.snapshot_id)
        if definition is None:
            # A definition that cannot be read fills no more than one that is gone.
            stored = self.warehouse.store.snapshots.load([table.snapshot_id], None, set())
            definition = stored.get(table.snapshot_id)
        found = choose_filler(table, snapshot, definition, target)
        if found is None:
            raise ExecutionError(
                f"{snapshot.name}: {table.ref} can no longer be filled, its definition is gone",
                hint=f"plan again: vde plan {plan.environment}",
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
        anew: bool,
    ) -> PhysicalTable:
        written = self.tasks.written
        skipping = self._skipping()
        looked = skipping.look(filler, table)
        anew = anew or looked.anew
        task = self.tasks.fill(
            filler, table, interval, target.branch, anew=anew, commits=looked.commits
        )
        if not table.created:
            task = self._create(filler, table, task, target.branches.lease)
            table = task.table
            if filler.model.reads_itself:  # The task of before reads a table without rows.
                task = self.tasks.fill(filler, table, interval, target.branch, anew=anew)
        result = self.warehouse.engine().fill(task)
        facts = skipping.facts(looked, result.output, table, interval)
        written.note_filled(table.id)
        if target.waits:
            written.put_branch(table.id, target.branch)
        self._auditor().audit(snapshot, table, interval, target.branch)
        target.record(interval, result, facts, last=last)
        filled = table.intervals
        if target.waits:
            written.put_branch(table.id, target.branch)
        else:
            filled = filled | IntervalSet((interval,))
        self.emit(IntervalFilled(snapshot, table, interval, result, False))
        return replace(table, intervals=filled)

    def _create(
        self, filler: Snapshot, table: PhysicalTable, task: FillTask, lease: Lease
    ) -> FillTask:
        """Create the table with the types that its query really has; return the task for it."""
        columns, prepared = self._types(filler, task)
        if table.preview is not None:
            store, lakehouse = self.warehouse.store, self.warehouse.lakehouse
            base = store.tables.get(table.preview.of)
            created = branch_off(lakehouse, base, filler, table, dict(columns), lease)
            self.tasks.written.put_table(created)
            return replace(
                task, table=created, columns=fill_map(filler, created), prepared=prepared
            )
        self.warehouse.engine().create_table(table, filler, tuple(columns), branch=task.branch)
        created = self.warehouse.store.tables.mark_created(table, columns)
        return replace(task, table=created, prepared=prepared)

    def _extend(self, snapshot: Snapshot, table: PhysicalTable, lease: Lease) -> PhysicalTable:
        """Give a table of production's the columns that its new definition adds.

        Nobody sees them before the publication: views name their columns, and who fills the table
        by another definition leaves them NULL.
        """
        planned = extended(table, snapshot)
        if planned != table:
            task = self.tasks.fill(snapshot, planned, self.tasks.latest_slot(snapshot), None)
            columns, _ = self._types(snapshot, task)
            table = add_columns(self.warehouse.lakehouse, table, snapshot, dict(columns), lease)
        self.tasks.written.put_table(table)
        return table

    def _types(
        self, filler: Snapshot, task: FillTask
    ) -> tuple[list[tuple[str, str]], AnalysedQuery | None]:
        """Return (physical column, Spark SQL type) of what a task writes, and what was analysed."""
        declared = {column.name: column.type for column in filler.model.columns}
        prepared = None
        if task.query is not None:
            prepared = self.warehouse.engine().prepare(
                task.query, tuple(filter(only_of_session, task.before))
            )
            analysed = {name.lower(): type_ for name, type_ in prepared.columns}
        else:
            analysed = {c.name.lower(): c.type or "STRING" for c in filler.columns}
        added = {column.name: column.type for column in filler.model.kind.added_columns}
        made = {*added, *(name for name, _ in filler.own_columns)}
        columns = []
        for output, physical in task.columns:
            if output not in made:
                continue  # It is shown on, and no longer computed.
            type_ = added.get(output) or declared.get(output) or analysed.get(output.lower())
            if type_ is None:
                raise ExecutionError(
                    f"{filler.name}: its query has no column '{output}'",
                    hint=f"Spark sees {', '.join(analysed)}",
                )
            columns.append((physical, type_))
        return columns, prepared
