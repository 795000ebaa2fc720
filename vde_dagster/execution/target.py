"""Where one attempt writes one table, and how what it wrote is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from vde_dagster.execution.table_branches import BranchCommit, TableBranches
from vde_dagster.lakehouse.branch_names import BranchName
from vde_dagster.planning.contents import FillFacts
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import FillResult
from vde_dagster.state.pending import PendingInterval
from vde_dagster.state.table_commits import TableShownError, forget_pending, record_pending


@dataclass(frozen=True, slots=True)
class LeftOver:
    """What earlier attempts left of a table.

    Args:
        recorded: What need not be filled again (UTC).
        snapshot_ids: The commits on our branch that hold recorded ranges.
        commits: All commits on our branch beyond `main`, oldest first.
    """

    recorded: IntervalSet
    snapshot_ids: frozenset[int]
    commits: tuple[BranchCommit, ...]


@dataclass(slots=True)
class Target:
    """Where one attempt writes one table.

    Args:
        branches: The table's branches, as the holder of its lease changes them.
        own: The branch of this attempt.
        waits: Whether the rows become visible with the plan's publication only; so does what is
            written after somebody else has published the table.
    """

    branches: TableBranches
    own: BranchName
    waits: bool

    @property
    def table(self) -> PhysicalTable:
        """The table as it was when the attempt came to it."""
        return self.branches.table

    @property
    def branch(self) -> str:
        """The name of the branch of this attempt."""
        return str(self.own)

    def take_over(self, plan_id: str, *, restate: bool, outdated: bool) -> LeftOver:
        """Continue where earlier attempts left off, of what can still be told to be whole.

        Args:
            plan_id: The plan.
            restate: Whether ranges are filled again that were filled before the plan.
            outdated: Whether what the plan has computed was computed from rows that are gone.
        """
        store, table = self.branches.lakehouse.store, self.table
        if not table.created:
            return LeftOver(table.intervals, frozenset(), ())
        if self.branches.lakehouse.recover():
            table = store.tables.get(table.id)
        pending = [i for i in store.pending.of_plan(plan_id) if i.table_id == table.id]
        commits = self.branches.take_over(self.own, self.waits)
        ids = {item.iceberg_snapshot_id for item in pending} - {None}
        whole = self.waits and ids <= {commit.snapshot_id for commit in commits}
        # What is not recorded may have been made of rows that were restated since.
        stale = bool(commits or pending) and self._has_stale(plan_id)
        if outdated or stale or (pending and not whole):
            # What was recorded is not all there: nothing of it can be built upon.
            if pending:
                self._forget(pending)
            if commits and (self.waits or stale):
                self.reset(None)
                commits = ()
            pending = []
        filled = table.intervals
        if restate:
            ours = (row for row in store.fills.log(table.id) if row.plan_id == plan_id)
            filled = IntervalSet.of(Interval(row.start_at, row.end_at) for row in ours)
        recorded = filled | IntervalSet.of(item.interval for item in pending)
        known = frozenset(i.iceberg_snapshot_id for i in pending if i.iceberg_snapshot_id)
        return LeftOver(recorded, known, commits)

    def _has_stale(self, plan_id: str) -> bool:
        """Say whether commits on our branch may be older than what they are made of."""
        store = self.branches.lakehouse.store
        since = store.outdated.since(self.table.id)
        if since is None:
            return False
        record = store.plans.record(plan_id)
        # A branch that waits has our plan's commits alone, any other may have older ones.
        return not self.waits or record is None or since >= record.created_at

    def reset(self, snapshot_id: int | None) -> None:
        """Take the last commits off our branch; without one to go back to, remove it."""
        self.branches.reset(self.own, snapshot_id)

    def record(
        self, interval: Interval, result: FillResult, facts: FillFacts | None = None, *, last: bool
    ) -> None:
        """Record a filled and audited range: for the publication, or by moving `main` to it.

        Args:
            interval: The range (UTC).
            result: The commit on our branch that holds it.
            facts: What the fill read and wrote, when known.
            last: Whether the attempt writes nothing more to the table.

        Raises:
            LeaseLostError: Somebody else works on the table now.
        """
        if not self.waits:
            try:
                return self.branches.advance(self.own, interval, result, facts, last=last)
            except TableShownError:
                self.waits = True
        waiting = PendingInterval(
            plan_id=self.own.plan_id,
            table_id=self.table.id,
            branch=self.branch,
            interval=interval,
            iceberg_snapshot_id=result.iceberg_snapshot_id,
            rows=result.rows,
            bytes=result.bytes,
            seconds=result.seconds,
            facts=facts,
        )
        record_pending(self.branches.lakehouse.store, self.branches.lease, waiting)

    def record_skipped(self, interval: Interval, rows: int | None, facts: FillFacts) -> None:
        """Record that a slot counts as filled with the publication, though nothing was computed.

        Args:
            interval: The slot (UTC).
            rows: The rows that the table has.
            facts: What the skip remembers; they say whose rows those are.

        Raises:
            LeaseLostError: Somebody else works on the table now.
        """
        waiting = PendingInterval(
            self.own.plan_id, self.table.id, "", interval, None, rows, facts=facts
        )
        record_pending(self.branches.lakehouse.store, self.branches.lease, waiting)

    def _forget(self, pending: list[PendingInterval]) -> None:
        branches = self.branches
        store, plan_id = branches.lakehouse.store, pending[0].plan_id
        forget_pending(store, branches.lease, plan_id, self.table.id)
