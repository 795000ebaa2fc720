"""Application of a plan: missing intervals are filled and audited, and published atomically."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster import errors
from vde_dagster.base.names import ModelName
from vde_dagster.execution import events
from vde_dagster.execution.apply.early_fills import require_created_in_past
from vde_dagster.execution.apply.failure_report import plan_failure
from vde_dagster.execution.apply.fill_table import TableFiller
from vde_dagster.execution.apply.plan_tests import PlanTests, canceled_error
from vde_dagster.execution.apply.publish import publish_plan
from vde_dagster.execution.apply.skipping import add_models_of_skipped_tables
from vde_dagster.execution.apply.table_branches import TableLeases
from vde_dagster.execution.apply.virtual_update import run_virtual_update
from vde_dagster.execution.apply.worker_pool import Slots, run_graph
from vde_dagster.execution.changes.refresh_choice import project_costs
from vde_dagster.execution.plan_tasks import PlanTasks, WrittenTables, digest_sets
from vde_dagster.execution.unit_testing.test_report import TestRecord
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Environment,
    outdated_plan_error,
)
from vde_dagster.planning.environments.resolver import Columns, Resolver
from vde_dagster.planning.plan import stages
from vde_dagster.planning.plan.missing_intervals import partly_filled_units
from vde_dagster.planning.plan.parent_coverage import parent_gaps
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.plan.planner import replace_plan_tables
from vde_dagster.planning.table_contents import Skipped
from vde_dagster.planning.tables.table import ParentGaps
from vde_dagster.project.dag import AuditOrder
from vde_dagster.state.db.leases import Lease, LeaseOwner, environment_lease, lease_owner

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


@dataclass
class Applier:
    """Applies one plan: fills and audits its tables, then publishes the environment.

    Args:
        on_event: Called with every event, in order, by one thread at a time.
        concurrency: Maximum number of models, and batches of models, in parallel.
        wait_seconds: How long to wait for an environment that another process is changing.
        approved: Whether `who` has approved exactly this plan, for the log.
        proved: Whether gates of plug-ins have checked the plan; false if it was already applied.
    """

    plan: Plan
    handles: Handles
    on_event: Callable[[events.Event], None]
    concurrency: int
    who: str
    stop: threading.Event = field(default_factory=threading.Event)
    wait_seconds: float = 0.0
    tests: PlanTests | None = None
    approved: bool = False
    proved: bool = True
    owner: LeaseOwner = field(init=False)
    _emit_lock: threading.Lock = field(default_factory=threading.Lock)
    _skipped: dict[ModelName, Skipped] = field(default_factory=dict)
    _refreshes: dict[ModelName, Refresh] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Two processes with one plan must exclude each other.
        self.owner = lease_owner(f"{self.who}, plan {self.plan.id}")

    def run(self) -> events.ApplyResult:
        """Apply the plan.

        Raises:
            ConflictError: The plan was rejected, its status was changed after it was applied, the
                environment has changed since the plan was created, or another process or program
                changes the environment or one of its tables.
            UsageError: The plan was created while a clock was ahead.
            UnitTestFailedError: A unit test failed; nothing was computed.
            AuditFailedError: A blocking audit found rows; nothing was published.
            ExecutionError: A model failed; nothing was published, finished ranges are kept.
        """
        started, store, name = time.monotonic(), self.handles.store, self.plan.environment
        store.project.require_own()
        require_created_in_past(self.plan, store.database.clock.now())
        self.handles.lakehouse.recover()
        store.plans.require_open(self.plan.id)
        store.plans.save(self.plan)
        if store.plans.is_applied(self.plan.id):
            failed = self._virtual_update()  # That apply may have died after its publication.
            return events.ApplyResult(self.plan, store.environments.get(name), False, 0.0, failed)
        if not self.proved:
            raise errors.ConflictError(
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
            if store.plans.is_applied(self.plan.id):
                return events.ApplyResult(self.plan, store.environments.get(name), False, 0.0)
            self.plan = replace(self.plan, base_version=self._check_base())
            store.plans.set_status(self.plan.id, "applying", who=self.who, approved=self.approved)
            try:
                environment, plan = self._run_stages(held, lease.lease)
            except errors.UnknownOutcomeError:
                # The next apply determines whether it was published; it has not failed.
                raise
            except BaseException as error:
                # A process that took over the lease may be applying the plan, or has applied it.
                with (
                    suppress(errors.VdeError),
                    store.leases.holding(environment_lease(name), self.owner),
                ):
                    store.plans.set_status(self.plan.id, "failed", _message(error))
                raise
        seconds = time.monotonic() - started
        self.on_event(events.Published(environment, plan, seconds))
        failed = self._virtual_update()
        skipped = add_models_of_skipped_tables(plan, self._skipped)
        refreshes = dict(self._refreshes)
        return events.ApplyResult(plan, environment, True, seconds, failed, skipped, refreshes)

    def _virtual_update(self) -> tuple[events.VirtualUpdateRan, ...]:
        return run_virtual_update(self.handles, self.plan.environment, self.owner, self.on_event)

    def _run_stages(self, held: ExitStack, lease: Lease) -> tuple[Environment, Plan]:
        plan = self._save_tables()
        self.on_event(events.ApplyStarted(plan))
        audits = stages.plan_audit_order(plan)
        run = _Run(self, plan, audits, held, lease)
        for stage in stages.apply_stages(plan, audits):
            run.run(stage)
        return run.environment, plan

    def run_tests(self, plan: Plan) -> None:
        """Run the unit tests of the plan's models, and report and store each result."""
        if self.tests is None:
            return
        ended: list[TestRecord] = []

        def report_test(event: events.UnitTestFinished) -> None:
            record = TestRecord.from_result(
                event.snapshot, event.result, remembered=event.remembered
            )
            ended.append(replace(record, environment=plan.environment, plan=plan.id))
            self.on_event(event)

        try:
            self.tests.run(plan, self.handles.engine, report_test, self.stop)
        finally:
            self.handles.store.outbox.add("test", [test.to_json() for test in ended])

    def run_before_all(self, statements: Iterable[str]) -> None:
        # A retried apply runs them again.
        store, settings = self.handles.store, self.handles.settings
        for statement in statements:
            try:
                with store.database.effects.at("before_all.run", statement):
                    self.handles.engine().run_statement(statement)
            except errors.ExecutionError as error:
                raise errors.ExecutionError(
                    f"a statement of before_all failed: {error.message}: {statement}",
                    hint="nothing was computed or published: fix the statement, and run: "
                    f"vde apply {self.plan.environment}",
                    location=errors.SourceLocation(Path(settings.config_file or "pyproject.toml")),
                ) from error

    def _check_base(self) -> int:
        """Return the environment's version.

        Raises:
            ConflictError: The environment shows other versions of models than when the plan was
                created.
        """
        name = self.plan.environment
        base = self.handles.store.versions.current_base(name, self.plan.base_version)
        if base is None:
            current = self.handles.store.environments.get(name)
            raise outdated_plan_error(name, self.plan.base_version, current)
        return base

    def _save_tables(self) -> Plan:
        self.handles.store.snapshots.save(self.plan.snapshots.values())
        new = [table for table in self.plan.tables.values() if not table.created]
        made = self.handles.store.tables.ensure_all(new) if new else {}
        return replace_plan_tables(self.plan, made) if made else self.plan

    def emit(self, event: events.Event) -> None:
        """Pass an event to `on_event`, and remember skipped models. Any thread may call this."""
        with self._emit_lock:
            if isinstance(event, events.IntervalFilled) and event.skipped is not None:
                self._skipped[event.snapshot.name] = event.skipped
            if isinstance(event, events.IntervalFilled) and event.refresh is not None:
                self._refreshes[event.snapshot.name] = event.refresh
            self.on_event(event)


