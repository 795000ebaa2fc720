"""Planning only some of a project's changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import PRODUCTION
from vde_dagster.project.model import Model
from vde_dagster.project.selection import select

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse


def select_models(
    warehouse: Warehouse,
    environment: str,
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
) -> dict[ModelName, Model]:
    """Return the project in which only selected models changed.

    A model that is not selected keeps the definition that the environment (or, for a new one,
    production) has; one that exists in neither is left out unless a selected model reads it.

    Args:
        warehouse: Has the state store, and the project's folder.
        environment: The environment to be planned.
        models: The project's models.
        patterns: See `project.selection`.

    Raises:
        UsageError: A pattern selects nothing.
    """
    store = warehouse.store
    base = store.environments.get(environment) or store.environments.get(PRODUCTION)
    stored = (
        store.snapshots.load([entry.snapshot_id for entry in base.entries.values()]) if base else {}
    )
    old = (
        {name: stored[entry.snapshot_id].model for name, entry in base.entries.items()}
        if base
        else {}
    )
    chosen = select({**old, **models}, patterns, warehouse.changed_files)
    out = {name: model for name, model in models.items() if name in chosen}
    out |= {name: model for name, model in old.items() if name not in chosen}
    waiting = [name for model in out.values() for name in _named(model)]
    while waiting:
        name = waiting.pop()
        if name not in out and name in models:
            out[name] = models[name]
            waiting += _named(models[name])
    return out


def _named(model: Model) -> tuple[ModelName, ...]:
    return *model.depends_on, *model.audited_against
