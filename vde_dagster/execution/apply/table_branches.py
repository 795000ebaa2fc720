"""Branch and lease of one attempt to write a table, and moves of `main`.

Engines write to a branch that belongs to one attempt of one plan, because Iceberg does not check
leases: a writer that stalls until its lease expires must not commit to a published table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import (
    Updates,
    fast_forward,
    remove_branches,
    set_branch,
)
from vde_dagster.lakehouse.metadata.commit_summaries import (
    BranchName,
    CommittedFill,
    committed_fills,
    parse_branch,
)
from vde_dagster.lakehouse.metadata.table_metadata import ancestors, head_of, history
from vde_dagster.lakehouse.publishing.commit import Change, change_at_last
from vde_dagster.planning.engine_tasks import FillResult
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.table_contents import FillFacts
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.leases import Lease, LeaseOwner, table_lease
from vde_dagster.state.fills.fills import FillRecord, Progress
from vde_dagster.state.store import StateStore
from vde_dagster.state.table_commits import TableCommit, TableShownError

Commits = dict[int, CommittedFill | None]
"""Commits of a branch after `main`, oldest first, with the range that each filled."""


@dataclass(frozen=True, slots=True)
class LeftoverCommits:
    """Commits that earlier attempts left on branches of a table.

    Args:
        recorded: Ranges that need not be filled again (UTC).
        snapshot_ids: Commits on the attempt's branch whose ranges are recorded.
        commits: All commits on the attempt's branch.
    """

    recorded: IntervalSet
    snapshot_ids: frozenset[int]
    commits: Commits


@dataclass(slots=True)
class Target:
    """A table, and the branch that one attempt writes while the attempt has the table's lease.

    Args:
        table: The table at the beginning of the attempt.
        waits: Whether readers see the rows only after the plan is published.
    """

    lakehouse: Lakehouse
    table: PhysicalTable
    lease: Lease
    own: BranchName
    # This is also true if another process has published the table since the attempt began.
    waits: bool

    @property
    def branch(self) -> str:
        return str(self.own)

    def take_over(self, unit: IntervalUnit, *, restate: bool, outdated: bool) -> LeftoverCommits:
        """Move an earlier attempt's valid commits to this branch; drop the plan's other branches.

        Args:
            restate: Whether the plan fills ranges again that were filled before.
            outdated: Whether inputs have changed since earlier attempts read them.
        """
        store, table, plan_id = self.lakehouse.store, self.table, self.own.plan_id
        if not table.created:
            return LeftoverCommits(table.intervals, frozenset(), {})
        if self.lakehouse.recover():
            table = store.tables.get(table.id)
        pending = store.pending.for_plan(plan_id, table_id=table.id)
        commits = self._take_branch()
        ids = {item.iceberg_snapshot_id for item in pending} - {None}
        whole = self.waits and ids <= commits.keys()
        # Unrecorded ranges may have been computed from rows that were restated since.
        stale = bool(commits or pending) and self._may_be_outdated()
        if outdated or stale or (pending and not whole):
            # Recorded commits are missing: the branch cannot be continued.
            if pending:
                store.pending.forget(self.lease, plan_id, table.id)
            if commits and (self.waits or stale):
                self.reset(None)
                commits = {}
            pending = []
        filled = table.intervals
        if restate:
            filled = IntervalSet.of(one.interval for one in store.fills.log(table.id, plan_id))
        recorded = filled | IntervalSet.of(item.interval for item in pending)
        recorded -= table.parts_of_longer(unit)
        known = frozenset(i.iceberg_snapshot_id for i in pending if i.iceberg_snapshot_id)
        return LeftoverCommits(recorded, known, commits)

    def _may_be_outdated(self) -> bool:
        store = self.lakehouse.store
        since = store.outdated.latest_time(self.table.id)  # A restatement of the inputs.
        if since is None:
            return False
        record = store.plans.record(self.own.plan_id)
        # A waiting branch has only commits of our plan; other branches may have older commits.
        return not self.waits or record is None or since >= record.created_at

    def _take_branch(self) -> Commits:
        # For a table that waits for the plan's publication, only attempts of the same plan count.
        own, base = self.own, self.table.branch
        metadata = self.lakehouse.table_metadata(self.table.ref)
        main = head_of(metadata, base)
        branches = {
            name: parsed
            for name in metadata.get("refs", {})
            if (parsed := parse_branch(name)) is not None
        }
        usable = [
            name
            for name, parsed in branches.items()
            if (parsed.plan_id == own.plan_id if self.waits else parsed.shared)
            and (main is None or main in ancestors(metadata, head_of(metadata, name)))
            and (beyond := _commits_after_main(metadata, base, name))
            # Branches of previews are in the same table, but not ours.
            and all(one is None or one.table_id == self.table.id for one in beyond.values())
        ]

        def order(name: str) -> tuple[bool, int, int]:
            # The same plan's branches come last. The others are sorted by the time of the last
            # commit.
            head = next(history(metadata, head_of(metadata, name)))
            parsed = branches[name]
            return parsed.plan_id == own.plan_id, int(head["timestamp-ms"]), parsed.attempt

        source = max(usable, key=order, default=None)
        stale = {name for name, parsed in branches.items() if parsed.plan_id == own.plan_id}
        if source is None and not stale:
            return {}
        if stale == {source} == {self.branch}:
            return _commits_after_main(metadata, base, self.branch)

        def change(now: dict[str, Any]) -> Updates:
            if source is None:
                return remove_branches(now, sorted(stale))
            head = head_of(now, source)
            if head is None:
                raise ConflictError(
                    f"the branch '{source}' of {self.table.ref} has just been removed",
                    hint=f"apply the plan again: vde apply ENV --plan {own.plan_id}",
                )
            ended = sorted({*stale, source} - {self.branch})
            return (*set_branch(now, self.branch, head), *remove_branches(now, ended))

        return _commits_after_main(self._change(change, "fill.take_over"), base, self.branch)

    def drop(self, name: str) -> None:
        self._change(lambda now: remove_branches(now, [name]), "fill.drop_scratch")

    def reset(self, snapshot_id: int | None) -> None:
        """Move the attempt's branch back to an Iceberg snapshot; None removes the branch."""

        def change(now: dict[str, Any]) -> Updates:
            if snapshot_id is None or head_of(now, self.branch) is None:
                return remove_branches(now, [self.branch])
            return set_branch(now, self.branch, snapshot_id)

        self._change(change, "fill.reset")

    def record(
        self, interval: Interval, result: FillResult, facts: FillFacts | None = None, *, last: bool
    ) -> None:
        """Record a filled and audited range.

        The range stays pending if its rows wait for a publication. Otherwise, the same transaction
        moves `main` to the commit.

        Args:
            result: The commit on the attempt's branch with the range.
            last: Whether the attempt writes nothing more to the table.
        """
        filled = FillRecord(
            self.table.id,
            interval,
            self.own.plan_id,
            result.iceberg_snapshot_id,
            result.rows,
            result.bytes,
            result.seconds,
            facts or FillFacts(),
            self.branch,
            task_seconds=result.task_seconds,
            bytes_read=result.bytes_read,
        )
        if not self.waits:
            try:
                return self._advance_main(filled, last)
            except TableShownError:
                self.waits = True
        self.lakehouse.store.pending.record(filled, self.lease)

    def _advance_main(self, filled: FillRecord, last: bool) -> None:
        """Move `main` to a commit of the branch and record the commit's range in one transaction.

        Raises TableShownError if an environment has published the table meanwhile.
        """
        commit, into = filled.iceberg_snapshot_id, self.table.branch

        def change(now: dict[str, Any]) -> Updates:
            if head_of(now, self.branch) is None or commit is None:
                return ()
            ref = str(self.table.ref)
            return fast_forward(now, self.branch, ref, into=into, to=commit, ends=last)

        self._change(change, "fill.advance", filled)

    def note(self, kind: Progress, interval: Interval, **more: Any) -> None:
        """Record for observers that the fill of a range began, computed its rows, or failed."""
        attempt = FillRecord(self.table.id, interval, self.own.plan_id, branch=self.branch)
        self.lakehouse.store.fills.note(kind, attempt, **more)

    def record_skipped_range(self, interval: Interval, rows: int | None, facts: FillFacts) -> None:
        """Record that a range needs no new rows, so that the publication counts it as filled."""
        waiting = FillRecord(self.table.id, interval, self.own.plan_id, rows=rows, facts=facts)
        self.lakehouse.store.pending.record(waiting, self.lease)

    def _change(
        self, change: Change, name: str, filled: FillRecord | None = None
    ) -> dict[str, Any]:
        ref, branch = self.table.ref, self.table.branch
        also = TableCommit(lease=self.lease, filled=filled, subject=str(ref), branch=branch)
        return change_at_last(self.lakehouse, ref, change, name, also)


