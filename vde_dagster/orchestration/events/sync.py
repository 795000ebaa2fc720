"""Dagster's view rebuilt from the state: `vde sync`, and the first look of the sensor.

The state store is the truth; Dagster's events are a projection of it. What was applied from the
command line before the sensor looked, or while Dagster's database was lost, is written here as
events without a run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.unit_testing.test_report import ToldTest
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.fill_events import Log, fill_facts, filled_by, skipped_facts
from vde_dagster.orchestration.events.plan_events import (
    Origins,
    forget_past_plans,
    report_applied,
    report_page,
    show_rejected,
    stored_plan,
)
from vde_dagster.orchestration.events.projection import (
    DATA_VERSION,
    Combination,
    Filled,
    data_version,
    filled_event,
    filled_partitions,
    latest_tags,
    moved_inputs,
    newest_record,
    view_event,
)
from vde_dagster.orchestration.events.publication import combination_of, environment_published
from vde_dagster.orchestration.events.records import Reporter, add_partitions, wipe_asset
from vde_dagster.orchestration.events.unit_test_checks import UnitTestEvents, report_tests
from vde_dagster.orchestration.models.catalog import AssetCatalog, build_catalog
from vde_dagster.orchestration.models.live import LiveModel, LiveVersion
from vde_dagster.orchestration.models.load_live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import PLAN_TAG, Names
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.project.loading.loader import project_hash

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.state import StateStore


_PLANS = 100
"""How many of the latest plans get a page."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync wrote.

    Args:
        materializations: Events of filled partitions and of views.
        environments: Events of environments' versions.
        wiped: Partitions whose rows are gone, now shown as missing again.
        complete: Whether it came to its end in the given time.
    """

    materializations: int
    environments: int
    wiped: int = 0
    checks: int = 0
    plans: int = 0
    complete: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether Dagster knew everything already."""
        written = (self.materializations, self.environments, self.wiped, self.checks, self.plans)
        return not any(written)


def sync(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    translator: VdeTranslator | None = None,
    *,
    wipe: bool = True,
    seconds: float | None = None,
    log: Log | None = None,
) -> SyncReport:
    """Write the events that a Dagster instance misses; starts no JVM, and is idempotent.

    What runs of the instance that are still working do they write themselves.

    Args:
        translator: The one that the code location uses.
        wipe: Whether assets are forgotten that Dagster shows partitions of which no table holds.
        seconds: After how long to stop; the next call goes on.
        log: Takes what could not be shown.
    """
    now = datetime.now(timezone.utc)
    looks = translator or VdeTranslator(workspace.root, workspace.settings.catalog)
    looks = looks.of_project(Names.of(workspace.settings))
    catalog = build_catalog(load_live(workspace, now), looks, now)
    return Sync(workspace, instance, catalog, log or logging.getLogger(__name__), seconds).run(wipe)


def gone_back(store: StateStore, environment: Environment) -> set[str]:
    """Return the tables that hold less, or other rows, since a rollback published a version.

    That is what it has taken back, and what others have made of rows that are gone.

    Args:
        environment: The version that the rollback published.
    """
    begun = store.pin_history.begun(environment.name, environment.version)
    tables = (begun & environment.tables) - environment.held.keys()
    return tables | store.outdated.after(environment.published_at) if tables else set()


def show_tables(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    translator: VdeTranslator,
    tables: Collection[str],
    log: Log,
) -> Sync | None:
    """Show the partitions of models as their tables are after a rollback.

    Args:
        translator: The one that the code location uses.
        tables: The tables, see `gone_back`.
        log: Takes what could not be shown.

    Returns:
        Where Dagster had to forget assets, what writes their checks again: `Sync.checks`.
    """
    if not tables:
        return None
    now = datetime.now(timezone.utc)
    catalog = build_catalog(load_live(workspace, now), translator, now)
    sync = Sync(workspace, instance, catalog, log, None)
    sync.tables(tables)
    return sync if sync.wiped else None


