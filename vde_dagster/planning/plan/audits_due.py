"""Audits that a plan runs on existing rows, and standalone audits that are due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.cadence import FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Category, Change, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_request import PlanRequest
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.dag import audit_order
from vde_dagster.project.model import Audit

_OTHER_DATA = (Change.ADDED, Change.MODIFIED, Change.AFFECTED)


def needs_audits(
    snapshot: Snapshot,
    old: Snapshot | None,
    table: PhysicalTable | None,
    state: WarehouseState,
    moving: Set[ModelName],
) -> bool:
    """Return whether a plan must audit rows of a model that already exist.

    Args:
        old: The model's snapshot in the environment.
        table: The model's table, or None for a view.
        moving: Models that precede this model in the plan and are computed or changed.
    """
    # Rows of a view must be audited again after every change of its parents.
    audits = snapshot.model.audits
    if not audits or not snapshot.model.kind.is_audited:
        return False
    if table is None:
        other = old is None or not old.means(snapshot)
        return other or not moving.isdisjoint(snapshot.parents)
    return bool(table.intervals) and not set(audits) <= _passed(snapshot, old, table, state)


def _passed(
    snapshot: Snapshot, old: Snapshot | None, table: PhysicalTable, state: WarehouseState
) -> set[Audit]:
    # These are the published model's audits if its table is published, otherwise the audits of the
    # model that created the table.
    entry = state.base.entries.get(snapshot.name) if state.base is not None else None
    if old is not None and entry is not None and entry.table_id == table.id:
        return set(old.model.audits)
    maker = snapshot if table.snapshot_id == snapshot.id else state.snapshots.get(table.snapshot_id)
    return set(maker.model.audits) if maker is not None else set()


def add_audits_of_unchanged_models(
    planned: Iterable[PlannedModel], snapshots: Mapping[ModelName, Snapshot], state: WarehouseState
) -> Iterator[PlannedModel]:
    """Yield the planned models, and mark models whose existing rows must be audited again.

    For example, an audit of an unchanged model reads another table, which the plan changes.
    """
    # External tables are audited before their readers are computed. Unchanged rows are audited
    # again if another table that the audits read changes. Tables that no environment shows are also
    # audited again if some of their audits run after the fills of other tables.
    models = tuple(planned)
    outside = _outside(models, snapshots)
    order = audit_order({name: snapshot.model for name, snapshot in snapshots.items()})
    if not order.before and not order.late and not outside:
        yield from models
        return
    changed = {
        one.name
        for one in models
        if one.change in _OTHER_DATA and one.category is not Category.METADATA
    }
    shown = state.base.tables if state.base is not None else frozenset[str]()
    for one in models:
        has_rows = one.table is None or bool(one.table.intervals)
        against = (*order.before.get(one.name, ()), *order.late.get(one.name, ()))
        hidden = one.table is not None and one.table.id not in shown and one.name in order.late
        due = one.name in outside or hidden or not changed.isdisjoint(against)
        yield replace(one, audits=True) if due and has_rows and not one.audits else one


def choose_audits_again(
    models: Iterable[PlannedModel], snapshots: Mapping[str, Snapshot], *, beside: bool = False
) -> tuple[PlannedModel, ...]:
    """Choose which models of a plan are audited in addition to the models that are computed.

    These are views over computed models, and external tables that computed models read.

    Args:
        beside: Whether models that the plan already audits stay audited.
    """
    models = tuple(models)
    found = {one.name: snapshots[one.snapshot_id] for one in models if one.snapshot_id is not None}
    due = _outside(models, found)
    moving = {one.name for one in models if one.builds}
    for one in models:
        if one.table is None and one.name in found:
            snapshot = found[one.name]
            if not moving.isdisjoint(snapshot.parents):
                moving.add(one.name)
                if snapshot.model.audits and snapshot.model.kind.is_audited:
                    due.add(one.name)
    return tuple(replace(one, audits=one.name in due or (beside and one.audits)) for one in models)


def _outside(
    models: Iterable[PlannedModel], snapshots: Mapping[ModelName, Snapshot]
) -> set[ModelName]:
    """Return the audited external tables that computed models read, directly or through views."""
    audited = {
        name for name, one in snapshots.items() if one.model.kind.is_external and one.model.audits
    }
    found: set[ModelName] = set()
    waiting = [one.name for one in models if one.builds] if audited else []
    seen = set(waiting)
    while waiting:
        for parent in snapshots[waiting.pop()].parents:
            if parent in audited:
                found.add(parent)
            elif parent not in seen and not snapshots[parent].has_table:
                seen.add(parent)
                waiting.append(parent)
    return found


def audited_range(
    request: PlanRequest,
    snapshot: Snapshot,
    old: Snapshot | None,
    moving: Set[ModelName],
    start: datetime | None,
    last: datetime | None,
) -> IntervalSet:
    """Return the range of a standalone audit (UTC), or nothing if the audit is not due.

    Args:
        old: The audit's snapshot in the environment.
        moving: Models that are computed or changed.
        last: End of the range that runs of the environment have audited, if any.
    """
    # A plan runs the audit over its whole range if the audit is new or changed, or if its parents
    # change. A run audits once per tick of its cron, for the time since the last tick.
    now = request.window.now
    slot = snapshot.cadence.latest_slot(now, ignore_cron=request.window.ignore_cron)
    begin = start or slot.start
    same = old is not None and old.means(snapshot)
    if request.kind is PlanKind.RUN:
        begin = max(begin, last or begin)
    elif same and moving.isdisjoint(snapshot.parents):
        return IntervalSet()
    end = min(slot.end, snapshot.model.end_at(now) or FAR)
    return IntervalSet((Interval(begin, end),)) if begin < end else IntervalSet()
