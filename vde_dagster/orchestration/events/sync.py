"""Comparison of Dagster with the state to write missing events: `vde sync`, and a first tick."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import DATA_VERSION_TAG
from vde_dagster.orchestration.events.checks import AuditEvents, last_unit_tests, unit_test_event
from vde_dagster.orchestration.events.fills import (
    Filled,
    ServedModel,
    filled_partitions,
    recorded_events,
)
from vde_dagster.orchestration.events.plans import (
    applied_event,
    forget_past,
    page_events,
    rejected_events,
    stored_plan,
)
from vde_dagster.orchestration.events.provenance import (
    Log,
    ProjectionContext,
    data_version,
    input_tags,
)
from vde_dagster.orchestration.events.publication import confirmed_events, environment_event
from vde_dagster.orchestration.events.records import (
    FilledPartitions,
    ForgottenAsset,
    NewPartition,
    Projected,
    Reporter,
    busy_plans,
    run_origin,
)
from vde_dagster.orchestration.models.catalog import load_catalog
from vde_dagster.orchestration.models.recording import Recording, filled_counts, recording_text
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import ENVIRONMENT_TAG
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.state import StateStore

_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION


def taken_back(store: StateStore, environment: Environment) -> set[str]:
    """Return the tables that hold fewer or other rows since a rollback published a version."""
    begun = store.pins.changed_tables(environment.name, environment.version)
    tables = (begun & environment.tables) - environment.pinned_states.keys()
    return tables | store.outdated.after(environment.published_at) if tables else set()


@dataclass
class Comparison:
    """Comparison of Dagster's events with the state, by model."""

    context: ProjectionContext

    def __post_init__(self) -> None:
        self.busy = busy_plans(self.context.instance, self.context.store)

    def tables(self, table_ids: Collection[str]) -> Iterator[Projected]:
        """Yield missing events of some tables; wipe partitions that no table holds."""
        for name, model in self.context.catalog.live.models.items():
            if any(v.table is not None and v.table.id in table_ids for v in model.versions):
                yield from self.model(name, wipe=True)

    def model(self, name: ModelName, *, wipe: bool) -> Iterator[Projected]:
        """Yield a model's missing events; if `wipe`, wipe partitions that no table holds."""
        context, catalog = self.context, self.context.catalog
        shown = [version for version in catalog.live.models[name].versions if version.environments]
        served, held = dict[str, ServedModel](), dict[str, list[Filled]]()
        for version in shown:
            if version.table is not None:
                environment = catalog.live.environments[version.environments[0]]
                combination = context.combination(environment)
                served[version.key] = ServedModel(
                    version.snapshot, version.table, combination, version.environments
                )
                held[version.key] = filled_partitions(context, served[version.key])
        # Read after the state and the runs, to include events of runs that ended meanwhile.
        key, storage = catalog.key(name), context.instance.event_log_storage
        known = storage.get_latest_tags_by_partition(key, _MATERIALIZED, [DATA_VERSION_TAG])
        filled = {key: {item.partition for item in items} for key, items in held.items()}
        gone = [
            partition
            for partition in context.instance.get_materialized_partitions(key)
            if partition not in filled.get(partition.partition("|")[0], {partition})
        ]
        if gone and wipe:
            yield ForgottenAsset(key, len(gone))
            known = {}
        for version in shown:
            own, items = served.get(version.key), held.get(version.key, [])
            missing = [
                item
                for item in items
                if known.get(item.partition, {}).get(DATA_VERSION_TAG)
                != data_version(version.key, item.fill.iceberg_snapshot_id)
            ]
            if own is not None and missing:
                yield from self._missing(own, items[-1], missing)
            else:
                environment = catalog.live.environments[version.environments[0]]
                combination = context.combination(environment)
                tags = {ENVIRONMENT_TAG: environment.name}
                yield from confirmed_events(context, version.snapshot, combination, tags)

    def _missing(
        self, served: ServedModel, newest: Filled, missing: Sequence[Filled]
    ) -> Iterator[Projected]:
        context = self.context
        inputs = input_tags(context, served.combination, served.snapshot, context.newest_record())
        ended = [item for item in missing if item.fill.plan_id not in self.busy]
        events = recorded_events(
            context, served, ended, inputs, newest=newest.partition, synced=True
        )
        yield from FilledPartitions.in_batches(events)

    def checks(self) -> Iterator[Projected]:
        """Yield the checks whose recorded status differs from the state."""
        context = self.context
        for environment in context.catalog.live.environments.values():
            if environment.plan_id not in self.busy:
                yield from AuditEvents(context).outdated_checks(environment)
        for test in last_unit_tests(context, self.busy):
            snapshots = context.store.snapshots.load([test.snapshot])
            if test.snapshot in snapshots:
                yield unit_test_event(context, test, snapshots[test.snapshot])


