"""Syncs as assets of Dagster, downstream of their models."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from vde_dagster.api.dagster import AssetCatalog, guarded_step
from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.values import Settings
from vde_dagster.api.workspace import Workspace
from vde_dagster.plugins.sync.definitions import SyncDefinition, read_syncs
from vde_dagster.plugins.sync.syncs import Syncs


class SyncConfig(dg.Config):
    """Run configuration of a sync's asset.

    Args:
        environment: By default prod, or the first environment of the sync if it has no prod.
    """

    environment: str | None = None
    full: bool = False


def make_sync_assets(catalog: AssetCatalog, settings: Settings) -> Iterator[Any]:
    with Workspace.open(settings.root) as workspace:
        definitions = read_syncs(workspace)
    for definition in definitions.values():
        yield _make_asset(catalog, definition)


def _make_asset(catalog: AssetCatalog, definition: SyncDefinition) -> dg.AssetsDefinition:
    names = catalog.names
    all_of = dg.AllPartitionMapping()
    # An update during a run leads to another run.
    updated = dg.AutomationCondition.any_deps_updated()
    requested = dg.AutomationCondition.newly_requested()

    @dg.asset(
        key=names.asset_key("sync", definition.name),
        # Dagster would derive the input's name from a key of any characters.
        ins={
            "source": dg.AssetIn(
                catalog.key(definition.source), dagster_type=dg.Nothing, partition_mapping=all_of
            )
        },
        # A publication, and a rollback, too, is an event of this one.
        deps=[dg.AssetDep(names.environment_key, partition_mapping=all_of)],
        group_name=names.group,
        kinds={definition.sink} if definition.sink in ("postgresql",) else None,
        description=f"Sends changes of {definition.source} to {definition.sink} "
        f"(mode: {definition.mode}) from the environments {', '.join(definition.to)}; "
        f"see {definition.place}.",
        automation_condition=updated.since(requested & ~updated)
        & ~dg.AutomationCondition.in_progress(),
        required_resource_keys={names.resource},
    )
    @guarded_step
    def sync(context: dg.AssetExecutionContext, config: SyncConfig) -> dg.MaterializeResult[Any]:
        workspace = getattr(context.resources, names.resource).get()
        default = PRODUCTION if PRODUCTION in definition.to else next(iter(definition.to))
        environment = config.environment or default
        done = Syncs(workspace).run(definition, environment, full=config.full)
        facts = done.to_json()
        named = ["environment", "since", "until", "sent", "unchanged", "refused"]
        named += ["why"] if done.why else []
        return dg.MaterializeResult(metadata={name: facts[name] for name in named})

    return sync
