"""Filling and auditing ranges of one table, and recovering those that a dead process wrote.

Ranges that follow each other are committed to the attempt's branch, audited there and recorded.
Ranges that are filled at the same time are written to a scratch branch each, audited there, and
then, one by one, brought to the attempt's branch (which takes no look at rows) and recorded. So
that branch has at most one commit that is not recorded, whichever way it was filled and whenever
a process dies; and a range that fails takes no other one with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vde_dagster.base.failures import SHOWN_ROWS, FailedAudit
from vde_dagster.errors import AuditFailedError, ExecutionError, VdeError
from vde_dagster.execution.apply.make_table import create_table
from vde_dagster.execution.apply.skipping import Looked, Skipping
from vde_dagster.execution.apply.table_branches import LeftOver, Target
from vde_dagster.execution.events import AuditFinished, Event, IntervalFilled
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.lakehouse.metadata.commit_summaries import scratch_branch
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.missing_intervals import left_to_fill
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.dag import AuditOrder
from vde_dagster.project.model import Audit

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


@dataclass(frozen=True, slots=True)
class Auditor:
    """Runs and records the audits of one plan's models; called from several threads."""

    tasks: PlanTasks
    emit: Callable[[Event], None]
    order: AuditOrder

    @property
    def handles(self) -> Handles:
        """The project whose plan is applied."""
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
            branch: The branch that has the range, or None for the table's own.
            late: Whether it is the turn of the late ones, see `AuditOrder`, and not of all others.

        Raises:
            AuditFailedError: A blocking audit found rows; the others have run all the same.
        """
        found: list[FailedAudit] = []

        def chosen(audit: Audit) -> bool:
            return self.order.is_late(snapshot.name, audit.reads) is late

        made = list(self.tasks.audits().of(snapshot, table, interval, branch, chosen))
        results = self.handles.engine().audit_all([task for _, task in made]) if made else ()
        for (audit, task), result in zip(made, results, strict=True):
            self.handles.store.audits.save(task, table.id if table else None, result)
            self.emit(AuditFinished(snapshot, table, audit, interval, result))
            if result.failed_rows and audit.blocking:
                sample = result.sample[:SHOWN_ROWS]
                found.append(FailedAudit(audit.label, result.failed_rows, sample))
        if found:
            failures = ", ".join(f"{one.audit} found {one.rows} rows" for one in found)
            raised = AuditFailedError(
                f"{snapshot.name}, {interval.text}: {failures}",
                hint="the failing rows are kept with the plan",
            )
            raised.audits = tuple(found)
            raise raised


@dataclass
class RangeFiller:
    """Fills ranges of one model's table, in the order of these methods.

    Args:
        filler: The definition that fills the table.
        table: The table, which has more columns and ranges after each fill.
        stop: Set when somebody stops the work.
        left: How many ranges are to be filled.
    """

    auditor: Auditor
    snapshot: Snapshot
    filler: Snapshot
    target: Target
    table: PhysicalTable
    stop: threading.Event
    left: int = 0
    _landing: threading.Lock = field(default_factory=threading.Lock)
    _unsure: bool = False

    def skip(self, missing: IntervalSet) -> bool:
        """Let slots count as filled when nothing that the model reads has changed; say so."""
        found = self._skipping.nothing_new(self.filler, self.table)
        if found is None:
            return False
        last, facts = found
        assert facts.skipped is not None
        result = FillResult(last.rows, facts.skipped.commit, None)
        for interval in missing:
            self.target.record_skipped(interval, last.rows, facts)
            self._tell(interval, result, skipped=facts.skipped)
        return True

    def recover(self, left: LeftOver, missing: IntervalSet, *, again: bool) -> IntervalSet:
        """Take over ranges that were committed but not recorded, after auditing them again.

        A process that died between Iceberg's commit and the state's leaves such ranges. Rows
        that are not asked for or fail a blocking audit are taken off the branch.

        Args:
            again: Whether the plan fills ranges that were filled before it.

        Returns:
            What is recorded as filled; a part of a unit may have gone on since (UTC).
        """
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
            # The table's id is never used again, so whoever's plan it was, the definition is ours.
            ours = fill.table_id == table.id and (
                fill.plan_id == tasks.plan.id or not (target.waits or again)
            )
            if not (ours and (missing - longer).contains(fill.interval)):
                break
            self._show()
            try:
                self.auditor.audit(self.snapshot, table, fill.interval, target.branch)
            except AuditFailedError:
                break
            taken = taken | IntervalSet((fill.interval,))
            result = FillResult(fill.rows, fill.iceberg_snapshot_id, None)
            # What it read and wrote died with the process: no later run may build on a guess of it.
            last = not left_to_fill(self.snapshot, missing, taken)
            target.record(fill.interval, result, tasks.made_without(table), last=last)
            self._show()
            self._tell(fill.interval, result, recovered=True)
            good = commit
        if left.commits and [*left.commits][-1] != good:
            target.reset(good)
            if good is None:
                tasks.written.drop_branch(table.id)
        return taken

    def record_empty(self, missing: IntervalSet) -> None:
        """Let ranges count as filled without rows."""
        if not self.table.created:
            slot = self.auditor.tasks.latest_slot(self.snapshot)
            self._make(self.auditor.tasks.fill(self.filler, self.table, slot, None))
        facts = self.auditor.tasks.made_without(self.table)
        for interval in missing:
            result = FillResult(rows=0, iceberg_snapshot_id=None, seconds=0.0)
            self.target.record(interval, result, facts, last=True)
            self._tell(interval, result)

    def make_table(self, interval: Interval) -> None:
        """Make the table before several ranges of it are filled, with the types of one of them."""
        if not self.table.created:
            self._make(self._task(interval, self.target.branch))

    def fill(self, interval: Interval, *, anew: bool = False) -> None:
        """Fill a range on the attempt's branch; `anew` replaces everything that the table holds."""
        with self._followed(interval):
            self._fill(interval, anew=anew)

    def _fill(self, interval: Interval, *, anew: bool = False) -> None:
        skipping = self._skipping
        looked = skipping.look(self.filler, self.table, anew=anew)
        anew = anew or looked.anew
        task = self._task(interval, self.target.branch, looked, anew=anew)
        if not self.table.created:
            task = self._make(task)
            if self.filler.model.reads_itself:  # The task of before reads a table without rows.
                task = self._task(interval, self.target.branch, anew=anew)
        result = self.auditor.handles.engine().fill(task)
        facts = skipping.facts(looked, result.output, self.table, interval)
        self.auditor.tasks.written.note_filled(self.table.id)
        self._show()
        self._computed(interval, result)
        self.auditor.audit(self.snapshot, self.table, interval, self.target.branch)
        self.left -= 1
        self.target.record(interval, result, facts, last=not self.left)
        self._recorded(interval, result)

    def fill_aside(self, interval: Interval) -> None:
        """Fill a range of a table that was made, at the same time as other threads fill others."""
        with self._followed(interval), self._scratch() as branch:
            skipping = self._skipping
            looked = skipping.look(self.filler, self.table)
            # The branch lacks what others land meanwhile: it does not say what the table holds.
            task = replace(
                self._task(interval, branch, looked), base=self.target.branch, completes=False
            )
            result = self.auditor.handles.engine().fill(task)
            facts = skipping.facts(looked, result.output, self.table, interval)
            self._computed(interval, result)
            self.auditor.audit(self.snapshot, self.table, interval, branch)
            with self._landed(interval):
                landed = self.auditor.handles.engine().cherry_pick(task, result)
                if landed is None:
                    # Files with rows of both this range and others: alone it can have them.
                    self._fill(interval)
                    return
                self.auditor.tasks.written.note_filled(self.table.id)
                self.left -= 1
                self.target.record(interval, landed, facts, last=not self.left)
                self._recorded(interval, landed)

    @contextmanager
    def _followed(self, interval: Interval) -> Iterator[None]:
        """Tell when the work on a range begins, and how it failed if it did."""
        self.target.note("begun", interval)
        try:
            yield
        except BaseException as error:
            said = getattr(error, "message", "") or str(error) or type(error).__name__
            # Where the state cannot be had, what failed is what is to be raised.
            with suppress(VdeError):
                self.target.note("broken", interval, error=said, stopped=self._is_stopped(error))
            raise

    def _is_stopped(self, error: BaseException) -> bool:
        return self.stop.is_set() or not isinstance(error, Exception)

    def _computed(self, interval: Interval, result: FillResult) -> None:
        """Tell that audits look at a range, where there are some."""
        if self.snapshot.model.audits:
            self.target.note("computed", interval, rows=result.rows, bytes=result.bytes)

    @contextmanager
    def _scratch(self) -> Iterator[str]:
        """Name a branch, and remove it; what a dead process leaves of it, the janitor removes."""
        branch = scratch_branch(self.target.own.plan_id)
        try:
            yield branch
        finally:
            with suppress(VdeError):
                self.target.drop(branch)

    @contextmanager
    def _landed(self, interval: Interval) -> Iterator[None]:
        """Let nobody else commit to the attempt's branch, and nobody build on what failed there."""
        with self._landing:
            if self._unsure:
                raise ExecutionError(
                    f"{self.snapshot.name}, {interval.text}: another batch failed while it was "
                    "recorded",
                    hint="apply the plan again: what was finished stays",
                )
            self._unsure = True
            yield
            self._unsure = False

    def _make(self, task: FillTask) -> FillTask:
        made = create_table(self.auditor.tasks, self.filler, task, self.target.lease)
        self.table = made.table
        return made

    def _task(
        self, interval: Interval, branch: str, looked: Looked | None = None, *, anew: bool = False
    ) -> FillTask:
        if looked is None:
            return self.auditor.tasks.fill(self.filler, self.table, interval, branch, anew=anew)
        return self.auditor.tasks.fill(
            *(self.filler, self.table, interval, branch),
            anew=anew,
            commits=looked.commits,
            pinned=looked.pinned,
            changed=looked.changed,
        )

    @property
    def _skipping(self) -> Skipping:
        return Skipping(self.auditor.tasks)

    def _show(self) -> None:
        """Let others read what waits for the publication."""
        if self.target.waits:
            self.auditor.tasks.written.put_branch(self.table.id, self.target.branch)

    def _recorded(self, interval: Interval, result: FillResult) -> None:
        self._show()
        if not self.target.waits:
            filled = self.table.intervals | IntervalSet((interval,))
            self.table = replace(self.table, intervals=filled)
        self._tell(interval, result)

    def _tell(
        self,
        interval: Interval,
        result: FillResult,
        *,
        recovered: bool = False,
        skipped: Skipped | None = None,
    ) -> None:
        event = IntervalFilled(self.snapshot, self.table, interval, result, recovered, skipped)
        self.auditor.emit(event)
