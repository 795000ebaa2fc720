"""Work of a run, such as an apply, a fill or a rollback, with its events written by the run itself.

The run reads the outbox records that it wrote and yields their events in its step, so that the
run's page shows them. The work runs in a second thread, because PySpark replaces the SIGINT handler
if the main thread starts Spark. Dagster's log and interrupts belong to the main thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import dagster as dg

from vde_dagster.base.texts import count
from vde_dagster.errors import VdeError
from vde_dagster.execution.events import (
    ApplyResult,
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
from vde_dagster.orchestration.dagster_private import (
    AUTO_MATERIALIZE_TAG,
    AUTOMATION_CONDITION_TAG,
    SCHEDULE_NAME_TAG,
    SENSOR_NAME_TAG,
    TICK_ID_TAG,
    USER_TAG,
)
from vde_dagster.orchestration.events.plans import applied_event
from vde_dagster.orchestration.events.projector import Projector, projection_groups
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.events.records import (
    AssetEvent,
    FailedWork,
    FilledPartitions,
    FinishedPart,
    NewPartition,
    Projected,
    Reporter,
    StepContext,
    WipedAsset,
    passing_events,
)
from vde_dagster.orchestration.location_refresh import refresh_after
from vde_dagster.orchestration.pages.preview import ViewPreviews
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.document import format_range, format_ranges
from vde_dagster.reports.reasons import describe_refresh, describe_skip
from vde_dagster.state.db.leases import DEFAULT_TTL_SECONDS

RECORDED = (IntervalFilled, Published)
"""Apply events after which the outbox may hold new records."""


_AUTOMATION = (
    *(SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, TICK_ID_TAG),
    *(AUTO_MATERIALIZE_TAG, AUTOMATION_CONDITION_TAG),
)


@dataclass(frozen=True, slots=True)
class Launcher:
    """The person or automation that launched a run.

    Args:
        name: Name for the history; None for the system user.
        verified: Whether the name is a signed-in user's, from the run's tag `user`.
        is_person: Whether a person launched the run, so that it can approve.
    """

    name: str | None
    verified: bool
    is_person: bool

    @classmethod
    def from_run(
        cls, tags: Mapping[str, str], typed: str | None = None, plan: Plan | None = None
    ) -> Launcher:
        """Identify the launcher of a run by its tags.

        Args:
            typed: Name that the user entered in the run's config; Dagster does not verify it.
            plan: Plan to apply. Its author counts as the launcher of a run that a sensor launched.
        """
        if any(tag in tags for tag in _AUTOMATION):
            proposal = plan.proposal if plan is not None and SENSOR_NAME_TAG in tags else None
            return cls(proposal.author or None if proposal else None, False, False)
        if user := tags.get(USER_TAG):
            return cls(user, True, True)
        return cls(typed or None, False, True)


@dataclass
class Work:
    """Runs an apply, a fill or a rollback in a Dagster step, and yields the step's events.

    Attributes:
        filled: Partitions with an event of this step, by asset.
        evaluated: Checks with an evaluation by this step.
    """

    context: StepContext
    projection: ProjectionContext

    def __post_init__(self) -> None:
        self.workspace, self.names = self.projection.workspace, self.projection.names
        store = self.workspace.store
        self.projector = Projector(self.projection, store.database.clock.now())
        self.reporter = Reporter(self.workspace, self.projection.instance)
        self.filled: dict[dg.AssetKey, set[str]] = {}
        self.evaluated: set[dg.AssetCheckKey] = set()
        self._number = store.outbox.number().newest
        # The run before a retry may have been killed just now: wait until its lease expires.
        is_retry = self.context.run.parent_run_id is not None
        self._lease_wait_seconds = 1.25 * DEFAULT_TTL_SECONDS if is_retry else 0.0

    def apply(self, plan: Plan, **options: Any) -> Iterator[AssetEvent]:
        """Apply a plan with `Workspace.apply(**options)`, and yield Dagster's events during it."""
        result = yield from self._stream(lambda: plan, plan.id, **options)
        if not result.published:  # an earlier run published it and may have died before its event
            yield from self.report(applied_event(self.projection, plan, result.environment))

    def fill(
        self, snapshot_id: str, intervals: IntervalSet, *, restate: bool = False
    ) -> Iterator[AssetEvent]:
        """Fill time ranges of a model's version, and yield Dagster's events during the work."""
        backfill = self.workspace.plans.backfill
        yield from self._stream(lambda: backfill(snapshot_id, intervals, restate=restate))

    def new_events(self) -> Iterator[AssetEvent]:
        """Yield the events of records that the run has written since the last call."""
        store = self.workspace.store
        newest = store.outbox.number().newest
        records = store.outbox.by(store.database.origin, self._number, newest)
        for group in projection_groups(records):
            for projected in self.projector.project(group, is_own=True):
                yield from self.report(projected)
            self._number = max(self._number, group[-1].number)

    def report(self, projected: Projected) -> Iterator[AssetEvent]:
        """Yield single events to the step; write batches, partitions and failures to Dagster."""
        # Batches and marks are written, single events are yielded.
        if isinstance(projected, FailedWork):
            self.reporter.record_planned_partitions(self.context.run, projected.partitions)
        elif isinstance(projected, FilledPartitions):
            self.reporter.write(projected, self.context)
            for event in projected.events:
                self.filled.setdefault(event.asset_key, set()).add(str(event.partition))
        elif isinstance(projected, NewPartition | WipedAsset | FinishedPart):
            self.reporter.report(projected)
        elif isinstance(projected, dg.AssetMaterialization):
            missing = self.reporter.missing_events(projected)
            yield from passing_events(self.reporter.effects, missing)
        else:
            if isinstance(projected, dg.AssetCheckEvaluation):
                self.evaluated.add(projected.asset_check_key)
            yield from passing_events(self.reporter.effects, [projected])

    def _stream(
        self, plan: Callable[[], Plan], plan_id: str | None = None, **options: Any
    ) -> Generator[AssetEvent, None, ApplyResult]:
        result: Future[ApplyResult] = Future()
        # The record of the publication can be read while this thread handles an earlier event.
        self.projector.preview = ViewPreviews(self.workspace, self.context.log).sample_rows

        def work(put: Callable[[Event], None]) -> ApplyResult:
            wait = self._lease_wait_seconds
            return self.workspace.apply(plan(), on_event=put, lease_wait_seconds=wait, **options)

        def cancel() -> None:
            if plan_id is not None:
                self.workspace.cancel(plan_id)

        try:
            for at, event in stream_events(work, cancel, result):
                for watcher in list(_WATCHERS):
                    watcher(event)
                if isinstance(event, ApplyStarted):
                    plan_id = event.plan.id
                    # The location now lists the versions that the plan builds.
                    refresh_after(self.context, self.workspace)
                elif isinstance(event, ModelStarted) and plan_id is not None:
                    self.projector.begin(plan_id, event.table.id)
                log_event(TimedLog(self.context.log, at), event)
                if isinstance(event, RECORDED):
                    yield from self.new_events()
        except VdeError:
            yield from self.new_events()
            raise
        yield from self.new_events()
        return result.result()


