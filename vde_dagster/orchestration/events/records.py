"""Writes to Dagster's storage: named side effects that write each event once despite retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import dagster as dg

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import (
    AssetMaterializationPlannedData,
    DagsterEvent,
    DagsterEventType,
    make_new_run_id,
    store_materializations,
)
from vde_dagster.orchestration.events.secrets import without_secrets
from vde_dagster.orchestration.names import EVALUATION, PUBLISHED, Names
from vde_dagster.state.db.effects import Effects
from vde_dagster.state.db.outbox import OutboxRecord
from vde_dagster.state.store import StateStore

SENSOR = "sensor"
"""Origin of records that sensors write, in place of a run's id."""
FINISHED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
UNFINISHED = [status for status in dg.DagsterRunStatus if status not in FINISHED]
E = TypeVar("E")


def passing_events(effects: Effects, events: Iterable[E]) -> Iterator[E]:
    """Yield events to a step, so that tests can intercept each event."""
    for event in events:
        with effects.at("dagster.event"):
            # Dagster stores each event before the next one begins.
            yield event


@dataclass(frozen=True, slots=True)
class NewPartition:
    definition: dg.DynamicPartitionsDefinition
    key: str


BATCH = 500
"""Maximum number of materializations that are written together."""


@dataclass(frozen=True, slots=True)
class FilledPartitions:
    """Materializations of one model, in the order of their partitions, to write together."""

    events: tuple[dg.AssetMaterialization, ...]

    @classmethod
    def in_batches(cls, events: Iterable[dg.AssetMaterialization]) -> Iterator[FilledPartitions]:
        # Sorting keeps the order of the events of one partition.
        found = sorted(events, key=lambda event: str(event.partition))
        for start in range(0, len(found), BATCH):
            yield cls(tuple(found[start : start + BATCH]))


@dataclass(frozen=True, slots=True)
class WipedAsset:
    # Dagster cannot delete the events of a single partition.
    key: dg.AssetKey
    partitions: int


@dataclass(frozen=True, slots=True)
class FailedWork:
    """Partitions to mark as failed in Dagster, because their work failed.

    Args:
        message: Error for the run's log.
        tags: Tags of the run that represents the failed work in Dagster.
        partitions: Failed partitions, by asset.
    """

    # Dagster marks partitions as failed only through a failed run.
    message: str
    tags: Mapping[str, str]
    partitions: Mapping[dg.AssetKey, Sequence[str]]


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """Marker after the events of one part of a large publication."""

    # A later call can continue after this part.
    key: str


StepContext = dg.OpExecutionContext | dg.AssetExecutionContext
AssetEvent = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation
Projected = AssetEvent | FilledPartitions | NewPartition | WipedAsset | FailedWork | FinishedPart
"""Dagster's form of an outbox record."""
_LATEST = 50
"""Maximum number of latest observations or check results to compare with a new event."""