class Sync:
    """One comparison of everything.

    Args:
        log: Takes what could not be shown.
        seconds: After how long to stop.
    """

    def __init__(
        self,
        workspace: Workspace,
        instance: dg.DagsterInstance,
        catalog: AssetCatalog,
        log: Log,
        seconds: float | None,
    ) -> None:
        self.workspace = workspace
        self.store = workspace.store
        self.instance = instance
        self.catalog = catalog
        self.log = log
        self.reporter = Reporter(self.store, instance, catalog.names)
        self.origins = Origins(instance)
        self.wiped = 0
        self._until = None if seconds is None else time.monotonic() + seconds

    def run(self, wipe: bool) -> SyncReport:
        """Compare everything, and write what is missing."""
        complete = all(
            self._step(name, model, wipe) for name, model in self.catalog.live.models.items()
        )
        if complete:
            self._environments()
            self.checks()
            complete = self._plans()
        done = self.reporter
        return SyncReport(
            done.materializations,
            done.environments,
            self.wiped,
            done.checks,
            done.plans,
            complete,
        )

    def tables(self, table_ids: Collection[str]) -> None:
        """Show some tables as they are; partitions that no table holds go."""
        for name, model in self.catalog.live.models.items():
            if any(one.table is not None and one.table.id in table_ids for one in model.versions):
                self._step(name, model, wipe=True)

    def _step(self, name: ModelName, model: LiveModel, wipe: bool) -> bool:
        """Write one model's events; say whether there is time for more."""
        held = {
            version.key: filled_partitions(
                self.store, version.table, version.key, self.catalog.partitions[name]
            )
            for version in model.versions
            if version.table is not None and version.environments
        }
        busy = self._busy_plans()
        # After the state and the runs: what a run wrote that has ended since is known.
        known = _known(self.instance, self.catalog.key(name))
        filled = {key: {item.partition for item in items} for key, items in held.items()}
        gone = {
            partition
            for partition in known
            if (key := partition.partition("|")[0]) in filled and partition not in filled[key]
        }
        if gone and wipe:
            # Dagster's own storages can forget an asset, not one of its partitions.
            wipe_asset(self.store.database.effects, self.instance, self.catalog.key(name))
            known = {}
            self.wiped += len(gone)
        for version in model.versions:
            if version.environments:
                for event in self._of_version(name, version, known, busy):
                    self.reporter.report(event)
                    if self._is_late:
                        return False
        return True

    @property
    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _busy_plans(self) -> frozenset[str]:
        """Return the plans that runs of the instance are working on."""
        return frozenset(
            str(news.subject["plan"])
            for origin in self.origins.unfinished()
            for news in self.store.news.by(origin)
            if news.subject.get("plan")
        )

    def _of_version(
        self,
        name: ModelName,
        version: LiveVersion,
        known: dict[str, str | None],
        busy: frozenset[str],
    ) -> Iterator[dg.AssetMaterialization]:
        environment = self.catalog.live.environments[version.environments[0]]
        combination = self._combination(environment)
        if version.table is not None:
            yield from missing_events(
                self.workspace,
                self.instance,
                self.catalog,
                self.log,
                version,
                combination,
                known,
                busy,
            )
        elif version.key not in known and version.snapshot.is_virtual:
            inputs = combination.inputs(self.instance, self.catalog, version.snapshot, None)
            yield view_event(self.catalog, version.snapshot, inputs, {})

    def _combination(self, environment: Environment) -> Combination:
        return combination_of(self.store, environment)

    def _environments(self) -> None:
        """Write the versions of every environment that Dagster has no event of, oldest first."""
        store, live = self.store, self.catalog.live.environments
        names = self.catalog.names
        add_partitions(store.database.effects, self.instance, names.environments, list(live))
        for name in live:
            busy = self._busy_plans()
            for version in reversed(store.versions.history(name)):
                environment = store.versions.at(name, version.version)
                if environment is None or version.dropped or environment.plan_id in busy:
                    continue
                self.reporter.report(environment_published(self.catalog, store, environment))

    def checks(self) -> None:
        """Evaluate checks that Dagster has not, or not any more, as the state has them."""
        audits = AuditEvents(self.catalog, self.store, self.instance)
        busy = self._busy_plans()
        for environment in self.catalog.live.environments.values():
            if environment.plan_id in busy:
                continue
            for event in audits.standing(environment, self._combination(environment)):
                self.reporter.report(event)
        self._unit_tests(busy)

    def _unit_tests(self, busy: frozenset[str]) -> None:
        """Show how each unit test of the project ended last, as far as the state's news go back.

        That is what its check says, and what was observed of a plan since.
        """
        declared = {
            (name, test.name, test.location.path.as_posix())
            for name, tests in self.catalog.live.tests.items()
            for test in tests
        }
        events = UnitTestEvents(self.catalog, self.store)
        latest: dict[tuple[tuple[ModelName, str, str], bool], ToldTest] = {}
        for news in self.store.news.of_kind("test") if declared else ():
            told = ToldTest.from_json(news.subject)
            place = told.model, told.test, told.file
            if told.plan not in busy and place in declared:
                key = place, events.decides(told)
                latest.pop(key, None)
                latest[key] = told
        report_tests(self.reporter, self.catalog, latest.values())

    def _plans(self) -> bool:
        """Give plans their pages that can still be approved, or were applied; take others' away."""
        store, names = self.store, self.catalog.names
        recent = [record for record in store.plans.recent(limit=_PLANS) if record.kind == "plan"]
        files = project_hash(self.workspace.root)
        past = store.plans.closed_to_approval([record.id for record in recent], files)
        busy = self._busy_plans()
        rejected = [r for r in reversed(recent) if r.status == "rejected" and r.id not in busy]
        self.reporter.plans += show_rejected(store, self.instance, names, rejected)
        for record in reversed(recent):
            wanted = record.status in ("planned", "applied") and record.id not in past
            if not wanted or record.id in busy:
                continue
            applied = record.status == "applied"
            approved = not applied or self.reporter.has(names.apply_key, record.id)
            if not approved or not self.reporter.has(names.plan_key, record.id):
                plan = stored_plan(store, record.id)
                if plan is None:
                    continue
                report_page(self.reporter, self.catalog, plan)
                if applied:
                    report_applied(self.reporter, plan, None)
            if self._is_late:
                return False
        forget_past_plans(self.workspace, self.instance, names)
        return True