@dataclass(frozen=True, slots=True)
class TimedLog:
    """A run's log that writes each line with the time `at` of its event (seconds since 1970)."""

    # The main thread writes a line only after it has yielded the events before, which can wait for
    # sample rows.
    log: dg.DagsterLogManager
    at: float

    def info(self, text: str) -> None:
        self._write(logging.INFO, text)

    def warning(self, text: str) -> None:
        self._write(logging.WARNING, text)

    def error(self, text: str) -> None:
        self._write(logging.ERROR, text)

    def _write(self, level: int, text: str) -> None:
        if self.log.isEnabledFor(level):
            record = self.log.makeRecord(self.log.name, level, __file__, 0, text, (), None)
            record.created = self.at
            self.log.handle(record)


def log_event(log: TimedLog, event: Event) -> None:
    match event:
        case ApplyStarted(plan=plan):
            work = "record as filled" if plan.recorded else "compute"
            log.info(f"plan {plan.id} for {plan.environment}, models to {work}: {len(plan.builds)}")
        case UnitTestFinished(result=result) if not result.passed:
            test = result.test
            log.error(f"{test.model}: unit test {test.name} failed: {result.summary}")
        case UnitTestFinished(result=result, remembered=False):
            log.info(f"{result.test.model}: unit test {result.test.name} passed")
        case ModelStarted(snapshot=snapshot, table=table, missing=missing):
            log.info(
                f"{snapshot.name}: filling {format_ranges(missing) or 'nothing'} of {table.ref}"
            )
        case IntervalFilled(snapshot=snapshot, result=filled):
            rows = "" if filled.rows is None else f", {count(filled.rows, 'row')}"
            how = "found"
            if event.skipped is not None:
                how = f"skipped, {describe_skip(event.skipped)}"
            elif filled.seconds is not None and not event.recovered:
                how = f"filled in {filled.seconds:.1f} s"
            if event.refresh is not None and not event.refresh.is_routine:
                how += f", {describe_refresh(event.refresh, done=True)}"
            log.info(f"{snapshot.name}: {format_range(event.interval)} {how}{rows}")
            for note in filled.notes:
                log.warning(note)
        case MemoryLacked():
            log.warning(event.text)
        case AuditFinished(snapshot=snapshot, audit=audit) if failed := event.result.failed_rows:
            say = log.error if audit.blocking else log.warning
            where = format_range(event.interval)
            say(f"{snapshot.name}: audit {audit.label} found {count(failed, 'row')} in {where}")
        case ModelFinished(snapshot=snapshot, seconds=seconds):
            log.info(f"{snapshot.name}: done in {seconds:.1f} s")
        case ModelFailed(name=name, error=error, skipped=skipped):
            also = f" (skipped: {', '.join(map(str, skipped))})" if skipped else ""
            log.error(f"{name} failed: {error}{also}")
        case VirtualUpdateRan(model=model, statement=statement, error=None):
            log.info(f"{model}: {statement}")
        case VirtualUpdateRan(model=model, statement=statement, error=error):
            log.error(
                f"{model}: {error}; the views are published, and the next apply "
                f"runs the statement again: {statement}"
            )
        case Published(environment=environment, seconds=seconds):
            log.info(
                f"environment {environment.name} is version {environment.version}, "
                f"published in {seconds:.1f} s"
            )


