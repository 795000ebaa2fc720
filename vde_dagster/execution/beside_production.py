"""The project's snapshots as a plan for production would have them: what goes on goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import PRODUCTION

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.snapshot import Snapshot
    from vde_dagster.project.model import Model


def beside_production(
    warehouse: Warehouse,
    models: Mapping[ModelName, Model],
    snapshots: dict[ModelName, Snapshot],
) -> dict[ModelName, Snapshot]:
    """Let models that change in place go on with what production shows of them.

    What a plan would refuse or warn of is left to the plan.

    Args:
        warehouse: Where production is.
        models: The definitions.
        snapshots: Their snapshots, as they are on their own.
    """
    if all(snapshot.model.kind.in_place is None for snapshot in snapshots.values()):
        return snapshots
    production = warehouse.store.environments.get(PRODUCTION)
    if production is None:
        return snapshots
    from vde_dagster.execution.gather_state import find_previews, with_pinned
    from vde_dagster.planning.forward_only import ForwardOnly, is_concerned
    from vde_dagster.planning.options import NOTHING_SAID
    from vde_dagster.planning.warehouse_state import WarehouseState

    entries = {
        name: entry
        for name, entry in production.entries.items()
        if name in snapshots and snapshots[name].model.kind.in_place is not None
    }
    state = WarehouseState(
        None,
        replace(production, entries=entries),
        warehouse.store.snapshots.load(sorted({e.snapshot_id for e in entries.values()})),
        warehouse.store.tables.load(sorted({e.table_id for e in entries.values() if e.table_id})),
        previews=find_previews(warehouse.store, snapshots),
    )
    state = with_pinned(warehouse.store, state, snapshots)
    if not is_concerned(snapshots, state, NOTHING_SAID):
        return snapshots
    resolved = ForwardOnly(state, NOTHING_SAID)
    return warehouse.snapshots_of(models, None, [], revise=resolved.revise)
