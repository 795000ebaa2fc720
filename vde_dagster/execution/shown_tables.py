"""Which physical tables somebody can read through a view, and which must wait to be read."""

from __future__ import annotations

from vde_dagster.planning.plan import Plan
from vde_dagster.project.names import ModelName
from vde_dagster.state import StateStore


def shown_tables(store: StateStore) -> frozenset[str]:
    """Return the ids of the tables that the current version of any environment shows."""
    return frozenset(
        entry.table_id
        for environment in store.environments()
        for entry in environment.entries.values()
        if entry.table_id
    )


def waiting_tables(plan: Plan, shown: frozenset[str]) -> frozenset[str]:
    """Return the ids of the tables whose new rows may be seen only with the plan's publication.

    Those are the shown ones that the plan writes, and whatever it computes from them: when the
    plan is given up, a table that was filled from rows which nobody published must not stay.

    Args:
        plan: The plan, with the tables that exist.
        shown: The tables that an environment shows.
    """
    waiting: set[str] = set()
    unpublished: set[ModelName] = set()
    before = -1
    while len(unpublished) > before:
        before = len(unpublished)
        for model in plan.models:
            if model.snapshot_id is None:
                continue
            reads = bool(unpublished & set(plan.snapshots[model.snapshot_id].parents))
            if model.table is None:
                if reads:
                    unpublished.add(model.name)
                continue
            if model.builds and (reads or model.table.id in shown):
                waiting.add(model.table.id)
            if model.table.id in waiting:
                unpublished.add(model.name)
    return frozenset(waiting)
