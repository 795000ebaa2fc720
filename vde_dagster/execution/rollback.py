"""Publishing an earlier version of an environment again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.events import VirtualUpdateRan
from vde_dagster.execution.gather_state import complete_state
from vde_dagster.execution.publish import define_views, dropped_views
from vde_dagster.execution.reverted import Reverted, reverted
from vde_dagster.execution.virtual_update import run_virtual_update
from vde_dagster.lakehouse import Publication
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.missing import ALWAYS, Window, infer_starts, missing_intervals
from vde_dagster.planning.order import in_order
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.views import view_refs
from vde_dagster.planning.virtual_update import virtual_update
from vde_dagster.planning.warehouse_state import WarehouseState
from vde_dagster.state.lease_names import environment_lease

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.snapshot import Snapshot
    from vde_dagster.planning.table import TableRef
    from vde_dagster.state import StateStore


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback published.

    Args:
        environment: The environment's new version, equal in content to an old one.
        restored: The old version's number.
        missing: What has fallen due since and is not filled, by model that the rollback changed;
            `vde run` fills it.
        failed_statements: What was to run on the published views and failed.
        reverted: Models whose tables changed in place since, with what they show now.
    """

    environment: Environment
    restored: int
    missing: dict[ModelName, IntervalSet]
    failed_statements: tuple[VirtualUpdateRan, ...] = ()
    reverted: tuple[Reverted, ...] = ()


def rollback(
    warehouse: Warehouse, environment: str, version: int | None, who: str
) -> RollbackResult:
    """Publish an earlier version of an environment in one transaction; see `Workspace.rollback`."""
    store = warehouse.store
    store.environments.require_changeable(environment)
    if not store.environments.exists(environment):
        raise UsageError(
            f"there is no environment '{environment}'", hint=f"plan it: vde plan {environment}"
        )
    owner = f"{who}, rollback, {uuid.uuid4().hex[:8]}"
    with store.leases.holding(environment_lease(environment), owner) as held:
        warehouse.lakehouse.recover()
        current = store.environments.get(environment)
        assert current is not None
        old = _find(warehouse, current, version)
        moved = warehouse.lakehouse.moved_views(environment)
        # The history's views were where the setting of their time had them.
        suffix = warehouse.settings.environment_suffix_target
        mode = warehouse.settings.virtual_environment_mode
        old = replace(old, suffix=suffix, mode=mode)
        if not old.views.same_as(current.views):
            moved |= {current.views.ref(name) for name in current.entries}
            moved |= {old.views.ref(name) for name in old.entries}
        part = _part(store, current, old, moved)
        state = complete_state(store, part, None, ())
        _check_tables(part, state)
        resolver = Resolver(
            environment, part.entries, state.snapshots, state.tables, suffix=suffix, mode=mode
        )
        own = view_refs(resolver)
        differing = _differing(current, part, state)
        in_place = reverted(store, current, part, state, differing)
        # The other views are as they were published, and as they have to be.
        changed = differing | {name for name, ref in own.items() if ref in moved}
        views = define_views(resolver, warehouse, changed)
        kept = {old.views.ref(name) for name in old.entries.keys() - part.entries.keys()}
        published = warehouse.lakehouse.publish(
            Publication(
                environment=Environment(
                    name=environment,
                    version=current.version + 1,
                    entries=old.entries,
                    publication_id=uuid.uuid4().hex,
                    published_at=store.database.clock.now(),
                    published_by=who,
                    expires_at=current.expires_at,
                    note=f"rollback to {old.version}",
                    suffix=suffix,
                    mode=mode,
                ),
                base_version=current.version,
                views=views,
                dropped=dropped_views(current, kept | set(own.values())),
                fast_forwards=(),
                plan_id=None,
                leases=(held.lease,),
                statements=virtual_update(
                    resolver, current, warehouse.settings.catalog, store.database.clock.now()
                ),
            )
        )
    failed = run_virtual_update(warehouse, environment, owner)
    return RollbackResult(
        published, old.version, _missing(warehouse, part, state, differing), failed, in_place
    )


