"""Publications as events: the environment's version, views, and tables with changed parents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from typing import Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.environments.compare import changes_until
from vde_dagster.orchestration.dagster_private import DATA_VERSION_TAG
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.fills import ServedModel, filled_event, filled_partitions
from vde_dagster.orchestration.events.provenance import (
    ProjectionContext,
    input_tags,
    provenance_tags,
    reads_other_inputs,
)
from vde_dagster.orchestration.events.records import FilledPartitions, NewPartition, Projected
from vde_dagster.orchestration.models.live import Combination
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG
from vde_dagster.orchestration.pages.environment_page import LISTED, environment_metadata
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, production_first
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable

Preview = Callable[[str, Snapshot], Mapping[str, Any]]
"""Builds metadata with sample rows of a model's view.

Takes the environment's name and the model's snapshot.
"""


CHECKED = 200
"""Number of models whose checks are one part of a publication's events."""


def publication_parts(
    context: ProjectionContext,
    environment: Environment,
    built: Set[ModelName],
    preview: Preview | None = None,
) -> Iterator[tuple[str, Iterator[Projected]]]:
    """Yield (name, events) of each part of a publication: models, the environment, and checks.

    A model in `built` has no part, because its fills have events already.
    """
    store, combination = context.store, context.combination(environment)
    moved = store.versions.changed(environment.name, environment.version)
    tags = publication_tags(environment)
    sample = partial(preview, environment.name) if preview is not None else None
    for name, (snapshot, table) in combination.served.items():
        # Fills of the built models have their events already.
        if (
            name not in built
            and {name, *snapshot.parents, *combination.indirect_parents(snapshot)} & moved
        ):
            decides = partial(_decides, context, environment, snapshot, table)
            confirmed = confirmed_events(context, snapshot, combination, tags, sample)
            yield str(name), _events_if(decides, confirmed)
    yield "environment", _environment_events(context, environment)
    names = list(combination.served)
    for start in range(0, len(names), CHECKED):
        only = names[start : start + CHECKED]
        yield f"checks {start}", AuditEvents(context).published(environment, only)


def _events_if(
    decides: Callable[[], bool], events: Iterator[FilledPartitions]
) -> Iterator[Projected]:
    if decides():
        yield from events


def _environment_events(
    context: ProjectionContext, environment: Environment
) -> Iterator[Projected]:
    yield NewPartition(context.names.environments, environment.name)
    yield environment_event(context, environment)


def publication_tags(environment: Environment) -> dict[str, str]:
    tags = {ENVIRONMENT_TAG: environment.name}
    return {**tags, PLAN_TAG: environment.plan_id} if environment.plan_id else tags


def confirmed_events(
    context: ProjectionContext,
    snapshot: Snapshot,
    combination: Combination,
    tags: Mapping[str, str],
    sample: Callable[[Snapshot], Mapping[str, Any]] | None = None,
) -> Iterator[FilledPartitions]:
    """Yield events with a model's inputs, unless the model's latest event has the same inputs."""
    table, key = combination.table(snapshot.name), snapshot.table_version
    served = ServedModel(snapshot, table, combination, ()) if table is not None else None
    filled = filled_partitions(context, served) if served is not None else []
    if not filled and not snapshot.is_virtual:
        return
    # The data version stays, so nothing downstream becomes stale. With the newest record as
    # pointer, Dagster counts no earlier event of a parent as a change.
    pointer = context.newest_record() if filled else None
    inputs = input_tags(context, combination, snapshot, pointer)
    # Partitions are confirmed in order, so the last partition represents all.
    asset = context.catalog.key(snapshot.name)
    latest = context.latest(asset, filled[-1].partition if filled else key)
    tags_then = (latest.event_log_entry.tags if latest is not None else None) or {}
    if latest and not reads_other_inputs(context, combination, snapshot, inputs, tags_then):
        return
    if served is None:
        event = dg.AssetMaterialization(
            asset_key=asset,
            partition=key,
            metadata={"vde/version": key, **(sample(snapshot) if sample else {})},
            tags={**provenance_tags(key, key, inputs), **tags},
        )
        yield FilledPartitions((event,))
        return
    facts = {"vde/reused": True, "vde/table": str(served.table.ref)}
    yield from FilledPartitions.in_batches(
        filled_event(context, served, item, inputs, metadata=facts, tags=tags) for item in filled
    )


def environment_event(
    context: ProjectionContext, environment: Environment
) -> dg.AssetMaterialization:
    """Return the event with the views of an environment's new version."""
    store, name, version = context.store, environment.name, environment.version
    previous = store.versions.at(name, version - 1) if version > 1 else None
    production = environment if name == PRODUCTION else store.environments.get(PRODUCTION)
    return dg.AssetMaterialization(
        asset_key=context.names.environment_key,
        partition=name,
        description=f"version {version}",
        metadata=environment_metadata(
            environment,
            context.combination(environment),
            context.combination(previous) if previous is not None else None,
            context.names,
            production.tables if production else frozenset(),
            store.versions.entry_times(name, version),
            # No lakehouse: reading metadata files only for changes by other tools costs too much.
            changes_until(store, None, name, version, LISTED),
            store.mirror.standings().get(name),
        ),
        tags={DATA_VERSION_TAG: environment.publication_id, **publication_tags(environment)},
    )


def _decides(
    context: ProjectionContext,
    environment: Environment,
    snapshot: Snapshot,
    table: PhysicalTable | None,
) -> bool:
    shown = context.store.shown
    if table is None:
        names = shown.environments_with_snapshot(snapshot.id)
    else:
        found = shown.entries_on_tables([table.id])
        names = [name for name, entry in found if entry.name == snapshot.name]
    first = min([*names, environment.name], key=production_first)
    return first == environment.name