@dataclass
class Reporter:
    """Writes events to Dagster without a run, unless Dagster already has the events."""

    workspace: Workspace
    instance: dg.DagsterInstance
    written: Counter[str] = field(default_factory=Counter)

    @property
    def names(self) -> Names:
        return Names.from_settings(self.workspace.settings)

    @property
    def effects(self) -> Effects:
        return self.workspace.store.database.effects

    def report(self, projected: Projected) -> bool:
        """Write missing events, and return whether any event was written."""
        if isinstance(projected, FinishedPart):
            return False
        if isinstance(projected, NewPartition):
            self.add(projected.definition, [projected.key])
            return False
        if isinstance(projected, WipedAsset):
            self.written["wiped"] += projected.partitions
            with self.effects.at("dagster.wipe"):
                self.instance.wipe_assets([projected.key])
            return True
        if isinstance(projected, FailedWork):
            run = self._failed_run(projected)
            if run is not None:
                self.record_planned_partitions(run, projected.partitions)
            return run is not None
        if isinstance(projected, FilledPartitions):
            self.write(projected)
            return True
        events = self.missing_events(projected)
        self.written[self._kind(projected)] += bool(events)
        for event in events:
            self.write_alone(event)
        return bool(events)

    def write_alone(self, event: AssetEvent) -> None:
        """Write an event, even if Dagster already has an equal event."""
        with self.effects.at("dagster.event"):
            self.instance.report_runless_asset_event(without_secrets(event))

    def write(self, filled: FilledPartitions, step: StepContext | None = None) -> None:
        """Write materializations as events of a step, or without a run."""
        self.written["materializations"] += len(filled.events)
        events = [without_secrets(event) for event in filled.events]
        with self.effects.at("dagster.event"):
            store_materializations(self.instance, events, step)

    def record_planned_partitions(
        self, run: dg.DagsterRun, partitions: Mapping[dg.AssetKey, Sequence[str]]
    ) -> None:
        """Record that a run plans to materialize partitions.

        Dagster shows each partition as failed if the run fails without materializing it.
        """
        # Dagster does this itself only for the assets of asset jobs.
        for key, partition in ((key, name) for key, names in partitions.items() for name in names):
            event = DagsterEvent(
                event_type_value=DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value,
                job_name=run.job_name,
                message=f"{run.job_name} intends to materialize asset {key.to_string()}",
                event_specific_data=AssetMaterializationPlannedData(key, partition=partition),
            )
            with self.effects.at("dagster.event"):
                self.instance.report_dagster_event(event, run_id=run.run_id)

    def delete_run(self, run_id: str) -> None:
        with self.effects.at("dagster.run.delete"):
            self.instance.compute_log_manager.delete_logs(prefix=[run_id])
            self.instance.delete_run(run_id)

    def add(self, definition: dg.DynamicPartitionsDefinition, keys: Sequence[str]) -> None:
        if keys:
            with self.effects.at("dagster.partitions.add"):
                self.instance.add_dynamic_partitions(str(definition.name), list(keys))

    def add_plan(self, plan_id: str) -> None:
        # With its partitions, the plan can be read, approved and rejected.
        for definition in (self.names.plans, self.names.rejections):
            self.add(definition, [plan_id])

    def delete(self, definition: dg.DynamicPartitionsDefinition, key: str) -> None:
        with self.effects.at("dagster.partitions.delete"):
            self.instance.delete_dynamic_partition(str(definition.name), key)

    def missing_events(self, event: AssetEvent) -> list[AssetEvent]:
        """Return the event if Dagster does not have it, otherwise an empty list.

        An older version's event is followed by the event of the environment's newest version, so
        that Dagster still shows the newest version.
        """
        kind, newest = self._kind(event), list[AssetEvent]()
        for known in self._recorded_events(event):
            if kind == "checks":
                same = known.metadata.get(EVALUATION) == event.metadata[EVALUATION]
            elif kind == "environments":
                same = known.metadata["vde/publication"] == event.metadata["vde/publication"]
                if not same and _version(known) < _version(event):
                    break
                # Dagster's page shows the last event written. After the event of an older version,
                # the latest version's event is therefore written again.
                newest = newest or [known]
            else:
                # A partition of a plan has at most one event per type: plan, publication, approval,
                # rejection.
                same = PUBLISHED not in event.metadata or PUBLISHED in known.metadata
            if same:
                return []
        return [event, *newest]

    def _kind(self, event: AssetEvent) -> str:
        if not isinstance(event, dg.AssetMaterialization):
            return "checks"
        return "environments" if event.asset_key == self.names.environment_key else "plans"

    def _recorded_events(self, event: AssetEvent) -> Iterator[AssetEvent]:
        if isinstance(event, dg.AssetCheckEvaluation):
            history = self.instance.event_log_storage.get_asset_check_execution_history(
                event.asset_check_key, limit=_LATEST
            )
            for record in history:
                # Planned evaluations of unfinished runs have no result.
                if isinstance(record.evaluation, dg.AssetCheckEvaluation):
                    yield record.evaluation
            return
        partitions = [event.partition] if event.partition is not None else None
        wanted = dg.AssetRecordsFilter(event.asset_key, asset_partitions=partitions)
        if isinstance(event, dg.AssetObservation):
            observed = self.instance.fetch_observations(wanted, limit=_LATEST).records
            yield from (one.asset_observation for one in observed if one.asset_observation)
            return
        for filled in all_materializations(self.instance, wanted, _LATEST):
            if filled.asset_materialization is not None:
                yield filled.asset_materialization

    def _failed_run(self, failed: FailedWork) -> dg.DagsterRun | None:
        tags = {**self.names.tags, **failed.tags}
        if self.instance.get_runs_count(dg.RunsFilter(tags=tags)):
            return None
        run = dg.DagsterRun(
            job_name=self.names.named("vde_apply_job"),
            run_id=make_new_run_id(),
            status=dg.DagsterRunStatus.FAILURE,
            tags=tags,
        )
        with self.effects.at("dagster.event"):
            self.instance.add_run(run)
            self.instance.report_engine_event(failed.message, run)
        return run


