"""When standalone audits are due: plans run what changed around them, runs what their cron says."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.cadence import FAR
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.plan import PlanKind
from vde_dagster.planning.plan_request import PlanRequest
from vde_dagster.planning.snapshot import Snapshot


def audited_range(
    request: PlanRequest,
    snapshot: Snapshot,
    old: Snapshot | None,
    moving: Set[ModelName],
    start: datetime | None,
    last: datetime | None,
) -> IntervalSet:
    """Return the range that a standalone audit is run for (UTC); nothing when it is not due.

    A plan runs it when it is new or changed, or something moves that it reads, for all that there
    is. A run runs it once a tick of its cron, for what came since.

    Args:
        request: What the plan is asked for.
        snapshot: The audit.
        old: What the environment has of it.
        moving: The models that are computed, or that change.
        start: Its first instant, when it has one.
        last: The end of what the environment's runs have audited, when they have.
    """
    now = request.window.now
    slot = snapshot.cadence.latest_slot(now, ignore_cron=request.window.ignore_cron)
    begin = start or slot.start
    if request.kind is PlanKind.RUN:
        begin = max(begin, last or begin)
    elif old is not None and old.id == snapshot.id and moving.isdisjoint(snapshot.parents):
        return IntervalSet()
    end = min(slot.end, snapshot.model.end_at(now) or FAR)
    return IntervalSet((Interval(begin, end),)) if begin < end else IntervalSet()
