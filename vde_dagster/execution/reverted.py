"""What a rollback over changes in place shows: columns of before, over rows that may stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.planning.interval import Interval, IntervalSet

if TYPE_CHECKING:
    from vde_dagster.planning.environment import Environment
    from vde_dagster.planning.warehouse_state import WarehouseState
    from vde_dagster.state import StateStore


@dataclass(frozen=True, slots=True)
class Reverted:
    """A model that is shown again as it was, by a table that other definitions filled since.

    Args:
        name: The model.
        again: Columns that are shown again; NULL in the rows that were filled since.
        gone: Columns that are no longer shown; the table keeps them.
        filled: What was filled since, and stays as it is (UTC).
    """

    name: ModelName
    again: tuple[str, ...]
    gone: tuple[str, ...]
    filled: IntervalSet

    def sentences(self) -> tuple[str, ...]:
        """Say it for people."""
        out = []
        if self.gone:
            out.append(f"no longer shows {', '.join(self.gone)}")
        if self.again:
            out.append(f"shows {', '.join(self.again)} again")
        if self.filled:
            nulls = f", NULL in {', '.join(self.again)}" if self.again else ""
            since = f"({self.filled.text}){nulls}"
            out.append(f"keeps the rows that other definitions filled since {since}")
        return tuple(out) or ("keeps its table, which nothing filled since",)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "columns_again": list(self.again),
            "columns_gone": list(self.gone),
            "filled_since": self.filled.to_json(),
        }


def reverted(
    store: StateStore,
    current: Environment,
    old: Environment,
    state: WarehouseState,
    among: Iterable[ModelName],
    moved: Collection[ModelName] = (),
) -> tuple[Reverted, ...]:
    """Say which models of an old version are shown by tables that changed in place since.

    Args:
        store: The state store.
        current: The environment's current version.
        old: The version that is to be shown again.
        state: The snapshots and tables of the old version.
        among: The models that differ.
        moved: Those whose tables go back: what was filled since is gone.
    """
    found = []
    for name in sorted(among):
        before, now = old.entries[name], current.entries.get(name)
        if now is None or before.table_id is None or now.table_id != before.table_id:
            continue
        if not state.tables[before.table_id].mixed:
            continue
        was = state.snapshots[before.snapshot_id]
        shown = store.snapshots.load([now.snapshot_id])[now.snapshot_id]
        had, has = {c.version for c in was.columns}, {c.version for c in shown.columns}
        again = tuple(column.name for column in was.columns if column.version not in has)
        gone = tuple(column.name for column in shown.columns if column.version not in had)
        kept = name not in moved
        filled = _filled_since(store, old, name, before.table_id) if kept else IntervalSet()
        found.append(Reverted(name, again, gone, filled))
    return tuple(found)


def _filled_since(
    store: StateStore, old: Environment, name: ModelName, table_id: str
) -> IntervalSet:
    """Return what was filled of a table since a model was shown otherwise, and with that."""
    changed = store.versions.first_change(old.name, old.version, name)
    if changed is None:
        return IntervalSet()
    at, plan_id = changed
    return IntervalSet.of(
        Interval(row.start_at, row.end_at)
        for row in store.fills.log(table_id)
        if row.recorded_at >= at or row.plan_id == plan_id
    )
