"""Comparison of Dagster's events with the state, to write missing events (`vde sync`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.dagster_private import DATA_VERSION_TAG
from vde_dagster.orchestration.events import records
from vde_dagster.orchestration.events.checks import AuditEvents, last_unit_tests, unit_test_event
from vde_dagster.orchestration.events.fills import (
    FilledPartition,
    ServedModel,
    filled_partitions,
    recorded_events,
)
from vde_dagster.orchestration.events.plans import (
    applied_event,
    delete_closed_partitions,
    page_events,
    rejected_events,
)
from vde_dagster.orchestration.events.provenance import (
    Log,
    ProjectionContext,
    data_version,
    input_tags,
)
from vde_dagster.orchestration.events.publication import (
    CHECKED,
    confirmed_events,
    environment_event,
)
from vde_dagster.orchestration.models.catalog import recent_catalog
from vde_dagster.orchestration.models.recording import Recording, filled_counts
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import ENVIRONMENT_TAG
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.project.loading.loader import project_hash
from vde_dagster.state.store import StateStore

_PLANS = 100
"""Number of the latest plans that get a page."""
_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION


def tables_changed_by_rollback(store: StateStore, environment: Environment) -> set[str]:
    """Return the ids of tables whose rows a rollback removed or replaced."""
    begun = store.pins.changed_tables(environment.name, environment.version)
    tables = (begun & environment.tables) - environment.pinned_states.keys()
    return tables | store.outdated.tables_since(environment.published_at) if tables else set()


@dataclass
class Comparison:
    """Compares Dagster's events with the state, model by model."""

    context: ProjectionContext

    def __post_init__(self) -> None:
        self.busy = self.context.busy_plans()

    def tables(self, table_ids: Collection[str]) -> Iterator[records.Projected]:
        """Yield the missing events of each model that has one of these tables.

        An asset with partitions that no table holds is wiped first.
        """
        for name, model in self.context.catalog.live.models.items():
            if any(v.table is not None and v.table.id in table_ids for v in model.versions):
                yield from self.model(name, wipe=True)

    def model(self, name: ModelName, *, wipe: bool) -> Iterator[records.Projected]:
        """Yield a model's missing events.

        If `wipe` is set, an asset with partitions that no table holds is wiped first.
        """
        context, catalog = self.context, self.context.catalog
        shown = [version for version in catalog.live.models[name].versions if version.environments]
        served, held = dict[str, ServedModel](), dict[str, list[FilledPartition]]()
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
            yield records.WipedAsset(key, len(gone))
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
        self, served: ServedModel, newest: FilledPartition, missing: Sequence[FilledPartition]
    ) -> Iterator[records.Projected]:
        context = self.context
        inputs = input_tags(context, served.combination, served.snapshot, context.newest_record())
        ended = [item for item in missing if item.fill.plan_id not in self.busy]
        events = recorded_events(
            context, served, ended, inputs, newest=newest.partition, synced=True
        )
        yield from records.FilledPartitions.in_batches(events)

    def checks(self) -> Iterator[records.Projected]:
        for environment in self.context.catalog.live.environments.values():
            yield from self.audits(environment)
        yield from self.unit_tests()

    def audits(
        self, environment: Environment, only: Collection[ModelName] | None = None
    ) -> Iterator[records.Projected]:
        """Yield audit results that Dagster lacks, unless a run works on the environment's plan."""
        if environment.plan_id not in self.busy:
            yield from AuditEvents(self.context).outdated_checks(environment, only)

    def unit_tests(self) -> Iterator[records.Projected]:
        context = self.context
        for test in last_unit_tests(context, self.busy):
            snapshots = context.store.snapshots.load([test.snapshot])
            if test.snapshot in snapshots:
                yield unit_test_event(context, test, snapshots[test.snapshot])

    def version(self, name: str, number: int) -> Iterator[records.Projected]:
        """Yield the events of a version of an environment, unless a run is publishing it now."""
        yield records.NewPartition(self.context.names.environments, name)
        environment = self.context.store.versions.at(name, number)
        if environment is not None and environment.plan_id not in self.busy:
            yield environment_event(self.context, environment)

    def plans(self) -> Iterator[records.Projected]:
        context, store, names = self.context, self.context.store, self.context.names
        recent = [record for record in store.plans.recent(limit=_PLANS) if record.kind == "plan"]
        files = project_hash(context.workspace.root)
        past = store.plans.closed_to_approval([record.id for record in recent], files)
        listed = set(context.instance.get_dynamic_partitions(str(names.plans.name)))
        for record in reversed(recent):
            if record.id in self.busy:
                continue
            if record.status == "rejected":
                yield from rejected_events(context.instance, names, record)
            shown = {
                key: context.latest(key, record.id) is not None
                for key in (names.plan_key, names.apply_key)
            }
            is_applied = record.status == "applied"
            wanted = record.status in ("planned", "applied") and record.id not in past
            is_complete = shown[names.plan_key] and (shown[names.apply_key] or not is_applied)
            if not wanted or (is_complete and record.id in listed):
                continue
            plan = store.plans.find(record.id)
            if plan is not None:
                yield records.NewPartition(names.plans, plan.id)
                if not shown[names.plan_key]:
                    yield from page_events(context, plan)
                if is_applied:
                    yield applied_event(context, plan, None)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """Counts of events written and partitions wiped by `vde sync`, and the last finished step."""

    materializations: int = 0
    environments: int = 0
    wiped: int = 0
    checks: int = 0
    plans: int = 0
    complete: bool = True
    compared: str = ""

    @property
    def is_empty(self) -> bool:
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
    after: str | None = None,
) -> SyncReport:
    """Write missing events to a Dagster instance, except events of runs that still work.

    Args:
        wipe: Whether to wipe assets in Dagster with partitions that no table holds.
        seconds: Time after which to stop, even within a step.
        after: Last finished step of an earlier call that stopped, see `SyncReport.compared`.
    """
    until = time.monotonic() + seconds
    looks = translator or VdeTranslator(workspace.root, workspace.settings.catalog)
    catalog = recent_catalog(workspace, looks)
    context = ProjectionContext(workspace, instance, catalog, log or logging.getLogger(__name__))
    context.read_combinations(catalog.live.environments.values())
    reporter, consumer = records.Reporter(workspace, instance), records.run_origin(instance, "")
    recording = Recording(workspace.store, consumer, filled_counts(catalog))
    steps = _steps(context, wipe)
    places = {step.key: place for place, step in enumerate(steps, 1)}
    done = places.get(after or "", 0)
    for step in steps[:done]:
        recording.finish(step.model)
    for step in steps[done:]:
        for projected in step.compare(Comparison(context)):
            written = reporter.report(projected)
            if written and isinstance(projected, records.FilledPartitions):
                recording.add(len(projected.events))
            if written and time.monotonic() > until:
                break
        else:
            done += 1
            recording.finish(step.model)
        if time.monotonic() > until:
            break
    complete = done == len(steps)
    if complete:
        recording.complete()
        delete_closed_partitions(workspace, instance)
    else:
        recording.add(0)
    compared = steps[done - 1].key if done else ""
    return SyncReport(**reporter.written, complete=complete, compared=compared)


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the comparison between Dagster's events and the state.

    Args:
        key: Unique name, after which a later comparison can continue.
        compare: Yields the missing events.
        model: Model whose partitions the step compares.
    """

    key: str
    compare: Callable[[Comparison], Iterator[records.Projected]]
    model: ModelName | None = None


def _steps(context: ProjectionContext, wipe: bool) -> list[Step]:
    store, live = context.store, context.catalog.live
    steps = [
        Step(str(name), partial(Comparison.model, name=name, wipe=wipe), name)
        for name in live.models
    ]
    for name in live.environments:
        versions = [found for found in store.versions.history(name) if not found.dropped]
        steps += [
            Step(
                f"{name} {found.version}",
                partial(Comparison.version, name=name, number=found.version),
            )
            for found in reversed(versions)
        ]
    for environment in live.environments.values():
        names = list(environment.entries)
        for start in range(0, len(names), CHECKED):
            some = names[start : start + CHECKED]
            checks = partial(Comparison.audits, environment=environment, only=some)
            steps.append(Step(f"checks of {environment.name} {start}", checks))
    tests, plans = Step("unit tests", Comparison.unit_tests), Step("plans", Comparison.plans)
    return [*steps, tests, plans]