def all_materializations(
    instance: dg.DagsterInstance, wanted: dg.AssetRecordsFilter | dg.AssetKey, limit: int = 1000
) -> Iterator[dg.EventLogRecord]:
    """Yield records of materializations, newest first, and read `limit` records at a time."""
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(wanted, limit=limit, cursor=cursor)
        yield from page.records
        if not page.has_more:
            return
        cursor = page.cursor


def _version(event: AssetEvent) -> int:
    found = event.metadata["vde/version"].value
    return found if isinstance(found, int) else 0


def run_origin(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return the origin that identifies a run of this Dagster instance in outbox records."""
    named = getattr(instance.run_storage, "get_run_storage_id", None)
    return f"{named() if named is not None else 'dagster'}/{run_id}"


@dataclass
class Origins:
    """Finds the run or process that wrote an outbox record."""

    instance: dg.DagsterInstance
    _statuses: dict[str, dg.DagsterRunStatus | None] = field(default_factory=dict)

    def find_run(self, origin: str) -> str | None:
        """Return the id of an origin's run, or `SENSOR` if the origin is a sensor.

        Returns None if the origin is not in this Dagster instance.
        """
        prefix = run_origin(self.instance, "")
        return origin.removeprefix(prefix) if origin.startswith(prefix) else None

    def is_working(self, run_id: str) -> bool:
        return self._status(run_id) in UNFINISHED

    def has_written_all(self, run_id: str) -> bool:
        return run_id == SENSOR or self._status(run_id) == dg.DagsterRunStatus.SUCCESS

    def _status(self, run_id: str) -> dg.DagsterRunStatus | None:
        # The status of an ended run is final; a later `Origins` reads the others again.
        if run_id not in self._statuses:
            run = self.instance.get_run_by_id(run_id) if run_id != SENSOR else None
            self._statuses[run_id] = run.status if run is not None else None
        return self._statuses[run_id]


def working_runs(instance: dg.DagsterInstance, store: StateStore) -> dict[str, list[OutboxRecord]]:
    """Return the runs that may still write events, with the records that they have written."""
    unfinished = instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
    ids = [run.run_id for run in unfinished]
    found = {run_id: store.outbox.by(run_origin(instance, run_id)) for run_id in ids}
    return {run_id: own for run_id, own in found.items() if own}


def busy_plans(instance: dg.DagsterInstance, store: StateStore) -> frozenset[str]:
    """Return the ids of the plans that runs of an instance work on."""
    # These runs write the events of the plans.
    records = (item for own in working_runs(instance, store).values() for item in own)
    return frozenset(str(item.subject["plan"]) for item in records if item.subject.get("plan"))
