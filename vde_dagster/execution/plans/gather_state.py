"""Loading of the warehouse's state for the planner, for all models or a selection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.contracts import ViewTypes
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.environments.warehouse_state import (
    Build,
    PreviewedDefinition,
    WarehouseState,
    rehash_definitions,
)
from vde_dagster.planning.plan.assign_tables import preview_version
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, Snapshot
from vde_dagster.planning.tables.table import PhysicalTable

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.project.model import Model
    from vde_dagster.state.store import StateStore


def gather_state(
    store: StateStore,
    environment: str,
    snapshots: Mapping[ModelName, Snapshot] | None,
    build: Build,
    among: Collection[ModelName] | None = None,
    current: Environment | None = None,
) -> WarehouseState:
    """Read an environment, production, and all tables that may serve the models of a plan.

    Args:
        snapshots: The target's snapshots; the environment's own by default.
        build: Rebuilds snapshots whose hashes an earlier version of vde computed.
        among: Models to read, including their ancestors; all by default.
        current: The environment's version to use; by default, the latest is read.
    """
    # Hashes of an earlier canonicalizer are recomputed, and the tables' new hashes are stored. Then
    # everything is read.
    target = current or store.environments.get(environment)
    production = target if environment == PRODUCTION else store.environments.get(PRODUCTION)

    def read(target: Environment | None, production: Environment | None) -> WarehouseState:
        if snapshots is None:
            return complete_state(store, target, production, ())
        return _read_repaired_state(store, target, production, snapshots)

    part = _read_part(read, target, production, among) if among is not None else None
    state = part or read(target, production)
    state, changed = rehash_definitions(state, CANONICALISER, build)
    kept = {table.id: table for table in changed if not store.tables.rehash(table)}
    if kept:
        # Another table already has these hashes and serves: keep the stored hashes.
        stored = store.tables.load(kept)
        state = replace(state, tables={**state.tables, **stored})
    if snapshots is None:
        return state
    state = add_physical_versions(store, state, snapshots)
    return replace(
        state,
        view_types=_view_types(store, state, snapshots),
        previews=find_previews(store, snapshots) if production is not None else {},
    )


def stored_builder(handles: Handles) -> Build:
    """Return a function that rebuilds snapshots from stored definitions, with current hashes."""
    return lambda models, revise: handles.snapshots_of(models, revise=revise)


def _read_part(
    read: Callable[[Environment | None, Environment | None], WarehouseState],
    target: Environment | None,
    production: Environment | None,
    among: Collection[ModelName],
) -> WarehouseState | None:
    # All tables of production stay guarded, because any of them may serve one of these models.
    def part(environment: Environment | None) -> Environment | None:
        if environment is None:
            return None
        entries = environment.entries
        return replace(environment, entries={n: e for n, e in entries.items() if n in among})

    state = read(part(target), part(production))
    if any(state.snapshots[key].canonicaliser != CANONICALISER for key in state.published_ids):
        return None
    shown = production.tables if production is not None else frozenset[str]()
    return replace(state, guarded=state.guarded | shown)


def add_physical_versions(
    store: StateStore, state: WarehouseState, snapshots: Mapping[ModelName, Snapshot]
) -> WarehouseState:
    """Add the tables that models name in `physical_version`, unless production shows them."""
    pinned: dict[ModelName, str] = {}
    tables, read = dict(state.tables), dict(state.snapshots)
    entries = state.production.entries if state.production is not None else {}
    for name, snapshot in snapshots.items():
        pin, entry = snapshot.model.physical_version, entries.get(name)
        if pin is None or entry is None:
            continue
        if state.snapshots[entry.snapshot_id].model.physical_version == pin:
            continue
        known = store.tables.own_tables(name)
        fillers = store.snapshots.load({t.snapshot_id for t in known}, unreadable=set())
        for table in known:
            filler = fillers.get(table.snapshot_id)
            if filler is not None and filler.model.physical_version == pin:
                pinned[name] = table.id
                tables[table.id], read[filler.id] = table, filler
    return replace(state, tables=tables, snapshots=read, pinned=pinned) if pinned else state


def find_previews(
    store: StateStore, snapshots: Mapping[ModelName, Snapshot]
) -> dict[ModelName, tuple[PreviewedDefinition, ...]]:
    """Find development environments' preview branches of production's tables, by model."""
    changing = {name for name, one in snapshots.items() if one.model.kind.changes_in_place}
    if not changing:
        return {}
    shown = [(env, entry) for env, entry in store.shown.previews() if entry.name in changing]
    ids = sorted({entry.snapshot_id for _, entry in shown})
    # A damaged definition does not affect others.
    known = store.snapshots.load(ids, unreadable=set())
    found: dict[ModelName, tuple[PreviewedDefinition, ...]] = {}
    for environment, entry in shown:
        snapshot = known.get(entry.snapshot_id)
        forward = snapshot.forward if snapshot is not None else None
        if forward is not None:
            anew = tuple(store.shown.environments_with_snapshot(forward.own_id))
            previewed = PreviewedDefinition(environment, forward, anew)
            found[entry.name] = (*found.get(entry.name, ()), previewed)
    return found


def _read_repaired_state(
    store: StateStore,
    target: Environment | None,
    production: Environment | None,
    snapshots: Mapping[ModelName, Snapshot],
) -> WarehouseState:
    # If `snapshots` has a definition with the id of a damaged one, it is written again. Otherwise,
    # the model is planned as changed.
    shown = WarehouseState(target, production).published_ids
    mended = store.snapshots.mend(one for one in snapshots.values() if one.id in shown)
    unreadable: set[str] = set()
    state = complete_state(store, target, production, snapshots.values(), unreadable)
    if mended:
        state = replace(state, mended=tuple(snapshot.name for snapshot in mended))
    return state.without_snapshots(unreadable) if unreadable else state


def _view_types(
    store: StateStore, state: WarehouseState, snapshots: Mapping[ModelName, Snapshot]
) -> ViewTypes:
    entries = state.base.entries if state.base else {}
    # By the stored id; a rehashed snapshot has another id.
    wanted: dict[str, str] = {}
    for name, entry in entries.items():
        old, new = state.snapshots[entry.snapshot_id], snapshots.get(name)
        if entry.table_id is None and new is not None and not new.means(old):
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
    unreadable: set[str] | None = None,
) -> WarehouseState:
    """Read the snapshots and tables that environments and a plan's target refer to.

    Args:
        unreadable: Receives the ids of unreadable stored snapshots, instead of an error.

    Raises:
        StoreError: A snapshot of one of the environments cannot be read.
    """
    # The target's snapshots are not read from the store, because a snapshot's id covers everything
    # that plans compare.
    known = {snapshot.id: snapshot for snapshot in snapshots}
    entries = [
        entry
        for environment in (target, production)
        if environment is not None
        for entry in environment.entries.values()
    ]
    fills = {snapshot.fill_version for snapshot in known.values() if snapshot.has_table}
    # Branches of tables with the same change in place.
    fills |= {version for snapshot in known.values() if (version := preview_version(snapshot))}
    tables: dict[str, PhysicalTable] = {
        t.id: t for t in store.tables.with_fill_versions(sorted(fills))
    }
    named = {entry.table_id for entry in entries if entry.table_id} - tables.keys()
    tables.update(store.tables.load(sorted(named)))
    shown = {entry.snapshot_id for entry in entries}
    ids = shown | {table.snapshot_id for table in tables.values()}
    lost: set[str] = set()
    read = {**known, **store.snapshots.load(sorted(ids - known.keys()), None, lost)}
    # The first definition of a table may be deleted; an environment's definitions must exist.
    if unreadable is None:
        store.snapshots.load(sorted(lost & shown))
    else:
        unreadable |= lost
    extended = {one.forward.table_id for one in read.values() if one.forward} - tables.keys()
    tables.update(store.tables.load(sorted(extended)))
    return WarehouseState(target, production, read, tables)


def reuse_production_tables(
    handles: Handles, models: Mapping[ModelName, Model], snapshots: dict[ModelName, Snapshot]
) -> dict[ModelName, Snapshot]:
    """Let models that change in place reuse production's tables, as in a plan, without warnings."""
    if not any(snapshot.model.kind.changes_in_place for snapshot in snapshots.values()):
        return snapshots
    production = handles.store.environments.get(PRODUCTION)
    if production is None:
        return snapshots
    from vde_dagster.planning.plan.forward_only import ForwardOnly, may_change_in_place
    from vde_dagster.planning.plan.plan_options import NOTHING_SAID

    entries = {
        name: entry
        for name, entry in production.entries.items()
        if name in snapshots and snapshots[name].model.kind.changes_in_place
    }
    state = WarehouseState(
        None,
        replace(production, entries=entries),
        handles.store.snapshots.load(sorted({e.snapshot_id for e in entries.values()})),
        handles.store.tables.load(sorted({e.table_id for e in entries.values() if e.table_id})),
        previews=find_previews(handles.store, snapshots),
    )
    state = add_physical_versions(handles.store, state, snapshots)
    if not may_change_in_place(snapshots, state, NOTHING_SAID):
        return snapshots
    resolved = ForwardOnly(state, NOTHING_SAID)
    return handles.snapshots_of(models, None, [], revise=resolved.revise)


def related_models(
    store: StateStore, environment: Environment, names: Iterable[ModelName]
) -> frozenset[ModelName]:
    """Return `names`, and all models that a plan for them must read, if `environment` has them.

    For every returned model, its parents, the models that its audits read, and the models that
    share its table are returned, too.
    """
    entries = environment.entries
    twins: dict[str, list[ModelName]] = {}
    for name, entry in entries.items():
        if entry.table_id is not None:
            twins.setdefault(entry.table_id, []).append(name)
    found: set[ModelName] = set()
    waiting = {name for name in names if name in entries}
    while waiting:
        found |= waiting
        read = store.snapshots.load(sorted(entries[name].snapshot_id for name in waiting))
        near = {one for name in waiting for one in twins.get(entries[name].table_id or "", ())}
        for snapshot in read.values():
            near.update(snapshot.parents, snapshot.model.audited_against)
        waiting = {name for name in near if name in entries} - found
    return frozenset(found)
