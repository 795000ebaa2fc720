"""Filling one model's table: recover what a crash left, write what is missing, audit, record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.execution.audit_table import Auditor
from vde_dagster.execution.batch_bytes import cut_by_bytes
from vde_dagster.execution.events import Event, IntervalFilled, ModelFinished, ModelStarted
from vde_dagster.execution.fill_range import RangeFiller
from vde_dagster.execution.in_place import add_columns
from vde_dagster.execution.make_table import TableMaker
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.execution.recover import recover
from vde_dagster.execution.run_batches import BatchRun
from vde_dagster.execution.skipping import Skipping
from vde_dagster.execution.slots import Slots
from vde_dagster.execution.table_branches import TableBranches
from vde_dagster.execution.table_leases import TableLeases
from vde_dagster.execution.target import LeftOver, Target
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.lakehouse.branch_names import BranchName
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.missing import left_to_fill, with_lookback
from vde_dagster.planning.plan import PlannedModel
from vde_dagster.planning.serve import choose_filler, extended
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import FillResult
from vde_dagster.project.audit_order import AuditOrder
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
        slots: Bound what is done at the same time.
        order: Says which audits are late.
    """

    tasks: PlanTasks
    warehouse: Warehouse
    leases: TableLeases
    attempt: int
    emit: Callable[[Event], None]
    stop: threading.Event
    slots: Slots
    order: AuditOrder = field(default_factory=AuditOrder)

    def fill(self, model: PlannedModel) -> None:
        """Fill and audit one model's missing intervals; without any, make sure of its table.

        Raises:
            AuditFailedError: A blocking audit found rows.
            ExecutionError: Spark failed, or the work was cancelled.
        """
        with self.slots.held():
            self._fill(model)

    def _fill(self, model: PlannedModel) -> None:
        assert model.snapshot_id is not None
        began = time.monotonic()
        snapshot = self.tasks.plan.snapshots[model.snapshot_id]
        table = model.table
        if table is None:
            ranges = model.intervals.ranges or (self.tasks.latest_slot(snapshot),)
            self._auditor().audit(snapshot, None, ranges[-1], None)
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
            table = self._maker.create(filler, table, task, lease).table
        if model.audits:
            for interval in _audited(snapshot, table.intervals - model.intervals):
                self._auditor().audit(snapshot, table, interval, None)
        return table

    def audit_late(self, model: PlannedModel) -> None:
        """Run a model's late audits, now that everything is filled that they read.

        Raises:
            AuditFailedError: A blocking audit found rows.
            ExecutionError: Spark failed.
        """
        assert model.snapshot_id is not None
        snapshot = self.tasks.plan.snapshots[model.snapshot_id]
        if model.records_only or not (model.builds or model.audits):
            return
        with self.slots.held():
            if model.table is None:
                slot = self.tasks.latest_slot(snapshot)
                self._auditor().audit(snapshot, None, slot, None, late=True)
                return
            table = self.warehouse.store.tables.get(model.table.id)
            branch = self.tasks.written.branches().get(table.id)
            there = table.intervals if model.audits else IntervalSet()
            for interval in _audited(snapshot, model.intervals | there):
                self._auditor().audit(snapshot, table, interval, branch, late=True)

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
        return Auditor(self.tasks, self.warehouse, self.emit, self.order)

    @property
    def _maker(self) -> TableMaker:
        return TableMaker(self.warehouse, self.tasks.written)

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
        left = target.take_over(self.tasks.plan.id, restate=model.again, outdated=outdated)
        if target.waits and left.commits:
            written.put_branch(table.id, target.branch)
        self._audit_rows_of_others(model, snapshot, target, left)
        missing = left_to_fill(snapshot, model.intervals, left.recorded)
        if missing and model.skippable and not model.restate and not left.commits:
            skipped = self._skip(snapshot, filler, target, table, missing)
            if skipped is not None:
                return skipped
        self.emit(ModelStarted(snapshot, table, missing))
        taken = recover(model, snapshot, target, left, missing, self._auditor())
        missing = left_to_fill(snapshot, missing, taken)
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
        batches = self._batches(snapshot, filler, table, missing)
        ranges = RangeFiller(self._auditor(), snapshot, filler, target, table, len(batches))
        most = min(
            meaning_of(snapshot.model.kind).batches_at_once(snapshot.model), self.slots.count
        )
        if most > 1:
            return self._fill_at_once(ranges, batches, most, anew)
        for number, batch in enumerate(batches):
            if self.stop.is_set():
                raise _cancelled(snapshot, batch)
            ranges.fill(batch, anew=anew and number == 0)
        return ranges.table

    def _batches(
        self, snapshot: Snapshot, filler: Snapshot, table: PhysicalTable, missing: IntervalSet
    ) -> list[Interval]:
        meaning = meaning_of(snapshot.model.kind)
        if meaning.is_cut_freely(snapshot.model):
            reads = self.tasks.tables_read(filler)
            start = (table.intervals | missing).ranges[0].start
            return cut_by_bytes(self.warehouse, reads, snapshot.cadence, missing, start)
        return list(snapshot.cadence.batches(missing, meaning.most_intervals(snapshot.model)))

    def _fill_at_once(
        self, ranges: RangeFiller, batches: list[Interval], most: int, anew: bool
    ) -> PhysicalTable:
        """Fill batches that need not wait for each other.

        Raises:
            ExecutionError: One of them failed, or the work was cancelled; of several that failed
                the first is raised and says which others did.
        """
        if anew:
            # What the table holds goes with the first of them.
            ranges.fill(batches[0], anew=True)
            batches = batches[1:]
        elif len(batches) > 1:
            ranges.make_table(batches[0])
        if len(batches) == 1:
            ranges.fill(batches[0])
            return ranges.table
        run = BatchRun(batches, ranges.fill_aside, most, self.slots, self.stop)
        left = run.run()
        if run.failed:
            first, *others = run.failed
            error = run.failed[first]
            if others and isinstance(error, VdeError):
                error.message += f" (so did {', '.join(map(str, others))})"
            raise error
        if left:
            raise _cancelled(ranges.snapshot, left[0])
        return ranges.table

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
            table = self._maker.create(filler, table, task, target.branches.lease).table
        for interval in missing:
            result = FillResult(rows=0, iceberg_snapshot_id=None, seconds=0.0)
            target.record(interval, result, self.tasks.made_without(table), last=True)
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

    def _extend(self, snapshot: Snapshot, table: PhysicalTable, lease: Lease) -> PhysicalTable:
        """Give a table of production's the columns that its new definition adds.

        Nobody sees them before the publication: views name their columns, and who fills the table
        by another definition leaves them NULL.
        """
        planned = extended(table, snapshot)
        if planned != table:
            task = self.tasks.fill(snapshot, planned, self.tasks.latest_slot(snapshot), None)
            columns, _ = self._maker.types(snapshot, task)
            table = add_columns(self.warehouse.lakehouse, table, snapshot, dict(columns), lease)
        self.tasks.written.put_table(table)
        return table


def _audited(snapshot: Snapshot, ranges: IntervalSet) -> Sequence[Interval]:
    """Return the ranges to audit: of a table that is made whole one of them stands for all."""
    return ranges.ranges if snapshot.is_incremental else ranges.ranges[-1:]


def _cancelled(snapshot: Snapshot, batch: Interval) -> ExecutionError:
    return ExecutionError(f"{snapshot.name}: cancelled before {batch}")
