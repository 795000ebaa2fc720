"""Publishing an earlier version of an environment again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.errors import UsageError
from vde_dagster.execution.gather_state import complete_state
from vde_dagster.execution.lease_names import environment_lease
from vde_dagster.execution.publish import define_views, dropped_views
from vde_dagster.lakehouse import Publication
from vde_dagster.planning.environment import Environment
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.missing import ALWAYS, Window, infer_starts, missing_intervals
from vde_dagster.planning.order import in_order
from vde_dagster.planning.planner import WarehouseState
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.views import view_refs
from vde_dagster.project.names import ModelName

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback published.

    Args:
        environment: The environment's new version, equal in content to an old one.
        restored: The old version's number.
        missing: What has fallen due since and is not filled, by model; `vde run` fills it.
    """

    environment: Environment
    restored: int
    missing: dict[ModelName, IntervalSet]


def rollback(
    workspace: Workspace, environment: str, version: int | None, who: str
) -> RollbackResult:
    """Publish an earlier version of an environment in one transaction; see `Workspace.rollback`."""
    store = workspace.store
    if not store.has_environment(environment):
        raise UsageError(
            f"there is no environment '{environment}'", hint=f"plan it: vde plan {environment}"
        )
    owner = f"{who}, rollback, {uuid.uuid4().hex[:8]}"
    with store.holding_lease(environment_lease(environment), owner) as held:
        current = store.environment(environment)
        assert current is not None
        old = _find(workspace, current, version)
        state = complete_state(store, old, None, ())
        _check_tables(old, state)
        resolver = Resolver(environment, old.entries, state.snapshots, state.tables)
        refs = view_refs(resolver)
        moved = workspace.lakehouse.moved_views(environment)
        # The other views are as they were published, and as they have to be.
        differing = _differing(current, old, state) | {n for n, ref in refs.items() if ref in moved}
        views = define_views(resolver, workspace.settings, store, workspace.engine, differing)
        published = workspace.lakehouse.publish(
            Publication(
                environment=Environment(
                    name=environment,
                    version=current.version + 1,
                    entries=old.entries,
                    publication_id=uuid.uuid4().hex,
                    published_at=store.clock.now(),
                    published_by=who,
                    expires_at=current.expires_at,
                    note=f"rollback to {old.version}",
                ),
                base_version=current.version,
                views=views,
                dropped=dropped_views(current, environment, set(refs.values())),
                fast_forwards=(),
                plan_id=None,
                leases=(held.lease,),
            )
        )
    return RollbackResult(published, old.version, _missing(workspace, old, state))


def _find(workspace: Workspace, current: Environment, version: int | None) -> Environment:
    store = workspace.store
    if version is not None:
        old = store.environment_at(current.name, version)
        if old is None or version >= current.version:
            kept = [str(v.version) for v in store.history(current.name)]
            raise UsageError(
                f"environment '{current.name}' has no earlier version {version}",
                hint=f"its versions are {', '.join(kept)}",
            )
        return old
    for number in store.differing_versions(current.name, current.version):
        old = store.environment_at(current.name, number)
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
    workspace: Workspace, old: Environment, state: WarehouseState
) -> dict[ModelName, IntervalSet]:
    window = Window(workspace.store.clock.now(), default_start=workspace.settings.start_time)
    snapshots = in_order(
        {name: state.snapshots[entry.snapshot_id] for name, entry in old.entries.items()}
    )
    starts = infer_starts(snapshots, window)
    out: dict[ModelName, IntervalSet] = {}
    for name, snapshot in snapshots.items():
        table_id = old.entries[name].table_id
        if table_id is not None:
            filled = state.tables[table_id].intervals
            missing = missing_intervals(snapshot, filled, window, starts, ALWAYS)
            if missing:
                out[name] = missing
    return out
