"""The changes of a model from one version of an environment to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.compare import compare_sides
from vde_dagster.execution.changes.model_changes import ModelChanges
from vde_dagster.execution.changes.sides import read_side
from vde_dagster.execution.published_version import published_version

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environment import Environment


def changes_between(
    warehouse: Warehouse, environment: str, model: ModelName, since: int, until: int | None
) -> ModelChanges:
    """Find out how the changes of a model from one version to another are read; reads no row.

    Args:
        warehouse: The project's warehouse.
        environment: The environment.
        model: The model.
        since: The version that the reader has; 0 for nothing yet. It may be the later one.
        until: The version that the reader wants; None for the current one.

    Raises:
        UsageError: There is no such environment, version to go to, or model in either, or the
            wanted version's data are gone.
    """
    later = _wanted(warehouse, environment, until)
    earlier = warehouse.store.versions.at(environment, since) if since else None
    if since < 0 or (since > later.version and earlier is None):
        raise UsageError(
            f"environment '{environment}' has had no version {since}",
            hint=f"see: vde history {environment}",
        )
    after = read_side(warehouse, later, model)
    ended = bool(since) and warehouse.store.versions.is_end(environment, since)
    known = earlier is not None and not ended
    why = None
    if since and not known and not ended:  # One that ended the environment showed nothing.
        why = f"version {since} of '{environment}' is kept no longer"
    before = None
    if known and earlier is not None:
        if after is None and model not in earlier.entries:
            raise _no_model(environment, model, since, later.version)
        try:
            before = read_side(warehouse, earlier, model)
        except UsageError as error:
            if after is None:
                raise
            why = error.message
    if after is None and before is None:
        raise _no_model(environment, model, since, later.version)
    return compare_sides(warehouse.settings.catalog, later, model, since, before, after, why)


def _wanted(warehouse: Warehouse, environment: str, until: int | None) -> Environment:
    if until is not None:
        found = published_version(warehouse.store, f"{environment}@{until}")
    else:
        found = warehouse.store.environments.get(environment)
    if found is None:
        from vde_dagster.execution.make_plans import no_environment

        raise no_environment(warehouse.store, environment)
    return found


def _no_model(environment: str, model: ModelName, since: int, until: int) -> UsageError:
    return UsageError(
        f"neither version {since} nor {until} of '{environment}' shows a model {model}",
        hint="`vde info` lists the models, `vde history` the versions",
    )
