"""Reading from the state store what the planner has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.contracts import ViewTypes
from vde_dagster.planning.environment import PRODUCTION, Environment
from vde_dagster.planning.rehash import Build, rehash
from vde_dagster.planning.serve import preview_version
from vde_dagster.planning.snapshot import CANONICALISER, Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.warehouse_state import WarehouseState

if TYPE_CHECKING:
    from vde_dagster.state import StateStore


def gather_state(
    store: StateStore,
    environment: str,
    snapshots: Mapping[ModelName, Snapshot] | None,
    build: Build,
) -> WarehouseState:
    """Read an environment, production, and every table that may serve the target.

    What an earlier canonicaliser hashed is hashed again, and the tables' new hashes are stored.

    Args:
        store: The state store.
        environment: The environment to be planned.
        snapshots: The target's snapshots; the environment's own by default.
        build: Makes snapshots of definitions with today's canonicaliser.
    """
    target = store.environments.get(environment)
    production = target if environment == PRODUCTION else store.environments.get(PRODUCTION)
    wanted = () if snapshots is None else snapshots.values()
    state = complete_state(store, target, production, wanted)
    state, changed = rehash(state, CANONICALISER, build)
    kept = {table.id: table for table in changed if not store.tables.rehash(table)}
    if kept:
        # Another table has these very hashes: the stored ones stay, and that one serves.
        stored = store.tables.load(kept)
        state = replace(state, tables={**state.tables, **stored})
    if snapshots is None:
        return state
    return replace(state, view_types=_view_types(store, state, snapshots))


def _view_types(
    store: StateStore, state: WarehouseState, snapshots: Mapping[ModelName, Snapshot]
) -> ViewTypes:
    """Read what Spark made of the views that change, and of what they become."""
    entries = state.base.entries if state.base else {}
    # By the stored id; the snapshot under it may have been hashed again, and has another one.
    wanted: dict[str, str] = {}
    for name, entry in entries.items():
        old, new = state.snapshots[entry.snapshot_id], snapshots.get(name)
        if entry.table_id is None and new is not None and new.id != old.id:
            wanted[entry.snapshot_id] = old.id
            wanted[new.id] = new.id
    if not wanted:
        return {}
    return {wanted[key]: types for key, types in store.snapshots.view_types(wanted).items()}


def complete_state(
    store: StateStore,
    target: Environment | None,
    production: Environment | None,
    snapshots: Iterable[Snapshot],
) -> WarehouseState:
    """Add to environments the snapshots and tables that they and a target name.

    What the target has is not read from the store: a snapshot's id covers all that plans compare.
    """
    known = {snapshot.id: snapshot for snapshot in snapshots}
    entries = [
        entry
        for environment in (target, production)
        if environment is not None
        for entry in environment.entries.values()
    ]
    fills = {snapshot.fill_version for snapshot in known.values() if snapshot.has_table}
    # Branches of tables that show the same change in place.
    fills |= {version for snapshot in known.values() if (version := preview_version(snapshot))}
    tables: dict[str, PhysicalTable] = {
        t.id: t for t in store.tables.with_fill_versions(sorted(fills))
    }
    named = {entry.table_id for entry in entries if entry.table_id} - tables.keys()
    tables.update(store.tables.load(sorted(named)))
    ids = {entry.snapshot_id for entry in entries}
    ids |= {table.snapshot_id for table in tables.values()}
    read = {**known, **store.snapshots.load(sorted(ids - known.keys()))}
    extended = {one.forward.table_id for one in read.values() if one.forward} - tables.keys()
    tables.update(store.tables.load(sorted(extended)))
    return WarehouseState(target, production, read, tables)
