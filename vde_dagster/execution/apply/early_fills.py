"""Detection of ranges that were filled too early, because a clock was ahead.

A fill recorded in the future, or with a range that ends in the future, proves that a clock was
ahead. Ranges after the last fill by a correct clock then count as missing, and are filled when they
are due. Once the recorded time has passed, early fills cannot be detected anymore.
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


def remove_early_ranges(
    handles: Handles, state: WarehouseState, *, save: bool
) -> tuple[WarehouseState, tuple[str, ...]]:
    """Return a state without ranges that were filled too early, and warnings for the user."""
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
    return replace(state, tables=tables) if early else state, _warn_of_clock(
        state, now, early, stays
    )


def _can_be_filled_again(snapshot: Snapshot, since: datetime) -> bool:
    # `since` is the last fill by a correct clock, or the minimum time without such a fill.
    # A history (SCD) captures only its source's current rows, so its past cannot be filled again. A
    # table with restatement disabled must keep at least one fill, or it would start over.
    kind = snapshot.model.kind
    return (
        snapshot.model.kind.refills
        and not kind.in_order
        and (since > BEGINNING or not kind.disable_restatement)
    )


def _warn_of_clock(
    state: WarehouseState, now: datetime, early: dict[str, IntervalSet], stays: set[str]
) -> tuple[str, ...]:
    warnings = []
    if early:
        warnings.append(
            f"a clock was ahead (this machine's clock shows {instant_text(now)}), and "
            f"{count(len(early), 'table')} had ranges filled early: these ranges are filled again "
            "when they are due"
        )
    if stays:
        warnings.append(
            f"a clock was ahead (this machine's clock shows {instant_text(now)}) during a fill of "
            f"{', '.join(sorted(stays))}: rows that arrive after this fill may be missing, and "
            "filling the same range again would lose rows; change the model's definition to "
            "compute a new table, or add the rows by hand"
        )
    current = state.target
    if current is not None and current.published_at > now + MOST_APART:
        warnings.append(
            f"version {current.version} of '{current.name}' was published at "
            f"{instant_text(current.published_at)}, which is in the future: the publisher's clock "
            f"was wrong, or this machine's clock is (it shows {instant_text(now)}); "
            f"`{current.name}@<instant>` refers to the instants in `vde history`"
        )
    return tuple(warnings)


def require_created_in_past(plan: Plan, now: datetime) -> None:
    """Raise UsageError if a plan was created in the future, because a clock was ahead."""
    # Such a plan would fill too much.
    if plan.created_at > now + STEP:
        raise UsageError(
            f"the plan was created at {instant_text(plan.created_at)}, but it is only "
            f"{instant_text(now)}: a clock was ahead, or this machine's clock is behind",
            hint=f"set the clock, then plan again: vde plan {plan.environment}",
        )
