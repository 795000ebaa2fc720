"""The views that a publication creates, replaces and drops."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import Entry
from vde_dagster.planning.plan import PlannedViews
from vde_dagster.planning.plan_request import PlanRequest
from vde_dagster.planning.resolver import Binding, Resolver
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable, TableRef
from vde_dagster.planning.views import has_view, view_signature
from vde_dagster.planning.warehouse_state import WarehouseState


def planned_views(
    request: PlanRequest,
    snapshots: Mapping[ModelName, Snapshot],
    tables: Mapping[ModelName, PhysicalTable],
    entries: Mapping[ModelName, Entry],
    state: WarehouseState,
) -> PlannedViews:
    """Compare the views of a target with those of the environment, without knowing their types.

    Args:
        request: What the plan is asked for.
        snapshots: The target.
        tables: The tables that serve it.
        entries: The target's entries.
        state: What exists.
    """
    after = Resolver(
        request.environment,
        entries,
        {snapshot.id: snapshot for snapshot in snapshots.values()},
        {table.id: table for table in tables.values()},
        suffix=request.suffix,
        mode=request.mode,
    )
    target = state.target
    before = (
        Resolver(
            request.environment,
            target.entries,
            state.snapshots,
            state.tables,
            suffix=target.suffix,
            mode=target.mode,
        )
        if target
        else None
    )
    same = _unchanged_names(after, before)
    created: list[TableRef] = []
    replaced: list[TableRef] = []
    dropped: list[TableRef] = []
    for name in entries:
        if name in same:
            continue
        new, old = _shows(after, name), before is not None and _shows(before, name)
        if new and not old:
            created.append(after.views.ref(name))
        elif before is None or not old:
            continue
        elif not new:
            dropped.append(before.views.ref(name))
        elif after.views.ref(name) != before.views.ref(name):
            created.append(after.views.ref(name))
            dropped.append(before.views.ref(name))
        else:
            catalog = request.catalog
            # Rendering costs milliseconds a view; a new environment needs none of it.
            if view_signature(name, after, catalog) != view_signature(name, before, catalog):
                replaced.append(after.views.ref(name))
    if before:
        for name in before.entries:
            if name not in entries and _shows(before, name):
                dropped.append(before.views.ref(name))
        # Whether these have views is not known; the publication drops what is there.
        dropped += (before.views.ref(name) for name in state.left_out if name not in entries)
    return PlannedViews(
        tuple(sorted(created, key=str)),
        tuple(sorted(replaced, key=str)),
        tuple(sorted(dropped, key=str)),
    )


def _shows(resolver: Resolver, name: ModelName) -> bool:
    """Say whether an environment has a view of a model."""
    entry = resolver.entries.get(name)
    # Resolving would map the columns of every table, which this does not ask for.
    return entry is not None and has_view(Binding(resolver.snapshots[entry.snapshot_id]))


def _unchanged_names(after: Resolver, before: Resolver | None) -> set[ModelName]:
    """Return the models whose view is the same without rendering it.

    That is so when the entry is the same and, for queries that are inlined, those of all its
    parents are too.
    """
    if before is None or not after.views.same_as(before.views):
        return set()
    same: set[ModelName] = set()
    for name, entry in after.entries.items():
        if before.entries.get(name) != entry:
            continue
        snapshot = after.snapshots[entry.snapshot_id]
        inlines = entry.table_id is None and not snapshot.model.kind.is_external
        if not inlines or all(parent in same for parent in snapshot.parents):
            same.add(name)
    return same
