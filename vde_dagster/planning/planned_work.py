"""Which intervals of a model a plan fills, parents first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from vde_dagster.base.names import ModelName
from vde_dagster.planning.assign_tables import is_deployed_already
from vde_dagster.planning.environment import PRODUCTION
from vde_dagster.planning.holdings import Holdings
from vde_dagster.planning.in_place import TableChange
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.missing import missing_intervals, refills
from vde_dagster.planning.plan_request import (
    PlanRequest,
    filled_of,
    fills,
    units_from,
    window_for,
)
from vde_dagster.planning.readiness import Readiness
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.warehouse_state import WarehouseState


@dataclass(frozen=True, slots=True)
class ModelWork:
    """What a plan does with a model's table.

    Args:
        intervals: What it fills (UTC).
        catches_up: Whether a table that is made whole is made again for what it lacks alone.
        again: Whether a definition that goes on in place fills again what the earlier one filled.
        in_place: What becomes of a table of production's that the model goes on with, or None.
    """

    intervals: IntervalSet = field(default_factory=IntervalSet)
    catches_up: bool = False
    again: bool = False
    in_place: TableChange | None = None


class PlannedWork:
    """Goes through the models of a plan, and remembers what its children may count on.

    Args:
        request: What the plan is asked for.
        state: What exists.
        starts: First instant of data by model (UTC).
    """

    def __init__(
        self, request: PlanRequest, state: WarehouseState, starts: Mapping[ModelName, datetime]
    ) -> None:
        self._request, self._state, self._starts = request, state, starts
        self._protected = state.protected(request.environment)
        self._shown = state.base.tables if state.base is not None else frozenset[str]()
        self._readiness = Readiness(request.ready)
        self._holdings = Holdings(starts, request.window.now)

    def owns(self, table: PhysicalTable) -> bool:
        """Say whether a table is the environment's to fill and to lay out."""
        return table.id not in self._protected

    def of(self, snapshot: Snapshot, table: PhysicalTable | None) -> ModelWork:
        """Say what has to be done for a model, whose parents were asked for before.

        Args:
            snapshot: The model.
            table: The table that serves it; None for one that is a query.
        """
        work = self._asked(snapshot, table) if table is not None else ModelWork()
        intervals = self._readiness.let_pass(snapshot, work.intervals)
        self._holdings.note(snapshot, table, intervals)
        # What fills more than the slot that the table has is no mere catching up.
        has = table.intervals if table is not None else IntervalSet()
        catches_up = work.catches_up and bool(intervals) and not intervals - has
        return replace(work, intervals=intervals, catches_up=catches_up)

    def _asked(self, snapshot: Snapshot, table: PhysicalTable) -> ModelWork:
        """Say what would be done, if no signal held anything back."""
        request, holdings = self._request, self._holdings
        complete = holdings.complete_for(snapshot)
        intervals, catches_up = IntervalSet(), False
        if self.owns(table) and fills(request, snapshot, table, self._shown):
            catches_up = holdings.catches_up(snapshot, table)
            intervals = missing_intervals(
                snapshot,
                filled_of(request, snapshot, table),
                window_for(request, snapshot, table),
                self._starts,
                complete,
                catches_up=catches_up,
            )
        in_place = _in_place(request, snapshot, table, self._state)
        if in_place is None or in_place.effective_from is None:
            return ModelWork(intervals, catches_up, in_place=in_place)
        outdated = units_from(in_place.effective_from, snapshot, table.intervals & complete)
        return ModelWork(intervals | outdated, catches_up, bool(outdated), in_place)


def _in_place(
    request: PlanRequest, snapshot: Snapshot, table: PhysicalTable, state: WarehouseState
) -> TableChange | None:
    """Say how a plan goes on with a table of production's; None when nothing of that changes."""
    if snapshot.forward is None:
        return None
    changes = request.changes.get(snapshot.name, ())
    if table.preview is not None:
        entry = state.target.entries.get(snapshot.name) if state.target else None
        if entry is not None and entry.table_id == table.id:
            return None
        return TableChange(table.ref, deploys=False, columns=changes)
    if request.environment != PRODUCTION or is_deployed_already(snapshot, state):
        return None
    options = request.options
    again = not options.skip_backfill and refills(snapshot)
    since = options.effective_from if again else None
    return TableChange(table.ref, deploys=True, columns=changes, effective_from=since)