T = TypeVar("T")
POLL_SECONDS = 0.2
STOP_SECONDS = 120.0


def stream_events(
    work: Callable[[Callable[[Event], None]], T], cancel: Callable[[], None], result: Future[T]
) -> Iterator[tuple[float, Event]]:
    """Run work in a thread, and yield (seconds since 1970, event) in the calling thread.

    The calling thread also raises the work's errors.

    Args:
        work: Called in a thread with a function that takes events.
        cancel: Called in the calling thread after an interrupt, repeatedly until the work has
            ended.
        result: Receives the return value of `work`.
    """
    events: queue.SimpleQueue[tuple[float, Event] | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            result.set_result(work(lambda event: events.put((time.time(), event))))
        except BaseException as error:
            result.set_exception(error)
        finally:
            events.put(None)

    thread = threading.Thread(target=run, name="vde-work", daemon=True)
    thread.start()
    finished = False
    try:
        while not finished:
            try:
                found = events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if found is None:
                finished = True
            else:
                yield found
    finally:
        if not finished:
            # The work may not have begun yet, so `cancel` is called repeatedly.
            deadline = time.monotonic() + STOP_SECONDS
            while thread.is_alive() and time.monotonic() < deadline:
                cancel()
                thread.join(POLL_SECONDS)
    result.result()


_WATCHERS: list[Callable[[Event], None]] = []


@contextmanager
def watch_events(watcher: Callable[[Event], None]) -> Iterator[None]:
    """Pass all events of applies in this process to a function while the block runs."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)