_PLANS = 100
"""Number of the latest plans that get a page."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Numbers of events that a sync wrote, and of partitions that it wiped.

    Args:
        progress: Number of recorded partitions, as a text.
    """

    materializations: int = 0
    environments: int = 0
    wiped: int = 0
    checks: int = 0
    plans: int = 0
    complete: bool = True
    progress: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether Dagster was already complete, so that nothing was written."""
        written = (self.materializations, self.environments, self.wiped, self.checks, self.plans)
        return not any(written)


def sync(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    translator: VdeTranslator | None = None,
    *,
    wipe: bool = True,
    seconds: float = float("inf"),
    log: Log | None = None,
) -> SyncReport:
    """Write missing events to a Dagster instance, except events of its working runs.

    Args:
        wipe: Whether to wipe assets in Dagster with partitions that no table holds.
        seconds: Time after which to stop; the next call continues.
    """
    until = time.monotonic() + seconds
    looks = translator or VdeTranslator(workspace.root, workspace.settings.catalog)
    catalog = load_catalog(workspace, looks)
    context = ProjectionContext(workspace, instance, catalog, log or logging.getLogger(__name__))
    reporter, consumer = Reporter(workspace, instance), run_origin(instance, "")
    recording = Recording(workspace.store, consumer, filled_counts(catalog))
    complete = True
    for projected in _everything(context, wipe, recording):
        written = reporter.report(projected)
        if written and isinstance(projected, FilledPartitions):
            recording.add(len(projected.events))
        if written and time.monotonic() > until:
            complete = False
            break
    if complete:
        recording.complete()
        forget_past(workspace, instance)
    progress = recording_text(recording.left, recording.total)
    return SyncReport(**reporter.written, complete=complete, progress=progress)


def _everything(
    context: ProjectionContext, wipe: bool, recording: Recording
) -> Iterator[Projected]:
    store, names, live = context.store, context.names, context.catalog.live
    for model in live.models:
        yield from Comparison(context).model(model, wipe=wipe)
        recording.finish(model)
    for name in live.environments:
        yield NewPartition(names.environments, name)
    for name in live.environments:
        busy = busy_plans(context.instance, store)
        for version in reversed(store.versions.history(name)):
            environment = store.versions.at(name, version.version)
            if environment is not None and not version.dropped and environment.plan_id not in busy:
                yield environment_event(context, environment)
    yield from Comparison(context).checks()
    yield from _plans(context, busy_plans(context.instance, store))


def _plans(context: ProjectionContext, busy: frozenset[str]) -> Iterator[Projected]:
    """Yield the pages of plans that can still be approved, or were applied."""
    store, names = context.store, context.names
    recent = [record for record in store.plans.recent(limit=_PLANS) if record.kind == "plan"]
    files = project_hash(context.workspace.root)
    past = store.plans.closed_to_approval([record.id for record in recent], files)
    for record in reversed(recent):
        if record.id in busy:
            continue
        if record.status == "rejected":
            yield from rejected_events(context.instance, names, record)
        shown = {
            key: context.latest(key, record.id) is not None
            for key in (names.plan_key, names.apply_key)
        }
        is_applied = record.status == "applied"
        wanted = record.status in ("planned", "applied") and record.id not in past
        if not wanted or (shown[names.plan_key] and (shown[names.apply_key] or not is_applied)):
            continue
        plan = stored_plan(store, record.id)
        if plan is not None:
            yield NewPartition(names.plans, plan.id)
            if not shown[names.plan_key]:
                yield from page_events(context, plan)
            if is_applied:
                yield applied_event(context, plan, None)
