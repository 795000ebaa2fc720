"""The physical tables that somebody can read through an environment's view."""

from __future__ import annotations

from vde_dagster.state import StateStore


def shown_tables(store: StateStore) -> frozenset[str]:
    """Return the ids of the tables that the current version of any environment shows."""
    return frozenset(
        entry.table_id
        for environment in store.environments()
        for entry in environment.entries.values()
        if entry.table_id
    )
