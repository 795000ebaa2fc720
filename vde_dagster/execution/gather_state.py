"""Reading from the state store what the planner has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vde_dagster.planning.environment import PRODUCTION, Environment
from vde_dagster.planning.planner import WarehouseState
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.project.names import ModelName
from vde_dagster.state import StateStore


def gather_state(
    store: StateStore, environment: str, snapshots: Mapping[ModelName, Snapshot]
) -> WarehouseState:
    """Read an environment, production, and every table that may serve the target.

    Args:
        store: The state store.
        environment: The environment to be planned.
        snapshots: The target's snapshots.
    """
    target = store.environment(environment)
    production = target if environment == PRODUCTION else store.environment(PRODUCTION)
    return complete_state(store, target, production, snapshots.values())


def complete_state(
    store: StateStore,
    target: Environment | None,
    production: Environment | None,
    snapshots: Iterable[Snapshot],
) -> WarehouseState:
    """Add to environments the snapshots and tables that they and a target name."""
    entries = [
        entry
        for environment in (target, production)
        if environment is not None
        for entry in environment.entries.values()
    ]
    fills = {snapshot.fill_version for snapshot in snapshots if snapshot.has_table}
    tables: dict[str, PhysicalTable] = {t.id: t for t in store.tables_by_fill(sorted(fills))}
    named = {entry.table_id for entry in entries if entry.table_id} - tables.keys()
    tables.update(store.tables(sorted(named)))
    ids = {entry.snapshot_id for entry in entries}
    ids |= {table.snapshot_id for table in tables.values()}
    return WarehouseState(target, production, store.snapshots(sorted(ids)), tables)
