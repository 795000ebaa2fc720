"""Application of a plan: missing intervals are filled and audited, and published atomically."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import (
    ConflictError,
    ExecutionError,
    SourceLocation,
    StoreError,
    UnknownOutcomeError,
    UsageError,
)
from vde_dagster.execution.apply.early_fills import require_past
from vde_dagster.execution.apply.failure_report import plan_failure
from vde_dagster.execution.apply.fill_table import TableFiller
from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.execution.apply.publish import publish_plan
from vde_dagster.execution.apply.skipping import with_twins
from vde_dagster.execution.apply.table_branches import TableLeases
from vde_dagster.execution.apply.virtual_update import run_virtual_update
from vde_dagster.execution.apply.worker_pool import (
    GraphResult,
    Slots,
    plan_audit_order,
    run_graph,
    work_graph,
)
from vde_dagster.execution.events import (
    ApplyResult,
    ApplyStarted,
    Event,
    IntervalFilled,
    ModelFailed,
    Published,
    UnitTestFinished,
    VirtualUpdateRan,
)
from vde_dagster.execution.plan_tasks import PlanTasks, Written, digest_sets
from vde_dagster.execution.unit_testing.test_report import ToldTest
from vde_dagster.planning.environments.environment import PRODUCTION, Environment, moved
from vde_dagster.planning.environments.resolver import Columns, Resolver
from vde_dagster.planning.plan.missing_intervals import parts_of_units
from vde_dagster.planning.plan.parent_coverage import parent_gaps
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.planner import with_tables
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import ParentGaps
from vde_dagster.state.db.leases import Lease, environment_lease

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


@dataclass
class Applier:
    """Applies one plan.

    Args:
        on_event: Called with every event, in order, by one thread at a time.
        concurrency: Maximum number of models, and batches of models, in parallel.
        wait_seconds: How long to wait for an environment that another process is changing.
        approved: Whether `who` has approved exactly this plan, for the log.
        proved: Whether gates have checked the plan; false if it was applied before.
    """

    plan: Plan
    handles: Handles
    on_event: Callable[[Event], None]
    concurrency: int
    who: str
    stop: threading.Event = field(default_factory=threading.Event)
    wait_seconds: float = 0.0
    tests: PlanTests | None = None
    approved: bool = False
    proved: bool = True
    owner: str = field(init=False)
    _telling: threading.Lock = field(default_factory=threading.Lock)
    _skipped: dict[ModelName, Skipped] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name this attempt uniquely, so that two processes with one plan exclude each other."""
        self.owner = f"{self.who}, plan {self.plan.id}, {uuid.uuid4().hex[:8]}"

    def run(self) -> ApplyResult:
        """Apply the plan.

        Raises:
            ConflictError: The environment has changed since the plan was created, is being changed,
                or the plan was rejected.
            UsageError: The plan was created by a clock that was ahead.
            UnitTestFailedError: A unit test failed; nothing was computed.
            AuditFailedError: A blocking audit found rows; nothing was published.
            ExecutionError: A model failed; nothing was published, finished ranges are kept.
        """
        started, store, name = time.monotonic(), self.handles.store, self.plan.environment
        store.project.require_own()
        require_past(self.plan, store.database.clock.now())
        self.handles.lakehouse.recover()
        store.plans.require_open(self.plan.id)
        store.plans.save(self.plan)
        if self._is_applied():
            failed = self._virtual_update()  # That apply may have died after its publication.
            return ApplyResult(self.plan, store.environments.get(name), False, 0.0, failed)
        if not self.proved:
            raise ConflictError(
                f"plan {self.plan.id} was applied, but its status was changed meanwhile",
                hint=f"check `vde log` for the change, then plan again: vde plan {name}",
            )
        self._check_base()
        with ExitStack() as held:
            lease = held.enter_context(
                store.leases.holding(
                    environment_lease(name), self.owner, wait_seconds=self.wait_seconds
                )
            )
            if self._is_applied():
                return ApplyResult(self.plan, store.environments.get(name), False, 0.0)
            self.plan = replace(self.plan, base_version=self._check_base())
            store.plans.set_status(self.plan.id, "applying", who=self.who, approved=self.approved)
            try:
                environment, plan = self._work(held, lease.lease)
            except UnknownOutcomeError:
                # The next apply determines whether it was published; it has not failed.
                raise
            except BaseException as error:
                store.plans.set_status(self.plan.id, "failed", _message(error))
                raise
        seconds = time.monotonic() - started
        self.on_event(Published(environment, plan, seconds))
        failed = self._virtual_update()
        skipped = with_twins(plan, self._skipped)
        return ApplyResult(plan, environment, True, seconds, failed, skipped)

    def _virtual_update(self) -> tuple[VirtualUpdateRan, ...]:
        return run_virtual_update(self.handles, self.plan.environment, self.owner, self.on_event)

    def _work(self, held: ExitStack, lease: Lease) -> tuple[Environment, Plan]:
        plan = self._real_tables()
        self.on_event(ApplyStarted(plan))
        if self.tests is not None:
            self._test(self.tests, plan)
        self._before_all(plan)
        target = self._resolver(plan)
        for model in plan.models:
            if model.table is not None and (model.builds or model.layout or model.deploys):
                target.require_writable(model.table)
        leases = self._hold_tables(plan, held)
        self.handles.store.tables.note_parts(
            (model.table.id, part)
            for model in plan.builds
            if model.table is not None
            for part in parts_of_units(plan.snapshot_of(model), model.intervals)
        )
        sets: Mapping[str, tuple[Columns, ...]] = {}
        lacks: Mapping[str, ParentGaps] = {}
        if plan.builds:
            sets = digest_sets(plan, target, self.handles.settings.catalog)
            known = with_tables(plan, self.handles.store.tables.load(plan.tables))
            lacks = parent_gaps(known, self.handles.settings.start_time)
        tasks = PlanTasks(plan, target, Written(), self.handles, sets, lacks)
        filler = TableFiller(
            tasks,
            self._emit,
            plan_audit_order(plan),
            leases,
            lease.token,
            self.stop,
            Slots(self.concurrency),
        )
        self._fill(plan, filler)
        filler.evolve_layouts()
        environment = publish_plan(
            plan,
            tasks.target,
            tasks.written.branches,
            handles=self.handles,
            leases=(lease, *leases.held.values()),
            who=self.who,
        )
        return environment, plan

    def _test(self, tests: PlanTests, plan: Plan) -> None:
        """Run unit tests; report each result, whether or not the plan continues."""
        ended: list[ToldTest] = []

        def report_test(event: UnitTestFinished) -> None:
            told = ToldTest.of(event.snapshot, event.result, remembered=event.remembered)
            ended.append(replace(told, environment=plan.environment, plan=plan.id))
            self.on_event(event)

        try:
            tests.run(plan, self.handles.engine, report_test, self.stop)
        finally:
            self.handles.store.outbox.add("test", [test.to_json() for test in ended])

    def _before_all(self, plan: Plan) -> None:
        """Run the statements of before_all; a retried apply runs them again."""
        store, settings = self.handles.store, self.handles.settings
        for statement in plan.complete_statements.before:
            try:
                with store.database.effects.at("before_all.run", statement):
                    self.handles.engine().run_statement(statement)
            except ExecutionError as error:
                raise ExecutionError(
                    f"a statement of before_all failed: {error.message}: {statement}",
                    hint="nothing was computed or published: fix the statement, and plan again",
                    location=SourceLocation(Path(settings.config_file or "pyproject.toml")),
                ) from error

    def _is_applied(self) -> bool:
        record = self.handles.store.plans.record(self.plan.id)
        return record is not None and record.status == "applied"

    def _check_base(self) -> int:
        """Return the version that the plan starts from now; runs do not outdate a plan."""
        name = self.plan.environment
        base = self.handles.store.versions.current_base(name, self.plan.base_version)
        if base is None:
            current = self.handles.store.environments.get(name)
            raise moved(name, self.plan.base_version, current)
        return base

    def _real_tables(self) -> Plan:
        """Register the plan's snapshots and tables; existing tables are reused."""
        self.handles.store.snapshots.save(self.plan.snapshots.values())
        new = [table for table in self.plan.tables.values() if not table.created]
        made = self.handles.store.tables.ensure_all(new) if new else {}
        return with_tables(self.plan, made) if made else self.plan

    def _resolver(self, plan: Plan) -> Resolver:
        production = self.handles.store.environments.get(PRODUCTION)
        return plan.resolver(
            production=production.tables if production else frozenset(),
            suffix=self.handles.settings.environment_suffix_target,
            mode=self.handles.settings.virtual_environment_mode,
        )

    def _hold_tables(self, plan: Plan, until: ExitStack) -> TableLeases:
        """Take the leases of published tables that the plan writes."""
        writes = (m.table.id for m in plan.models if m.table and (m.builds or m.deploys))
        shown = self.handles.store.shown.among(writes)
        return TableLeases.take(self.handles.store, self.owner, shown, until)

    def _fill(self, plan: Plan, filler: TableFiller) -> None:
        work = {
            model.name: model
            for model in plan.models
            if model.builds
            or model.audits
            or model.deploys
            or (model.table and not model.table.created)
        }
        graph = work_graph(plan, work, filler.order)
        if not graph:
            return
        result = self._run(graph, lambda name: filler.fill(work[name]))
        late = {name: set[ModelName]() for name in filler.order.late if name in work}
        if late and not result.failed and not self.stop.is_set():
            result = self._run(late, lambda name: filler.audit_late(work[name]))
        if self.stop.is_set() and not result.failed:
            raise ExecutionError(
                f"plan {plan.id} was cancelled", hint="apply it again to continue from here"
            )
        if result.failed:
            folder = self.handles.settings.work_dir / "failures"
            raise plan_failure(plan, result.failed, result.skipped, folder)

    def _run(
        self, graph: Mapping[ModelName, set[ModelName]], work: Callable[[ModelName], None]
    ) -> GraphResult[ModelName]:
        """Process models in the order of a graph, and report progress."""

        def failed(name: ModelName, error: Exception, skipped: list[ModelName]) -> None:
            self._emit(ModelFailed(name, error, tuple(skipped)))
            if isinstance(error, StoreError):
                self.stop.set()  # Spark or the state is unavailable for all models.

        return run_graph(graph, work, threads=self.concurrency, on_failure=failed, stop=self.stop)

    def _emit(self, event: Event) -> None:
        with self._telling:
            if isinstance(event, IntervalFilled) and event.skipped is not None:
                self._skipped[event.snapshot.name] = event.skipped
            self.on_event(event)


def _message(error: BaseException) -> str:
    if isinstance(error, ConflictError | ExecutionError | UsageError):
        return error.message
    return str(error) or type(error).__name__