def _find(warehouse: Warehouse, current: Environment, version: int | None) -> Environment:
    store = warehouse.store
    if version is not None:
        old = store.versions.at(current.name, version)
        if old is None or version >= current.version:
            kept = [str(v.version) for v in store.versions.history(current.name)]
            raise UsageError(
                f"environment '{current.name}' has no earlier version {version}",
                hint=f"its versions are {', '.join(kept)}",
            )
        return old
    for number in store.versions.differing(current.name, current.version):
        old = store.versions.at(current.name, number)
        if old is not None and old.entries != current.entries:
            return old
    raise UsageError(
        f"environment '{current.name}' has no earlier version that differs",
        hint=f"see: vde history {current.name}",
    )


def _check_tables(old: Environment, state: WarehouseState) -> None:
    gone = [
        str(name)
        for name, entry in old.entries.items()
        if entry.table_id is not None and entry.table_id not in state.tables
    ]
    if gone:
        raise UsageError(
            f"version {old.version} of '{old.name}' cannot be restored: the tables of "
            f"{', '.join(gone)} were cleaned up",
            hint="check out the code of that time and plan it instead",
        )


def _part(
    store: StateStore, current: Environment, old: Environment, moved: set[TableRef]
) -> Environment:
    """Return an old version without the models that are as they were and that nothing here reads.

    What is needed are the models that differ, those without a table, as their queries may read
    what differs, those whose views somebody moved, and what these inherit from their parents.
    """
    waiting = {
        name
        for name, entry in old.entries.items()
        if current.entries.get(name) != entry
        or entry.table_id is None
        or old.views.ref(name) in moved
    }
    needed: set[ModelName] = set()
    while waiting:
        needed |= waiting
        found = store.snapshots.load(old.entries[name].snapshot_id for name in waiting)
        inheriting = (
            found[entry.snapshot_id]
            for entry in map(old.entries.__getitem__, waiting)
            if entry.table_id is None or _inherits_start(found[entry.snapshot_id])
        )
        parents = {parent for snapshot in inheriting for parent in snapshot.parents}
        waiting = (parents & old.entries.keys()) - needed
    entries = {name: entry for name, entry in old.entries.items() if name in needed}
    return replace(old, entries=entries)


def _inherits_start(snapshot: Snapshot) -> bool:
    return snapshot.model.start is None and snapshot.model.relative_start is None


def _differing(current: Environment, old: Environment, state: WarehouseState) -> set[ModelName]:
    """Name the models whose views show something else now: a query's with what it reads."""
    found: set[ModelName] = set()
    snapshots = in_order(
        {name: state.snapshots[entry.snapshot_id] for name, entry in old.entries.items()}
    )
    for name, snapshot in snapshots.items():
        entry = old.entries[name]
        reads = entry.table_id is None and any(parent in found for parent in snapshot.parents)
        if reads or current.entries.get(name) != entry:
            found.add(name)
    return found


def _missing(
    warehouse: Warehouse, old: Environment, state: WarehouseState, among: set[ModelName]
) -> dict[ModelName, IntervalSet]:
    window = Window(
        warehouse.store.database.clock.now(), default_start=warehouse.settings.start_time
    )
    snapshots = in_order(
        {name: state.snapshots[entry.snapshot_id] for name, entry in old.entries.items()}
    )
    starts = infer_starts(snapshots, window)
    out: dict[ModelName, IntervalSet] = {}
    for name, snapshot in snapshots.items():
        table_id = old.entries[name].table_id
        if table_id is not None and name in among:
            filled = state.tables[table_id].available
            missing = missing_intervals(snapshot, filled, window, starts, ALWAYS)
            if missing:
                out[name] = missing
    return out
