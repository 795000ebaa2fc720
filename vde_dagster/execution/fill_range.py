"""Filling ranges of one table: write, audit, record; one after the other, or several at a time.

Ranges that follow each other are committed to the attempt's branch, audited there and recorded.
Ranges that are filled at the same time are written to a scratch branch each, audited there, and
then, one by one, brought to the attempt's branch (which takes no look at rows) and recorded. So
that branch has at most one commit that is not recorded, whichever way it was filled and whenever
a process dies; and a range that fails takes no other one with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.execution.audit_table import Auditor
from vde_dagster.execution.events import IntervalFilled
from vde_dagster.execution.make_table import TableMaker
from vde_dagster.execution.skipping import Looked, Skipping
from vde_dagster.execution.target import Target
from vde_dagster.lakehouse.branch_names import scratch_branch
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import FillResult, FillTask


@dataclass
class RangeFiller:
    """Fills ranges of one model's table.

    Args:
        auditor: Audits them; knows the plan and the warehouse.
        snapshot: The model.
        filler: The definition that fills the table.
        target: Where it is written.
        table: The table, which has more columns and ranges after each fill.
        left: How many ranges are to be filled.
    """

    auditor: Auditor
    snapshot: Snapshot
    filler: Snapshot
    target: Target
    table: PhysicalTable
    left: int
    _landing: threading.Lock = field(default_factory=threading.Lock)
    _unsure: bool = False

    def make_table(self, interval: Interval) -> None:
        """Make the table before several ranges of it are filled, with the types of one of them."""
        if not self.table.created:
            self._make(self._task(interval, self.target.branch))

    def fill(self, interval: Interval, *, anew: bool = False) -> None:
        """Fill a range on the attempt's branch.

        Args:
            interval: The range (UTC).
            anew: Whether it replaces everything that the table holds.

        Raises:
            AuditFailedError: A blocking audit found rows.
            ExecutionError: Spark failed, or the plan was cancelled.
        """
        skipping = self._skipping
        looked = skipping.look(self.filler, self.table, anew=anew)
        anew = anew or looked.anew
        task = self._task(interval, self.target.branch, looked, anew=anew)
        if not self.table.created:
            task = self._make(task)
            if self.filler.model.reads_itself:  # The task of before reads a table without rows.
                task = self._task(interval, self.target.branch, anew=anew)
        result = self.auditor.warehouse.engine().fill(task)
        facts = skipping.facts(looked, result.output, self.table, interval)
        self.auditor.tasks.written.note_filled(self.table.id)
        self._show()
        self.auditor.audit(self.snapshot, self.table, interval, self.target.branch)
        self.left -= 1
        self.target.record(interval, result, facts, last=not self.left)
        self._recorded(interval, result)

    def fill_aside(self, interval: Interval) -> None:
        """Fill a range of a table that was made, at the same time as other threads fill others.

        Raises:
            AuditFailedError: A blocking audit found rows; nothing of it is on the attempt's branch.
            ExecutionError: Spark failed, or the plan was cancelled.
        """
        with self._scratch() as branch:
            skipping = self._skipping
            looked = skipping.look(self.filler, self.table)
            # The branch lacks what others land meanwhile: it does not say what the table holds.
            task = replace(
                self._task(interval, branch, looked), base=self.target.branch, completes=False
            )
            result = self.auditor.warehouse.engine().fill(task)
            facts = skipping.facts(looked, result.output, self.table, interval)
            self.auditor.audit(self.snapshot, self.table, interval, branch)
            with self._landed(interval):
                landed = self.auditor.warehouse.engine().cherry_pick(task, result)
                if landed is None:
                    # Files with rows of both this range and others: alone it can have them.
                    self.fill(interval)
                    return
                self.auditor.tasks.written.note_filled(self.table.id)
                self.left -= 1
                self.target.record(interval, landed, facts, last=not self.left)
                self._recorded(interval, landed)

    @contextmanager
    def _scratch(self) -> Iterator[str]:
        """Name a branch, and remove it; what a dead process leaves of it, the janitor removes."""
        branch = scratch_branch(self.target.own.plan_id)
        try:
            yield branch
        finally:
            with suppress(VdeError):
                self.target.branches.drop(branch)

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
        maker = TableMaker(self.auditor.warehouse, self.auditor.tasks.written)
        made = maker.create(self.filler, self.table, task, self.target.branches.lease)
        self.table = made.table
        return made

    def _task(
        self, interval: Interval, branch: str, looked: Looked | None = None, *, anew: bool = False
    ) -> FillTask:
        tasks = self.auditor.tasks
        if looked is None:
            return tasks.fill(self.filler, self.table, interval, branch, anew=anew)
        return tasks.fill(
            self.filler, self.table, interval, branch, anew=anew, commits=looked.commits
        )

    @property
    def _skipping(self) -> Skipping:
        return Skipping(self.auditor.tasks, self.auditor.warehouse)

    def _show(self) -> None:
        if self.target.waits:
            self.auditor.tasks.written.put_branch(self.table.id, self.target.branch)

    def _recorded(self, interval: Interval, result: FillResult) -> None:
        self._show()
        if not self.target.waits:
            filled = self.table.intervals | IntervalSet((interval,))
            self.table = replace(self.table, intervals=filled)
        self.auditor.emit(IntervalFilled(self.snapshot, self.table, interval, result, False))
