"""What happens during an apply, as Dagster's events and log lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.execution.events import (
    ApplyStarted,
    AuditFinished,
    Event,
    IntervalFilled,
    MemoryLacked,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Published,
    UnitTestFinished,
    VirtualUpdateRan,
)
from vde_dagster.execution.unit_testing.told import ToldTest
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.fill_events import Fill, FillEvents
from vde_dagster.orchestration.events.plan_events import failed_observation
from vde_dagster.orchestration.events.projection import Filled
from vde_dagster.orchestration.events.provenance import newest_record
from vde_dagster.orchestration.events.publication import published_events
from vde_dagster.orchestration.events.unit_test_checks import UnitTestEvents
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.pages.markdown import span, spans
from vde_dagster.orchestration.pages.preview import view_preview
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.plan import Plan

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

DagsterEvents = Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation]


@dataclass
class EventRecorder:
    """Turns the events of one apply into Dagster's.

    Args:
        catalog: The code location's models.
        workspace: For the state that a publication is compared with.
        instance: The Dagster instance.
        log: The run's log.
        skip: An asset whose materialisations the calling step yields itself.
    """

    catalog: AssetCatalog
    workspace: Workspace
    instance: dg.DagsterInstance
    log: logging.Logger | dg.DagsterLogManager
    skip: dg.AssetKey | None = None
    plan: Plan | None = None
    published: Published | None = None
    skipped: list[Filled] = field(default_factory=list)
    _fills: FillEvents | None = None
    _pointers: dict[ModelName, int | None] = field(default_factory=dict)
    _held: list[IntervalFilled] | None = None
    _ends: dict[ModelName, datetime] = field(default_factory=dict)
    _missing: dict[str, IntervalSet] = field(default_factory=dict)
    _done: dict[str, IntervalSet] = field(default_factory=dict)

    def record(self, event: Event) -> DagsterEvents:
        """Log one event and yield what Dagster is to store of it."""
        if isinstance(event, ApplyStarted):
            self._start(event.plan)
        elif isinstance(event, UnitTestFinished):
            yield self._unit_test(event)
        elif isinstance(event, ModelStarted):
            self.log.info(
                f"{event.snapshot.name}: filling {spans(event.missing) or 'nothing'} "
                f"of {event.table.ref}"
            )
            self._pointers[event.snapshot.name] = newest_record(self.instance)
            self._missing[event.table.id] = event.missing
            if event.missing:
                self._ends[event.snapshot.name] = list(event.missing)[-1].end
        elif isinstance(event, IntervalFilled):
            yield from self._interval(event)
        elif isinstance(event, MemoryLacked):
            self.log.warning(event.text)
        elif isinstance(event, AuditFinished):
            self._audit(event)
        elif isinstance(event, ModelFinished):
            self.log.info(f"{event.snapshot.name}: done in {event.seconds:.1f} s")
        elif isinstance(event, ModelFailed):
            skipped = ", ".join(str(name) for name in event.skipped)
            also = f" (skipped: {skipped})" if skipped else ""
            self.log.error(f"{event.name} failed: {event.error}{also}")
        elif isinstance(event, VirtualUpdateRan):
            if event.error is None:
                self.log.info(f"{event.model}: {event.statement}")
            else:
                self.log.error(
                    f"{event.model}: {event.error}; the views are published, and the next apply "
                    f"runs the statement again: {event.statement}"
                )
        elif isinstance(event, Published):
            yield from self._publish(event)

    def _start(self, plan: Plan) -> None:
        self.plan = plan
        self._fills = FillEvents(self.catalog, self.workspace, self.instance, self.log, plan)
        shown = {
            entry.table_id
            for environment in self.catalog.live.environments.values()
            for entry in environment.entries.values()
            if entry.table_id
        }
        # Rows of a table that somebody reads wait on a branch, all of them, for the publication.
        # Events keep the order of the work, which their pointers tell, so the others wait too.
        if any(model.table and model.table.id in shown for model in plan.builds):
            self._held = []
        self.log.info(
            f"plan {plan.id} for {plan.environment}, models to compute: {len(plan.builds)}"
        )

    def _interval(self, event: IntervalFilled) -> DagsterEvents:
        rows = "" if event.result.rows is None else f", {event.result.rows:,} rows"
        seconds = event.result.seconds
        how = "found" if seconds is None else f"filled in {seconds:.1f} s"
        if event.skipped is not None:
            how = f"skipped, {event.skipped.why}"
        self.log.info(f"{event.snapshot.name}: {span(event.interval)} {how}{rows}")
        if self._held is not None:
            self._held.append(event)
        else:
            yield from self._materializations(event)

    def _materializations(self, event: IntervalFilled) -> DagsterEvents:
        assert self._fills is not None
        newest = self._ends.get(event.snapshot.name) == event.interval.end
        table = event.table.id
        done = self._done.get(table, IntervalSet()) | IntervalSet((event.interval,))
        self._done[table] = done

        def holds() -> IntervalSet:
            known = self.workspace.store.tables.get(table).intervals
            return known - self._missing.get(table, IntervalSet()) | done

        fill = Fill(
            event.table,
            event.interval,
            event.result,
            holds,
            newest,
            event.recovered,
            event.skipped,
        )
        pointer = self._pointers.get(event.snapshot.name)
        for found in self._fills.partitions(fill):
            if self.catalog.key(found.snapshot.name) == self.skip:
                self.skipped.append(found.filled)
            else:
                yield self._fills.event(found, pointer)

    def _tags(self) -> dict[str, str]:
        assert self._fills is not None
        return self._fills.tags

    def _unit_test(self, event: UnitTestFinished) -> dg.AssetCheckEvaluation | dg.AssetObservation:
        assert self.plan is not None
        test, result = event.result.test, event.result
        if not result.passed:
            self.log.error(f"{test.model}: unit test {test.name} failed: {result.summary}")
        elif not event.remembered:
            self.log.info(f"{test.model}: unit test {test.name} passed")
        told = ToldTest.of(
            event.snapshot,
            result,
            remembered=event.remembered,
            environment=self.plan.environment,
            plan=self.plan.id,
        )
        return UnitTestEvents(self.catalog, self.workspace.store).of(told, event.snapshot)

    def _audit(self, event: AuditFinished) -> None:
        failed = event.result.failed_rows
        if failed:
            say = self.log.error if event.audit.blocking else self.log.warning
            say(
                f"{event.snapshot.name}: audit {event.audit.label} found {failed:,} rows "
                f"in {span(event.interval)}"
            )

    def _publish(self, event: Published) -> DagsterEvents:
        self.published = event
        held, self._held = self._held or [], None
        started: set[ModelName] = set()
        for interval in held:
            if interval.snapshot.name not in started:
                started.add(interval.snapshot.name)
                self._pointers[interval.snapshot.name] = newest_record(self.instance)
            yield from self._materializations(interval)
        self.log.info(
            f"environment {event.environment.name} is version {event.environment.version}, "
            f"published in {event.seconds:.1f} s"
        )
        built = {model.name for model in event.plan.builds}
        yield from published_events(
            self.catalog,
            self.workspace.store,
            self.instance,
            event.environment,
            built=built,
            tags=self._tags(),
            rows=view_preview(self.workspace, self.log, event.environment.name),
        )

    def rejected(self) -> list[tuple[dg.AssetKey, list[str]]]:
        """Return the partitions that blocking audits have rejected, where nothing is published."""
        if self.plan is None or self.published is not None:
            return []
        events = AuditEvents(self.catalog, self.workspace.store, self.instance)
        return list(events.rejected(self.plan))

    def unpublished(self, error: VdeError) -> Iterator[dg.AssetObservation]:
        """Yield why a plan failed, and what audits found in it: nothing of it is published."""
        if self.plan is None or self.published is not None:
            return
        plans = str(self.catalog.names.plans.name)
        if self.plan.id in self.instance.get_dynamic_partitions(plans):
            record = self.workspace.store.plans.record(self.plan.id)
            yield failed_observation(self.catalog.names, self.plan, error.text("; "), record)
        events = AuditEvents(self.catalog, self.workspace.store, self.instance)
        yield from events.unpublished(self.plan)
