"""What Dagster stores, each by a named side effect: killed anywhere, `vde sync` writes the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import dagster as dg

# What marks a partition of a failed run; Dagster does not export it.
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType
from dagster._core.utils import make_new_run_id

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


def plan_materializations(
    effects: Effects,
    instance: dg.DagsterInstance,
    run: dg.DagsterRun,
    key: dg.AssetKey,
    partitions: Iterable[str],
) -> None:
    """Note that a run is to materialise partitions: they are red when it fails without that.

    Dagster itself notes it of the assets of asset jobs only.
    """
    for partition in partitions:
        planned = AssetMaterializationPlannedData(key, partition=partition)
        event = DagsterEvent(
            event_type_value=DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value,
            job_name=run.job_name,
            message=f"{run.job_name} intends to materialize asset {key.to_string()}",
            event_specific_data=planned,
        )
        with effects.at("dagster.event"):
            instance.report_dagster_event(event, run_id=run.run_id)


def failed_run(
    effects: Effects, instance: dg.DagsterInstance, job: str, said: str, tags: Mapping[str, str]
) -> dg.DagsterRun | None:
    """Show work that failed elsewhere as a run; None where there is one with the same tags."""
    if instance.get_runs_count(dg.RunsFilter(tags=dict(tags))):
        return None
    run = dg.DagsterRun(
        job_name=job,
        run_id=make_new_run_id(),
        status=dg.DagsterRunStatus.FAILURE,
        tags=dict(tags),
    )
    with effects.at("dagster.event"):
        instance.add_run(run)
        instance.report_engine_event(said, run)
    return run


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