class _Run:
    environment: Environment
    """The published environment, set by the stage `Publish`."""
    _filler: TableFiller
    """Set by the stage `LockTables`."""

    def __init__(
        self, applier: Applier, plan: Plan, audits: AuditOrder, held: ExitStack, lease: Lease
    ) -> None:
        self._applier, self._plan, self._held, self._lease = applier, plan, held, lease
        self._audits = audits
        self._handles, self._stop = applier.handles, applier.stop
        self._models = {model.name: model for model in plan.models}

    def run(self, stage: stages.Stage) -> None:
        match stage:
            case stages.RunUnitTests():
                self._applier.run_tests(self._plan)
            case stages.RunStatements("before", statements):
                self._applier.run_before_all(statements)
            case stages.RunStatements():
                pass  # The publication stores them, and the virtual update runs them.
            case stages.LockTables(names):
                self._filler = self._lock(names)
            case stages.FillTables(after):
                self._process(after, self._filler.fill)
            case stages.AuditAfterFills(names):
                self._process(dict.fromkeys(names, frozenset()), self._filler.audit_late)
            case stages.ChangeLayouts(names):
                self._filler.change_layouts([self._models[name] for name in names])
            case stages.Publish():
                self.environment = self._publish()

    def _lock(self, names: Iterable[ModelName]) -> TableFiller:
        plan, handles, store = self._plan, self._handles, self._handles.store
        target = self._resolver()
        models = (self._models[name] for name in names)
        written = [(model, model.table) for model in models if model.table is not None]
        for _, table in written:
            target.require_writable(table)
        moved = (table.id for model, table in written if model.builds or model.deploys)
        owner = self._applier.owner
        leases = TableLeases.take(store, owner, store.shown.currently_shown(moved), self._held)
        store.tables.note_parts(
            (table.id, part)
            for model, table in written
            if model.builds
            for part in partly_filled_units(plan.snapshot_of(model), model.intervals)
        )
        sets: Mapping[str, tuple[Columns, ...]] = {}
        lacks: Mapping[str, ParentGaps] = {}
        costs = project_costs(handles, plan)
        if plan.builds:
            sets = digest_sets(plan, target, handles.settings.catalog)
            known = replace_plan_tables(plan, store.tables.load(plan.tables))
            lacks = parent_gaps(known, handles.settings.start_time)
        return TableFiller(
            PlanTasks(plan, target, WrittenTables(), handles, sets, lacks, costs),
            self._applier.emit,
            self._audits,
            leases,
            self._lease.token,
            self._stop,
            Slots(self._applier.concurrency),
        )

    def _resolver(self) -> Resolver:
        production = self._handles.store.environments.get(PRODUCTION)
        return self._plan.resolver(
            production=production.tables if production else frozenset(),
            suffix=self._handles.settings.environment_suffix_target,
            mode=self._handles.settings.virtual_environment_mode,
        )

    def _process(
        self, graph: Mapping[ModelName, Set[ModelName]], work: Callable[[PlannedModel], None]
    ) -> None:
        def failed(name: ModelName, error: Exception, skipped: list[ModelName]) -> None:
            self._applier.emit(events.ModelFailed(name, error, tuple(skipped)))
            if isinstance(error, errors.StoreError):
                self._stop.set()  # Spark or the state is unavailable for all models.

        result = run_graph(
            graph,
            lambda name: work(self._models[name]),
            threads=self._applier.concurrency,
            on_failure=failed,
            stop=self._stop,
        )
        if result.failed:
            folder = self._handles.settings.work_dir / "failures"
            raise plan_failure(self._plan, result.failed, result.skipped, folder)
        if self._stop.is_set():
            raise canceled_error(self._plan)

    def _publish(self) -> Environment:
        tasks, leases = self._filler.tasks, self._filler.leases
        return publish_plan(
            self._plan,
            tasks.target,
            tasks.written.branches,
            handles=self._handles,
            leases=(self._lease, *leases.held.values()),
            who=self._applier.who,
        )


def _message(error: BaseException) -> str:
    if isinstance(error, errors.ConflictError | errors.ExecutionError | errors.UsageError):
        return error.message
    return str(error) or type(error).__name__
