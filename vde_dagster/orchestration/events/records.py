"""Writes to Dagster's storage: each a named side effect, each event once however often tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent, DagsterEventType
from dagster._core.utils import make_new_run_id

from vde_dagster.orchestration.events.checks import EVALUATION
from vde_dagster.orchestration.events.projection import DATA_VERSION
from vde_dagster.orchestration.names import PUBLISHED, Names
from vde_dagster.state.db.effects import Effects

if TYPE_CHECKING:
    from vde_dagster.state import StateStore


# What marks a partition of a failed run; Dagster does not export it.


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


RunlessEvent = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
_LATEST = 50
"""How many of an asset's latest events are looked at for one that may be there already."""


@dataclass
class Reporter:
    """Writes events of what is true in the state, unless Dagster has them.

    Args:
        store: Its port is passed by every write.
        names: The project's assets.
    """

    store: StateStore
    instance: dg.DagsterInstance
    names: Names
    materializations: int = 0
    environments: int = 0
    checks: int = 0
    plans: int = 0

    @property
    def written(self) -> int:
        """How many events were written."""
        return self.materializations + self.environments + self.checks + self.plans

    def report(self, event: RunlessEvent) -> bool:
        """Write an event that says what it is of, unless it is there; say whether it was written.

        A check's evaluation and an observation say it in their metadata, an environment's event
        by its data version. Other materialisations are written: who asks for them has looked.
        """
        if isinstance(event, dg.AssetCheckEvaluation):
            if self._is_evaluated(event):
                return False
            self.checks += 1
        elif isinstance(event, dg.AssetObservation):
            if self._is_observed(event):
                return False
            self.checks += 1
        elif event.asset_key == self.names.environment_key:
            known, newest = self._publications(event)
            if known:
                return False
            self.environments += 1
            if newest is not None:
                # The latest event is what the page shows: it is written again behind a late one.
                report_event(self.store.database.effects, self.instance, event)
                event = newest
        else:
            self.materializations += 1
        report_event(self.store.database.effects, self.instance, event)
        return True

    def report_plan(self, event: dg.AssetMaterialization) -> bool:
        """Write the page of a plan or its approval, unless the partition has one."""
        if self.has(event.asset_key, str(event.partition)):
            return False
        self.plans += 1
        report_event(self.store.database.effects, self.instance, event)
        return True

    def report_published(self, page: dg.AssetMaterialization) -> bool:
        """Write the page of a published plan, unless the partition has one that says so."""
        wanted = dg.AssetRecordsFilter(page.asset_key, asset_partitions=[str(page.partition)])
        for record in self.instance.fetch_materializations(wanted, limit=_LATEST).records:
            known = record.asset_materialization
            if known is not None and PUBLISHED in known.metadata:
                return False
        self.plans += 1
        report_event(self.store.database.effects, self.instance, page)
        return True

    def has(self, asset: dg.AssetKey, partition: str) -> bool:
        """Say whether a partition has any materialisation."""
        wanted = dg.AssetRecordsFilter(asset, asset_partitions=[partition])
        return bool(self.instance.fetch_materializations(wanted, limit=1).records)

    def _is_evaluated(self, event: dg.AssetCheckEvaluation) -> bool:
        wanted = event.metadata[EVALUATION].value
        history = self.instance.event_log_storage.get_asset_check_execution_history(
            event.asset_check_key, limit=_LATEST
        )
        for record in history:
            known = record.evaluation  # or what was planned, of a run that goes on
            if isinstance(known, dg.AssetCheckEvaluation):
                told = known.metadata.get(EVALUATION)
                if told is not None and told.value == wanted:
                    return True
        return False

    def _is_observed(self, event: dg.AssetObservation) -> bool:
        wanted = event.metadata[EVALUATION].value
        partitions = [event.partition] if event.partition is not None else None
        records = self.instance.fetch_observations(
            dg.AssetRecordsFilter(event.asset_key, asset_partitions=partitions), limit=_LATEST
        ).records
        known = [record.asset_observation for record in records]
        return any(
            EVALUATION in one.metadata and one.metadata[EVALUATION].value == wanted
            for one in known
            if one is not None
        )

    def _publications(
        self, event: dg.AssetMaterialization
    ) -> tuple[bool, dg.AssetMaterialization | None]:
        """Say whether a publication is known, and return the latest known one if it is newer."""
        wanted = (event.tags or {})[DATA_VERSION]
        version = _version(event)
        newer: dg.AssetMaterialization | None = None
        partition = dg.AssetRecordsFilter(event.asset_key, asset_partitions=[str(event.partition)])
        cursor: str | None = None
        while True:
            page = self.instance.fetch_materializations(partition, limit=_LATEST, cursor=cursor)
            for record in page.records:
                known = record.asset_materialization
                assert known is not None
                if (known.tags or {}).get(DATA_VERSION) == wanted:
                    return True, None
                if _version(known) > version and newer is None:
                    newer = known
                if _version(known) < version:
                    return False, newer
            if not page.has_more:
                return False, newer
            cursor = page.cursor


def _version(event: dg.AssetMaterialization) -> int:
    found = event.metadata["vde/version"].value
    return found if isinstance(found, int) else 0
