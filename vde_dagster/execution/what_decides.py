"""The models that decide what a plan says of some models of an environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName

if TYPE_CHECKING:
    from vde_dagster.planning.environment import Environment
    from vde_dagster.state import StateStore


def what_decides(
    store: StateStore, environment: Environment, names: Iterable[ModelName]
) -> frozenset[ModelName]:
    """Return models with all that they are made of, and those that share a table with one of them.

    Args:
        store: Has the definitions, which are read generation by generation.
        environment: What shows them.
        names: The models; those that it does not show are left out.

    Raises:
        StoreError: A definition cannot be read.
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
