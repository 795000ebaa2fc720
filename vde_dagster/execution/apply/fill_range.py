"""Filling and auditing of ranges of one table, and recovery of ranges of a dead process.

Every attempt of a plan has a branch of the table. Ranges that are filled one after the other are
committed to this branch, audited there and recorded. Ranges that are filled concurrently are each
written to a scratch branch and audited there, then moved to the attempt's branch one by one
(without reading rows) and recorded. So the attempt's branch never has more than one unrecorded
commit, even after a process dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vde_dagster.base.failures import SHOWN_ROWS, FailedAudit
from vde_dagster.base.texts import count
from vde_dagster.errors import AuditFailedError, ExecutionError, VdeError
from vde_dagster.execution.apply.make_table import create_table
from vde_dagster.execution.apply.skipping import FillInputs, SkipDecisions
from vde_dagster.execution.apply.small_fills import is_small
from vde_dagster.execution.apply.table_branches import LeftoverCommits, Target
from vde_dagster.execution.events import AuditFinished, Event, IntervalFilled
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.lakehouse.metadata.commit_summaries import scratch_branch
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import intervals_left_to_fill
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.dag import AuditOrder
from vde_dagster.project.model import Audit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


@dataclass(frozen=True, slots=True)
class Auditor:
    """Runs the audits of one plan's models, and stores their results. Threads may share it."""

    tasks: PlanTasks
    emit: Callable[[Event], None]
    order: AuditOrder

    @property
    def handles(self) -> Handles:
        return self.tasks.handles

    def audit(
        self,
        snapshot: Snapshot,
        table: PhysicalTable | None,
        interval: Interval,
        branch: str | None,
        *,
        late: bool = False,
    ) -> None:
        """Run a model's audits on one range of its table, or on the query of a view.

        Args:
            branch: The Iceberg branch with the range, or None for the branch of `table`.
            late: Whether to run the late audits, see `AuditOrder`, instead of the other audits.

        Raises:
            AuditFailedError: A blocking audit found rows.
        """
        found: list[FailedAudit] = []

        def chosen(audit: Audit) -> bool:
            return self.order.is_late(snapshot.name, audit.reads) is late

        made = list(self.tasks.audits().create(snapshot, table, interval, branch, chosen))
        results = self.handles.engine().audit_all([task for _, task in made]) if made else ()
        for (audit, task), result in zip(made, results, strict=True):
            self.handles.store.audits.save(task, table.id if table else None, result)
            self.emit(AuditFinished(snapshot, table, audit, interval, result))
            if result.failed_rows and audit.blocking:
                sample = result.sample[:SHOWN_ROWS]
                found.append(FailedAudit(audit.label, result.failed_rows, sample))
        if found:
            failures = ", ".join(f"{one.audit} found {count(one.rows, 'row')}" for one in found)
            raised = AuditFailedError(
                f"{snapshot.name}, {interval.text}: {failures}",
                hint="a sample of the failing rows is stored with the plan",
            )
            raised.audits = tuple(found)
            raise raised


