"""Taking over what a dead process committed and did not record."""

from __future__ import annotations

from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.audit_table import Auditor
from vde_dagster.execution.events import IntervalFilled
from vde_dagster.execution.target import LeftOver, Target
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.missing import left_to_fill
from vde_dagster.planning.plan import PlannedModel
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.work import FillResult


def recover(
    model: PlannedModel,
    snapshot: Snapshot,
    target: Target,
    left: LeftOver,
    missing: IntervalSet,
    auditor: Auditor,
) -> IntervalSet:
    """Take over ranges that were committed but not recorded, after auditing them again.

    A process that died between Iceberg's commit and the state's leaves such ranges. Rows
    that are not asked for or fail a blocking audit are taken off the branch.

    Args:
        model: What is planned.
        snapshot: Its snapshot.
        target: Where it is written.
        left: What earlier attempts left there.
        missing: What is to be filled (UTC).
        auditor: Audits the plan's tables.

    Returns:
        What is recorded as filled; a part of a unit may have gone on since (UTC).
    """
    plan, written = auditor.tasks.plan, auditor.tasks.written
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
            fill.plan_id == plan.id or not (target.waits or model.again)
        )
        if not (ours and missing.contains(fill.interval)):
            break
        if target.waits:
            written.put_branch(target.table.id, target.branch)
        try:
            auditor.audit(snapshot, target.table, fill.interval, target.branch)
        except AuditFailedError:
            break
        taken = taken | IntervalSet((fill.interval,))
        result = FillResult(fill.rows, fill.iceberg_snapshot_id, None)
        # What it read and wrote died with the process: no later run may build on a guess of it.
        facts = auditor.tasks.made_without(target.table)
        target.record(fill.interval, result, facts, last=not left_to_fill(snapshot, missing, taken))
        if target.waits:
            written.put_branch(target.table.id, target.branch)
        auditor.emit(IntervalFilled(snapshot, target.table, fill.interval, result, True))
        good = commit.snapshot_id
    if left.commits and left.commits[-1].snapshot_id != good:
        target.reset(good)
        if good is None:
            written.drop_branch(target.table.id)
    return taken
