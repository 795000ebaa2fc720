"""Applying plans and filling versions inside a step, with Dagster's events as it happens.

Dagster's log and its interrupts belong to the main thread; Spark must be started off it, since
PySpark replaces the SIGINT handler of whichever process starts it from its main thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import dagster as dg
from dagster._core.storage.tags import SENSOR_NAME_TAG

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
from vde_dagster.execution.unit_testing.test_report import ToldTest
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.fill_events import Fill, FillEvents
from vde_dagster.orchestration.events.plan_events import failed_observation, published_page
from vde_dagster.orchestration.events.projection import Filled, newest_record
from vde_dagster.orchestration.events.publication import published_events
from vde_dagster.orchestration.events.records import passing_events, plan_materializations
from vde_dagster.orchestration.events.unit_test_checks import UnitTestEvents
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.pages.preview import view_preview
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.texts import span, spans
from vde_dagster.state.db.leases import DEFAULT_TTL_SECONDS

if TYPE_CHECKING:
    from vde_dagster.execution.events import ApplyResult
    from vde_dagster.execution.workspace import Workspace


USER_TAG = "user"
"""Where a Dagster that knows people, or a proxy before it, says who launched a run."""


def person_of(tags: Mapping[str, str], plan: Plan) -> str | None:
    """Return who stands behind a run: who launched it, or the author of what applies itself.

    Args:
        tags: The run's tags.
    """
    by_itself = SENSOR_NAME_TAG in tags and plan.proposal is not None
    author = plan.proposal.author if by_itself and plan.proposal is not None else ""
    return tags.get(USER_TAG) or author or None


StepContext = dg.OpExecutionContext | dg.AssetExecutionContext
DagsterEvents = Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation]


@dataclass
class Work:
    """Work of the execution layer in a step of a run.

    Args:
        catalog: The code location's models.
        skip: An asset whose materialisations the step itself yields.
    """

    context: StepContext
    catalog: AssetCatalog
    workspace: Workspace
    skip: dg.AssetKey | None = None

    def __post_init__(self) -> None:
        self.recorder = EventRecorder(
            self.catalog, self.workspace, self.context.instance, self.context.log, self.skip
        )
        # The run before a retry may have been killed a moment ago; its lease ends by itself.
        is_retry = self.context.run.parent_run_id is not None
        self._lease_wait_seconds = 1.25 * DEFAULT_TTL_SECONDS if is_retry else 0.0
        self.result: Streamed[ApplyResult] = Streamed()
        self._plan_id: str | None = None
        if self.workspace.settings.dagster.preview_rows > 0:
            from vde_dagster.lakehouse.commit_rows import import_readers

            import_readers()

    def apply(
        self,
        plan: Plan,
        *,
        concurrency: int | None = None,
        who: str | None = None,
        skip_tests: bool = False,
    ) -> DagsterEvents:
        """Apply a plan, yielding Dagster's events as the work goes on."""
        self._plan_id = plan.id

        def work(put: Callable[[Event], None]) -> ApplyResult:
            return self.workspace.apply(
                plan,
                on_event=put,
                concurrency=concurrency,
                who=who,
                skip_tests=skip_tests,
                lease_wait_seconds=self._lease_wait_seconds,
            )

        yield from self._stream(work)

    def fill(
        self, snapshot_id: str, intervals: IntervalSet, *, restate: bool = False
    ) -> DagsterEvents:
        """Fill ranges of a version, yielding the same events."""

        def work(put: Callable[[Event], None]) -> ApplyResult:
            def note(event: Event) -> None:
                if isinstance(event, ApplyStarted):
                    self._plan_id = event.plan.id
                put(event)

            plan = self.workspace.plans.backfill(snapshot_id, intervals, restate=restate)
            return self.workspace.apply(
                plan, on_event=note, lease_wait_seconds=self._lease_wait_seconds
            )

        yield from self._stream(work)

    def page(self, plan: Plan) -> Iterator[dg.AssetMaterialization]:
        """Yield the plan's page once more: it says now by whom the plan was published, and when."""
        published = self.result.value.environment if self.result.value is not None else None
        if published is not None:
            yield published_page(self.workspace.store, plan, published, self.catalog.names)

    def metadata(self) -> dict[str, Any]:
        """Return what is to be said of the finished work."""
        result = self.result.value
        if result is None:
            return {}
        facts: dict[str, Any] = {
            "vde/plan": result.plan.id,
            "vde/environment": result.plan.environment,
            "vde/models_computed": len(result.plan.builds) - len(result.skipped),
            "vde/seconds": result.seconds,
            "vde/published": result.published,
        }
        if result.skipped:
            facts["vde/models_skipped"] = len(result.skipped)
            facts["vde/saved_seconds"] = sum(s.seconds or 0.0 for s in result.skipped.values())
            facts["vde/saved_bytes"] = sum(s.bytes or 0 for s in result.skipped.values())
            facts["vde/skipped"] = dg.MetadataValue.json(
                {str(name): skipped.to_json() for name, skipped in result.skipped.items()}
            )
        if result.environment is not None:
            facts["vde/version"] = result.environment.version
            facts["vde/published_by"] = result.environment.published_by
        return facts

    def _stream(self, work: Callable[[Callable[[Event], None]], ApplyResult]) -> DagsterEvents:
        def cancel() -> None:
            if self._plan_id is not None:
                self.workspace.cancel(self._plan_id)

        with as_failure():
            effects = self.workspace.store.database.effects
            try:
                for event in stream_events(work, cancel, self.result):
                    tell(event)
                    if isinstance(event, ApplyStarted):
                        # From now on the versions that the plan builds are listed.
                        refresh_after(self.context, self.workspace)
                    yield from passing_events(effects, self.recorder.record(event))
            except VdeError as error:
                self._redden()
                yield from passing_events(effects, self.recorder.unpublished(error))
                raise

    def _redden(self) -> None:
        """Let what blocking audits have rejected be red once the run has failed."""
        effects = self.workspace.store.database.effects
        for key, partitions in self.recorder.rejected():
            plan_materializations(effects, self.context.instance, self.context.run, key, partitions)