@dataclass
class RangeFiller:
    """Fills ranges of one model's table. Call `make_table` before `fill_on_scratch_branch`.

    Args:
        filler: The model definition whose query computes the rows.
        table: The table. This value is replaced when the table is created, and after each fill that
            readers see at once.
        left: Number of ranges that remain to be filled.
    """

    auditor: Auditor
    snapshot: Snapshot
    filler: Snapshot
    target: Target
    table: PhysicalTable
    stop: threading.Event
    left: int = 0
    _branch_lock: threading.Lock = field(default_factory=threading.Lock)
    _is_recording: bool = False

    def skip(self, missing: IntervalSet) -> bool:
        """Record ranges as filled if the fill can be skipped. Returns whether it was skipped."""
        found = self._skipping.find_skip(self.filler, self.table)
        if found is None:
            return False
        last, facts = found
        assert facts.skipped is not None
        result = FillResult(last.rows, facts.skipped.commit, None)
        for interval in missing:
            self.target.record_skipped_range(interval, last.rows, facts)
            self._emit_filled(interval, result, skipped=facts.skipped)
        return True

    def recover(self, left: LeftoverCommits, missing: IntervalSet, *, again: bool) -> IntervalSet:
        """Audit and record ranges that a dead process committed to the branch but did not record.

        Returns the recorded ranges (UTC).

        Args:
            again: Whether the plan fills ranges again that were filled before the plan.
        """
        # A process that died between Iceberg's commit and the state's commit leaves such ranges.
        # Rows that are not needed, or fail a blocking audit, are removed from the branch.
        tasks, target, table = self.auditor.tasks, self.target, self.target.table
        longer = table.parts_of_longer(self.snapshot.cadence.unit)
        taken = IntervalSet()
        good: int | None = None
        for commit, fill in left.commits.items():
            if commit in left.snapshot_ids:
                good = commit
                continue
            if fill is None:
                continue
            # A table's id is unique, so any earlier plan used the same definition.
            ours = fill.table_id == table.id and (
                fill.plan_id == tasks.plan.id or not (target.waits or again)
            )
            # Statements after the query may not have run: the fill is repeated with them.
            repeated = bool(self.filler.model.post_statements)
            if repeated or not (ours and (missing - longer).contains(fill.interval)):
                break
            self._expose_branch()
            try:
                self.auditor.audit(self.snapshot, table, fill.interval, target.branch)
            except AuditFailedError:
                break
            taken = taken | IntervalSet((fill.interval,))
            result = FillResult(fill.rows, fill.iceberg_snapshot_id, None)
            # The dead process's inputs and output are unknown: later runs must not rely on them.
            last = not intervals_left_to_fill(self.snapshot, missing, taken)
            target.record(fill.interval, result, tasks.facts_without_inputs(table), last=last)
            self._expose_branch()
            self._emit_filled(fill.interval, result, recovered=True)
            good = commit
        if left.commits and [*left.commits][-1] != good:
            target.reset(good)
            if good is None:
                tasks.written.drop_branch(table.id)
        return taken

    def record_empty(self, missing: IntervalSet) -> None:
        """Record ranges as filled without rows, and create the table if it does not exist."""
        if not self.table.created:
            slot = self.auditor.tasks.latest_slot(self.snapshot)
            self._create_table(self.auditor.tasks.fill(self.filler, self.table, slot, None))
        facts = self.auditor.tasks.facts_without_inputs(self.table)
        for interval in missing:
            result = FillResult(rows=0, iceberg_snapshot_id=None, seconds=0.0)
            self.target.record(interval, result, facts, last=True)
            self._emit_filled(interval, result)

    def make_table(self, interval: Interval) -> None:
        """Create the table if it does not exist, with the output columns of the query."""
        if not self.table.created:
            self._create_table(self._task(interval, self.target.branch))

    def fill(self, interval: Interval, *, anew: bool = False) -> None:
        """Compute and audit a range on the attempt's branch.

        Args:
            anew: Whether the fill replaces all rows of the table.
        """
        with self._reporting_failure(interval):
            self._fill(interval, anew=anew)

    def _fill(self, interval: Interval, *, anew: bool = False) -> None:
        skipping = self._skipping
        inputs = skipping.read_inputs(self.filler, self.table, anew=anew)
        anew = anew or inputs.anew
        task = self._task(interval, self.target.branch, inputs, anew=anew)
        if not self.table.created:
            task = self._create_table(task)
            if self.filler.model.reads_itself:  # The earlier task reads a table without rows.
                task = self._task(interval, self.target.branch, anew=anew)
        result = self.auditor.handles.engine().fill(task)
        facts = skipping.facts(inputs, result, self.table, interval)
        self.auditor.tasks.written.note_filled(self.table.id)
        self._expose_branch()
        self._report_audits(interval, result)
        self.auditor.audit(self.snapshot, self.table, interval, self.target.branch)
        self.left -= 1
        self.target.record(interval, result, facts, last=not self.left)
        self._report_recorded(interval, result, facts.refresh)

    def fill_on_scratch_branch(self, interval: Interval) -> None:
        """Compute and audit a range on a scratch branch, while other threads fill other ranges."""
        with self._reporting_failure(interval), self._scratch() as branch:
            skipping = self._skipping
            inputs = skipping.read_inputs(self.filler, self.table)
            # The scratch branch lacks concurrent ranges, so its content is not the table's.
            task = replace(
                self._task(interval, branch, inputs), base=self.target.branch, completes=False
            )
            result = self.auditor.handles.engine().fill(task)
            facts = skipping.facts(inputs, result, self.table, interval)
            self._report_audits(interval, result)
            self.auditor.audit(self.snapshot, self.table, interval, branch)
            with self._lock_branch(interval):
                landed = self.auditor.handles.engine().cherry_pick(task, result)
                if landed is None:
                    # Files mix rows of this range and others: fill this range alone.
                    self._fill(interval)
                    return
                self.auditor.tasks.written.note_filled(self.table.id)
                self.left -= 1
                self.target.record(interval, landed, facts, last=not self.left)
                self._report_recorded(interval, landed, facts.refresh)

    @contextmanager
    def _reporting_failure(self, interval: Interval) -> Iterator[None]:
        self.target.note("begun", interval)
        try:
            yield
        except BaseException as error:
            error_message = getattr(error, "message", "") or str(error) or type(error).__name__
            # If the state is unavailable, the original error must be raised.
            with suppress(VdeError):
                stopped = self.stop.is_set() or not isinstance(error, Exception)
                self.target.note("broken", interval, error=error_message, stopped=stopped)
            raise

    def _report_audits(self, interval: Interval, result: FillResult) -> None:
        if self.snapshot.model.audits:
            self.target.note("computed", interval, rows=result.rows, bytes=result.bytes)

    @contextmanager
    def _scratch(self) -> Iterator[str]:
        # The janitor removes leftovers.
        branch = scratch_branch(self.target.own.plan_id)
        try:
            yield branch
        finally:
            with suppress(VdeError):
                self.target.drop(branch)

    @contextmanager
    def _lock_branch(self, interval: Interval) -> Iterator[None]:
        with self._branch_lock:  # Batches of other threads wait.
            if self._is_recording:
                raise ExecutionError(
                    f"{self.snapshot.name}: {interval.text} was not committed, because the "
                    "commit of another batch failed",
                    hint="completed ranges are kept; apply the plan again: vde apply ENV --plan "
                    f"{self.target.own.plan_id}",
                )
            self._is_recording = True
            yield
            self._is_recording = False

    def _create_table(self, task: FillTask) -> FillTask:
        made = create_table(self.auditor.tasks, self.filler, task, self.target.lease)
        self.table = made.table
        return made

    def _task(
        self,
        interval: Interval,
        branch: str,
        inputs: FillInputs | None = None,
        *,
        anew: bool = False,
    ) -> FillTask:
        if inputs is None:
            return self.auditor.tasks.fill(self.filler, self.table, interval, branch, anew=anew)
        task = self.auditor.tasks.fill(
            *(self.filler, self.table, interval, branch),
            anew=anew,
            commits=inputs.commits,
            pinned=inputs.pinned,
            changed=inputs.changed,
        )
        return replace(task, is_small=is_small(self.auditor.handles.lakehouse, task, inputs))

    @property
    def _skipping(self) -> SkipDecisions:
        return SkipDecisions(self.auditor.tasks)

    def _expose_branch(self) -> None:
        if self.target.waits:
            self.auditor.tasks.written.put_branch(self.table.id, self.target.branch)

    def _report_recorded(
        self, interval: Interval, result: FillResult, refresh: Refresh | None
    ) -> None:
        self._expose_branch()
        if not self.target.waits:
            filled = self.table.intervals | IntervalSet((interval,))
            self.table = replace(self.table, intervals=filled)
        self._emit_filled(interval, result, refresh=refresh)

    def _emit_filled(
        self,
        interval: Interval,
        result: FillResult,
        *,
        recovered: bool = False,
        skipped: Skipped | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        filled = IntervalFilled(self.snapshot, self.table, interval, result, recovered, skipped)
        self.auditor.emit(replace(filled, refresh=refresh))
