"""Which audits a plan runs on rows that it does not compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan import Category, Change, PlannedModel
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.warehouse_state import WarehouseState
from vde_dagster.project.audit_order import audit_order
from vde_dagster.project.model import Audit

_OTHER_DATA = (Change.ADDED, Change.MODIFIED, Change.AFFECTED)


def own_audits_due(
    snapshot: Snapshot,
    old: Snapshot | None,
    table: PhysicalTable | None,
    state: WarehouseState,
    moving: Set[ModelName],
) -> bool:
    """Say whether a model's audits have to look at what it has already.

    A view's rows have passed none since what it reads moved.

    Args:
        snapshot: The model.
        old: What the environment shows of it.
        table: Its table; None for a view.
        state: What exists.
        moving: The models before it that are computed, or that change.
    """
    audits = snapshot.model.audits
    if not audits:
        return False
    if table is None:
        return old is None or old.id != snapshot.id or not moving.isdisjoint(snapshot.parents)
    return bool(table.intervals) and not set(audits) <= _passed(snapshot, old, table, state)


def _passed(
    snapshot: Snapshot, old: Snapshot | None, table: PhysicalTable, state: WarehouseState
) -> set[Audit]:
    """Return the audits that all rows of a table have passed.

    What is published has passed those of the model that is published; all else those of the model
    that made the table.
    """
    entry = state.base.entries.get(snapshot.name) if state.base is not None else None
    if old is not None and entry is not None and entry.table_id == table.id:
        return set(old.model.audits)
    maker = snapshot if table.snapshot_id == snapshot.id else state.snapshots.get(table.snapshot_id)
    return set(maker.model.audits) if maker is not None else set()


def with_audits_against_others(
    planned: Iterable[PlannedModel],
    snapshots: Mapping[ModelName, Snapshot],
    state: WarehouseState,
) -> Iterator[PlannedModel]:
    """Let audits look again at rows that stay, where other tables that they read change.

    Rows in tables that nobody shows have not passed late audits for certain: these run behind
    the fills that record them.

    Args:
        planned: The models of a plan.
        snapshots: The plan's target.
        state: What exists.
    """
    models = tuple(planned)
    order = audit_order({name: snapshot.model for name, snapshot in snapshots.items()})
    if not order.before and not order.late:
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
        due = has_rows and (hidden or not changed.isdisjoint(against))
        yield replace(one, audits=True) if due and not one.audits else one
