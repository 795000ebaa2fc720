"""Filling of a model's table: its missing ranges are written, audited and recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.execution.apply.batches import BatchRun, cut_by_bytes
from vde_dagster.execution.apply.fill_range import Auditor, RangeFiller
from vde_dagster.execution.apply.make_table import add_columns, analysed_types, create_table
from vde_dagster.execution.apply.table_branches import TableLeases, Target
from vde_dagster.execution.apply.worker_pool import Slots
from vde_dagster.execution.events import MemoryLacked, ModelFinished, ModelStarted
from vde_dagster.lakehouse.metadata.commit_summaries import BranchName
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.assign_tables import choose_filler, with_added_columns
from vde_dagster.planning.plan.missing_intervals import (
    add_lookback,
    audited_ranges,
    intervals_left_to_fill,
)
from vde_dagster.planning.plan.plan import PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.leases import Lease


@dataclass(slots=True)
class _BatchSize:
    # Maximum units per batch; None before memory was lacking.
    most: int | None = None
    # Batch being filled, or the batch that failed.
    current: Interval | None = None


@dataclass(frozen=True, slots=True)
class TableFiller(Auditor):
    """Fills and audits the tables of one plan's models. Several threads may call `fill`.

    Args:
        leases: Leases of published tables.
        attempt: Number of this attempt, a part of branch names (see `BranchName`).
    """

    # New rows of published tables wait for the publication.
    leases: TableLeases
    attempt: int
    stop: threading.Event
    slots: Slots

    def fill(self, model: PlannedModel) -> None:
        """Compute and audit the missing ranges of a model's table."""
        self._retry_with_less_memory(model, self._fill)

    def _retry_with_less_memory(
        self, model: PlannedModel, work: Callable[[PlannedModel, _BatchSize], None]
    ) -> None:
        # A retry runs no other model at the same time, and each batch has half as many units. It
        # continues from the recorded ranges. If the JVM crashed, any concurrent task may be the
        # cause, so a model fails only after it ran alone. If other applies share the engine, it
        # fails only after it ran alone twice.
        batches, alone, others = _BatchSize(), False, True
        while True:
            with self.slots.slot(alone=alone) as was_alone:
                try:
                    return work(model, batches)
                except VdeError as error:
                    if not error.lacks_memory or self.stop.is_set():
                        raise
                    half = self._half_units(model, batches.current)
                    if half is None and was_alone():
                        if not (error.by_others and others):
                            raise self._memory_error(model, batches.current, error) from error
                        others = False
                    batches.most, alone = half or batches.most, True
                    self.emit(MemoryLacked(model.name, batches.current, half, error.message))
                    batches.current = None

    def _half_units(self, model: PlannedModel, batch: Interval | None) -> int | None:
        snapshot = self.tasks.plan.snapshot_of(model)
        if batch is None or not meaning_of(snapshot.model.kind).is_cut_freely(snapshot.model):
            return None
        units = snapshot.cadence.unit.count(batch)
        return (units + 1) // 2 if units > 1 else None

    def _memory_error(
        self, model: PlannedModel, batch: Interval | None, error: VdeError
    ) -> ExecutionError:
        snapshot = self.tasks.plan.snapshot_of(model)
        what, hint = f"{model.name}, computed alone", error.hint
        if batch is not None and snapshot.is_incremental:
            units = snapshot.cadence.unit.count(batch)
            many = "one interval" if units == 1 else f"{units} intervals"
            what = f"{model.name}, {many} ({batch.text}), computed alone"
            if units > 1:
                hint = "set batch_size of the model" + (f", or {hint}" if hint else "")
        return ExecutionError(f"{what}: {error.message}", hint=hint)

    def _fill(self, model: PlannedModel, batches: _BatchSize) -> None:
        began = time.monotonic()
        snapshot, table = self.tasks.plan.snapshot_of(model), model.table
        if table is None:
            ranges = model.intervals.ranges or (self.tasks.latest_slot(snapshot),)
            self.audit(snapshot, None, ranges[-1], None)
        else:
            with self.leases.guard(table) as lease:
                table = self._fill_table(model, snapshot, table, lease, batches)
        if model.builds or model.audits:
            self.emit(ModelFinished(snapshot, table, time.monotonic() - began))

    def _fill_table(
        self,
        model: PlannedModel,
        snapshot: Snapshot,
        table: PhysicalTable,
        lease: Lease,
        batches: _BatchSize,
    ) -> PhysicalTable:
        table = self.handles.store.tables.get(table.id)
        if model.deploys:
            table = self._add_new_columns(snapshot, table, lease)
        if model.builds:
            table = self._fill_missing(model, snapshot, table, lease, batches)
        if not table.created:
            # Nothing to fill, but views and other models need the table.
            filler = self._choose_definition(snapshot, table)
            slot = self.tasks.latest_slot(snapshot)
            task = self.tasks.fill(filler, table, slot, None)
            table = create_table(self.tasks, filler, task, lease).table
        if model.audits:
            for interval in audited_ranges(snapshot, table.intervals - model.intervals):
                self.audit(snapshot, table, interval, None)
        return table

    def audit_late(self, model: PlannedModel) -> None:
        """Run a model's late audits, after all tables that they read are filled."""
        if not model.records_only and (model.builds or model.audits):
            self._retry_with_less_memory(model, self._audit_late)

    def _audit_late(self, model: PlannedModel, batches: _BatchSize) -> None:
        snapshot = self.tasks.plan.snapshot_of(model)
        if model.table is None:
            slot = self.tasks.latest_slot(snapshot)
            self.audit(snapshot, None, slot, None, late=True)
            return
        table = self.handles.store.tables.get(model.table.id)
        branch = self.tasks.written.branches.get(table.id)
        there = table.intervals if model.audits else IntervalSet()
        for interval in audited_ranges(snapshot, model.intervals | there):
            self.audit(snapshot, table, interval, branch, late=True)

    def change_layouts(self, models: Iterable[PlannedModel]) -> None:
        """Change the partitioning, sort order and properties of tables without rewriting rows."""
        for model in models:
            assert model.table is not None
            had = model.previous_snapshot_id or model.table.snapshot_id
            known = self.handles.store.snapshots.load([had, model.table.snapshot_id])
            previous = known.get(had) or known[model.table.snapshot_id]
            with self.leases.guard(model.table):
                snapshot = self.tasks.plan.snapshot_of(model)
                self.handles.engine().evolve_layout(model.table, snapshot, previous)

    def _target(self, filler: Snapshot, table: PhysicalTable, lease: Lease) -> Target:
        # If a model reads rows that wait for the publication, its own rows wait, too. Otherwise
        # rows that were computed from unpublished rows would remain if the plan is abandoned.
        waiting = self.tasks.written.branches
        waits = table.id in self.leases.held or self.tasks.reads(filler, waiting)
        own = BranchName(self.tasks.plan.id, self.attempt, shared=not waits)
        return Target(self.handles.lakehouse, table, lease, own, waits)

    def _fill_missing(
        self,
        model: PlannedModel,
        snapshot: Snapshot,
        table: PhysicalTable,
        lease: Lease,
        cut: _BatchSize,
    ) -> PhysicalTable:
        filler = self._choose_definition(snapshot, table)
        target = self._target(filler, table, lease)
        ranges = RangeFiller(self, snapshot, filler, target, table, self.stop)
        filled = self.tasks.written.filled
        # Ranges that this apply filled before memory ran out are up to date.
        outdated = target.waits and table.id not in filled and self.tasks.reads(filler, filled)
        left = target.take_over(snapshot.cadence.unit, restate=model.again, outdated=outdated)
        waiting = target.branch if target.waits and left.commits else None
        if waiting is not None:
            self.tasks.written.put_branch(table.id, waiting)
        if table.snapshot_id != snapshot.id:
            # Another model shares the table and only needs its own audits.
            for interval in model.intervals & left.recorded:
                self.audit(snapshot, table, interval, waiting)
        missing = intervals_left_to_fill(snapshot, model.intervals, left.recorded)
        skippable = model.skippable and not model.restate and not left.commits
        if missing and skippable and ranges.skip(missing):
            return table
        self.emit(ModelStarted(snapshot, table, missing))
        taken = ranges.recover(left, missing, again=model.again)
        missing = intervals_left_to_fill(snapshot, missing, taken)
        # A table reused in place keeps its rows, whichever ranges are refilled; a preview
        # without valid ranges starts over.
        kept = table.preview is not None and bool(table.available or not table.created)
        goes_on = model.in_place is not None or kept
        begins = not goes_on and not (left.recorded or taken)
        anew = snapshot.model.kind.restates_whole and begins
        missing = add_lookback(snapshot, missing, model.intervals)
        if not missing:
            return self.handles.store.tables.get(table.id)
        if model.records_only:
            ranges.record_empty(missing)
            return ranges.table
        batches = self._cut_batches(snapshot, filler, table, missing, cut.most)
        ranges.left = len(batches)
        at_once = meaning_of(snapshot.model.kind).batches_at_once(snapshot.model)
        most = min(at_once, self.slots.count)
        if most > 1 and not self.handles.engine().picks_commits:
            most = 1  # Each concurrent batch except the first would be computed twice.
        # The first range replaces all rows of the table.
        alone = int(anew) if most > 1 and len(batches) - anew > 1 else len(batches)
        for number, batch in enumerate(batches[:alone]):
            if self.stop.is_set():
                raise _canceled_error(snapshot, batch)
            cut.current = batch
            ranges.fill(batch, anew=anew and number == 0)
        if batches[alone:]:
            self._fill_in_parallel(ranges, batches[alone:], most, cut)
        cut.current = None
        return ranges.table

    def _cut_batches(
        self,
        snapshot: Snapshot,
        filler: Snapshot,
        table: PhysicalTable,
        missing: IntervalSet,
        most: int | None,
    ) -> list[Interval]:
        by_bytes = cut_by_bytes(
            self.handles, snapshot, table, missing, lambda: self.tasks.tables_read(filler)
        )
        if by_bytes is not None:
            cut = (snapshot.cadence.batches(IntervalSet((one,)), most) for one in by_bytes[0])
            return [batch for batches in cut for batch in batches]
        limit = meaning_of(snapshot.model.kind).most_intervals(snapshot.model)
        sizes = [size for size in (limit, most) if size is not None]
        return snapshot.cadence.batches(missing, min(sizes, default=None))

    def _fill_in_parallel(
        self, ranges: RangeFiller, batches: list[Interval], most: int, cut: _BatchSize
    ) -> None:
        cut.current = batches[0]
        ranges.make_table(batches[0])
        run = BatchRun(batches, ranges.fill_on_scratch_branch, most, self.slots, self.stop)
        left = run.run()
        if run.failed:
            # A batch that lacked memory may have caused other failures.
            lacking = (one for one, e in run.failed.items() if getattr(e, "lacks_memory", False))
            first = next(lacking, next(iter(run.failed)))
            others = [one for one in run.failed if one != first]
            error, cut.current = run.failed[first], first
            if others and isinstance(error, VdeError):
                error.message += f" (also failed: {', '.join(map(str, others))})"
            raise error
        if left:
            raise _canceled_error(ranges.snapshot, left[0])

    def _choose_definition(self, snapshot: Snapshot, table: PhysicalTable) -> Snapshot:
        plan = self.tasks.plan
        definition = plan.snapshots.get(table.snapshot_id)
        if definition is None:
            # An unreadable definition is treated like a deleted one.
            stored = self.handles.store.snapshots.load([table.snapshot_id], None, set())
            definition = stored.get(table.snapshot_id)
        found = choose_filler(table, snapshot, definition, plan.target)
        if found is None:
            raise ExecutionError(
                f"{snapshot.name}: {table.ref} can no longer be filled: no kept definition "
                "computes all of its columns",
                hint=f"plan again: vde plan {plan.environment}",
            )
        return found

    def _add_new_columns(
        self, snapshot: Snapshot, table: PhysicalTable, lease: Lease
    ) -> PhysicalTable:
        # The columns are invisible before the publication, because views name their columns. Fills
        # by another definition leave the columns NULL.
        planned = with_added_columns(table, snapshot)
        if planned != table:
            # A query that reads its own table is analyzed over one without rows: the table lacks
            # the columns until they are added here.
            analyzed = replace(planned, created=False) if snapshot.model.reads_itself else planned
            task = self.tasks.fill(snapshot, analyzed, self.tasks.latest_slot(snapshot), None)
            columns, _ = analysed_types(self.handles, snapshot, task)
            table = add_columns(self.handles.lakehouse, table, snapshot, dict(columns), lease)
        self.tasks.written.put_table(table)
        return table


def _canceled_error(snapshot: Snapshot, batch: Interval) -> ExecutionError:
    return ExecutionError(f"{snapshot.name}: canceled before {batch}")
