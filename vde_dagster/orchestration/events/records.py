"""What Dagster stores, each by a named side effect: killed anywhere, `vde sync` writes the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import dagster as dg

from vde_dagster.state.effects import Effects

E = TypeVar("E")


def passing_events(effects: Effects, events: Iterable[E]) -> Iterator[E]:
    """Yield events to a step, each within the port: Dagster stores one before it asks for more."""
    for event in events:
        with effects.at("dagster.event"):
            yield event


def report_event(
    effects: Effects,
    instance: dg.DagsterInstance,
    event: dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation,
) -> None:
    """Store an event that belongs to no run."""
    with effects.at("dagster.event"):
        instance.report_runless_asset_event(event)


def add_partitions(
    effects: Effects,
    instance: dg.DagsterInstance,
    definition: dg.DynamicPartitionsDefinition,
    keys: Sequence[str],
) -> None:
    """Add those of the keys that are missing."""
    name = str(definition.name)
    known = set(instance.get_dynamic_partitions(name))
    missing = [key for key in keys if key not in known]
    if missing:
        with effects.at("dagster.partitions.add"):
            instance.add_dynamic_partitions(name, missing)


def delete_partition(
    effects: Effects,
    instance: dg.DagsterInstance,
    definition: dg.DynamicPartitionsDefinition,
    key: str,
) -> None:
    """Take a key away."""
    with effects.at("dagster.partitions.delete"):
        instance.delete_dynamic_partition(str(definition.name), key)


def wipe_asset(effects: Effects, instance: dg.DagsterInstance, key: dg.AssetKey) -> None:
    """Forget every event of an asset."""
    with effects.at("dagster.wipe"):
        instance.wipe_assets([key])