def _known(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str | None]:
    """Return the data version of every partition that Dagster has an event of."""
    out: dict[str, str | None] = {}
    cursor: str | None = None
    while True:
        page = instance.fetch_materializations(key, limit=1000, cursor=cursor)
        for record in page.records:
            partition = record.partition_key
            if partition is not None and partition not in out:
                out[partition] = (record.event_log_entry.tags or {}).get(DATA_VERSION)
        if not page.has_more:
            return out
        cursor = page.cursor


def missing_events(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    catalog: AssetCatalog,
    log: Log,
    version: LiveVersion,
    combination: Combination,
    known: Mapping[str, str | None],
    busy: Set[str],
) -> Iterator[dg.AssetMaterialization]:
    """Yield the events of the partitions of a version that Dagster does not show as they are.

    Args:
        catalog: The code location's models.
        log: Takes what could not be shown.
        version: The version, which has a table.
        known: The data version that Dagster has, by partition.
        busy: Plans whose runs write their events themselves.
    """
    table, snapshot = version.table, version.snapshot
    assert table is not None
    partitions = catalog.partitions_of(snapshot)
    held = filled_partitions(workspace.store, table, version.key, partitions)
    missing = {
        item.partition: item
        for item in held
        if known.get(item.partition) != data_version(version.key, item.iceberg_snapshot_id)
    }
    inputs = combination.inputs(instance, catalog, snapshot, newest_record(instance))
    if held and not missing:
        latest = latest_tags(instance, catalog, snapshot, held[-1].partition)
        if latest is not None and moved_inputs(catalog, combination, snapshot, inputs, latest):
            missing = {item.partition: item for item in held}
    if not missing:
        return
    found: dict[str, tuple[Filled, dict[str, Any], dict[str, str]]] = {}
    for row in workspace.store.fills.log(table.id):
        interval, result = row.interval, row.result
        own = {
            key: item
            for key, item in missing.items()
            if key not in found and item.iceberg_snapshot_id == result.iceberg_snapshot_id
        }
        if not own:
            continue
        if row.plan_id in busy:
            for key in own:
                del missing[key]
            continue
        counted = filled_by(
            workspace, log, snapshot, table, partitions, interval, result, lambda: table.intervals
        )
        skipped = row.facts.skipped
        for item in counted:
            if item.partition not in own:
                continue
            facts = fill_facts(snapshot, interval, result, counted, item)
            if skipped is not None:
                facts |= skipped_facts(skipped)
            facts["vde/plan"] = row.plan_id
            found[item.partition] = (item, facts, {PLAN_TAG: row.plan_id})
    newest = held[-1]
    for key, item in missing.items():
        filled, facts, tags = found.get(key, (replace(item), {}, {}))
        facts = {**facts, "vde/table": str(table.ref), "vde/synced": True}
        if version.environments:
            facts["vde/environments"] = ", ".join(version.environments)
        if item == newest:
            commit = item.iceberg_snapshot_id
            facts |= preview(workspace, log, snapshot, table, commit, [item.interval])
        yield filled_event(
            catalog, snapshot, version.key, filled, inputs, metadata=facts, tags=tags
        )
