"""Fills before their time, by a clock that was ahead: they count as not filled.

A clock that goes back shows that it was ahead: a fill that was recorded later than now, or a range
that ends later, was filled between the table's fill before and now. Whatever of it ended after that
one is filled again as soon as it is due. What nobody looks at until the wrong clock's time has come
cannot be told from what was filled in time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.texts import count
from vde_dagster.base.times import instant_text
from vde_dagster.errors import UsageError
from vde_dagster.planning.intervals.cadence import BEGINNING, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds.repeatable import reads_clock
from vde_dagster.state.db.effects import MOST_APART, STEP

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.warehouse_state import WarehouseState
    from vde_dagster.planning.plan.plan import Plan
    from vde_dagster.planning.snapshots.snapshot import Snapshot


def without_early(
    handles: Handles, state: WarehouseState, *, save: bool
) -> tuple[WarehouseState, tuple[str, ...]]:
    """Return the state without ranges filled before their time, and the warnings on them."""
    fills, now = handles.store.fills, handles.store.database.clock.now()
    found = fills.early({key: table.intervals for key, table in state.tables.items()}, now)
    early: dict[str, IntervalSet] = {}
    stays: set[str] = set()
    for table_id, (filled, since) in found.items():
        table = state.tables[table_id]
        snapshot = state.snapshots.get(table.snapshot_id)
        if snapshot is not None and not _can_be_filled_again(snapshot, since):
            query = snapshot.model.query
            if not snapshot.model.kind.in_order or query is None or reads_clock(query):
                stays.add(str(snapshot.name))
            continue
        start = snapshot.cadence.unit.floor(since) if snapshot is not None else since
        early[table_id] = table.intervals & filled & IntervalSet((Interval(start, FAR),))
    if early and save:
        fills.give_up_early(early, now)
    tables = {
        key: replace(table, intervals=table.intervals - early.get(key, IntervalSet()))
        for key, table in state.tables.items()
    }
    return replace(state, tables=tables) if early else state, _said(state, now, early, stays)


def _can_be_filled_again(snapshot: Snapshot, since: datetime) -> bool:
    """Say whether a table can be filled again from an instant on without losing anything.

    A history (SCD) takes in what its source says by now with its next interval, and would begin
    anew if nothing of it counted as filled; so would what may not be restated.

    Args:
        since: When it was last filled (UTC) by a clock that was right; the beginning of all times
            where that was never.
    """
    kind = snapshot.model.kind
    return (
        snapshot.model.kind.refills
        and not kind.in_order
        and (since > BEGINNING or not kind.disable_restatement)
    )


def _said(
    state: WarehouseState, now: datetime, early: dict[str, IntervalSet], stays: set[str]
) -> tuple[str, ...]:
    said = []
    if early:
        said.append(
            f"a clock was ahead of this one, where it is {instant_text(now)}: what it let "
            f"{count(len(early), 'table')} be filled with before its "
            "end is filled again when it is due"
        )
    if stays:
        said.append(
            f"a clock was ahead of this one, where it is {instant_text(now)}, when "
            f"{', '.join(sorted(stays))} was filled: rows that came later may be missing there, "
            "as it cannot be filled again beside what it holds; fill it with another definition, "
            "or add them yourself"
        )
    current = state.target
    if current is not None and current.published_at > now + MOST_APART:
        said.append(
            f"version {current.version} of '{current.name}' was published at "
            f"{instant_text(current.published_at)}, which is still to come: that clock was wrong, "
            f"or this one is, where it is {instant_text(now)}; `{current.name}@<instant>` names "
            "versions by the instants in `vde history`"
        )
    return tuple(said)


def require_past(plan: Plan, now: datetime) -> None:
    """Make sure that a plan was not made by a clock that was ahead: it fills what goes on."""
    if plan.created_at > now + STEP:
        raise UsageError(
            f"the plan was made for {instant_text(plan.created_at)}, and it is "
            f"{instant_text(now)}: a clock was ahead, or this one is behind",
            hint=f"set the clock, then plan again: vde plan {plan.environment}",
        )