def _commits_after_main(metadata: dict[str, Any], base: str | None, branch: str) -> Commits:
    main = ancestors(metadata, head_of(metadata, base))
    fills = {fill.iceberg_snapshot_id: fill for fill in committed_fills(metadata, branch)}
    line = [
        int(snapshot["snapshot-id"])
        for snapshot in history(metadata, head_of(metadata, branch))
        if int(snapshot["snapshot-id"]) not in main
    ]
    return {number: fills.get(number) for number in reversed(line)}


TABLE_WAIT_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class TableLeases:
    """The leases of a plan's physical tables, taken by one apply."""

    store: StateStore
    owner: LeaseOwner
    held: Mapping[str, Lease]
    """Leases of published tables, held until the publication, by table id."""

    @classmethod
    def take(
        cls, store: StateStore, owner: LeaseOwner, table_ids: Iterable[str], until: ExitStack
    ) -> TableLeases:
        # The leases are taken in the order of their names, so that two applies cannot deadlock.
        held = {
            table_id: until.enter_context(
                store.leases.holding(table_lease(table_id), owner, wait_seconds=TABLE_WAIT_SECONDS)
            ).lease
            for table_id in sorted(table_ids)
        }
        return cls(store, owner, held)

    @contextmanager
    def guard(self, table: PhysicalTable) -> Iterator[Lease]:
        if table.id in self.held:
            yield self.held[table.id]
            return
        with self.store.leases.holding(
            table_lease(table.id), self.owner, wait_seconds=TABLE_WAIT_SECONDS
        ) as held:
            yield held.lease