@dataclass
class EventRecorder:
    """Turns the events of one apply into Dagster's.

    Args:
        catalog: The code location's models.
        workspace: For the state that a publication is compared with.
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


T = TypeVar("T")
POLL_SECONDS = 0.2
STOP_SECONDS = 120.0


@dataclass
class Streamed(Generic[T]):
    """The result of streamed work, there once all its events were taken."""

    value: T | None = None


def stream_events(
    work: Callable[[Callable[[Event], None]], T],
    cancel: Callable[[], None],
    result: Streamed[T],
) -> Iterator[Event]:
    """Run work in a thread and yield its events as they come.

    Args:
        work: Called in a thread with a function that takes events.
        cancel: Called in this thread when it is interrupted, until the work has ended.

    Yields:
        The events, in order, in the calling thread.

    Raises:
        Exception: Whatever the work raised, after its last event.
    """
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.value = work(events.put)
        except BaseException as error:
            failure.append(error)
        finally:
            events.put(None)

    thread = threading.Thread(target=run, name="vde-work", daemon=True)
    thread.start()
    finished = False
    try:
        while not finished:
            try:
                event = events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if event is None:
                finished = True
            else:
                yield event
    finally:
        if not finished:
            _stop(thread, cancel)
    thread.join()
    if failure:
        raise failure[0]


def _stop(thread: threading.Thread, cancel: Callable[[], None]) -> None:
    """Ask work to end, again and again: it may not yet have begun what is to be cancelled."""
    deadline = time.monotonic() + STOP_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        cancel()
        thread.join(POLL_SECONDS)


_WATCHERS: list[Callable[[Event], None]] = []


@contextmanager
def watching(watcher: Callable[[Event], None]) -> Iterator[None]:
    """Call a function with every event of the applies that this process does meanwhile."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)


def tell(event: Event) -> None:
    """Show an event to those who watch."""
    for watcher in list(_WATCHERS):
        watcher(event)
