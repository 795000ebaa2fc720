"""What environments hold at earlier states, looked up where it is to be read or shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.pinned_tables import pinned_tables

if TYPE_CHECKING:
    from collections.abc import Collection

    from vde_dagster.base.names import ModelName
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.resolver import Resolver


def with_held(
    warehouse: Warehouse, resolver: Resolver, only: Collection[ModelName] | None = None
) -> Resolver:
    """Add to a resolver what is to be known of the states that its entries hold tables at.

    Args:
        warehouse: The project's warehouse.
        resolver: The environment.
        only: The models that are asked for, or None for all; queries read others.

    Raises:
        UsageError: The data of such a state are gone.
    """
    entries = list(resolver.entries.values())
    if only is not None and all(resolver.entries[one].table_id for one in only):
        entries = [resolver.entries[one] for one in only]
    held = {
        entry.table_id: (entry.name, entry.held)
        for entry in entries
        if entry.table_id is not None and entry.held is not None
    }
    wanted = {one: held[one] for one in held.keys() - resolver.pinned.keys()}
    if not wanted:
        return resolver
    states = {one: (resolver.tables[one].ref, held) for one, (_, held) in sorted(wanted.items())}
    found = pinned_tables(warehouse.lakehouse, states)
    gone = sorted(name for one, (name, _) in wanted.items() if one not in found)
    if gone:
        raise UsageError(
            f"the data that '{resolver.environment}' shows of {', '.join(map(str, gone))} are "
            "gone: another program than vde expired or dropped them",
            hint="`vde fsck` says what is damaged; restore a backup",
        )
    return replace(resolver, pinned={**resolver.pinned, **found})
