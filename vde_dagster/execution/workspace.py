"""One opened project with its state, catalog and engine: the door for the CLI and for Dagster."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.environments.environment import PRODUCTION, environment_name
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan, PlanKind, Proposal
from vde_dagster.planning.plan.plan_request import NOTHING_SAID, PlanOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from vde_dagster.execution.apply.batches import WorkEstimate
    from vde_dagster.execution.apply.plan_tests import PlanTests
    from vde_dagster.execution.changes.compare_versions import ModelChanges
    from vde_dagster.execution.changes.reading import ArrowChanges, FoundChanges
    from vde_dagster.execution.engine import Engine
    from vde_dagster.execution.environments.audit_environment import AuditReport
    from vde_dagster.execution.environments.freeze import FreezeResult
    from vde_dagster.execution.environments.rollback import RollbackResult
    from vde_dagster.execution.events import ApplyResult, Event, UnitTestFinished
    from vde_dagster.execution.linting.linter import Linter
    from vde_dagster.execution.plans.analyse_queries import Analysis
    from vde_dagster.execution.plans.pending_work import Missing
    from vde_dagster.execution.query.query import QueryResult
    from vde_dagster.lakehouse import Lakehouse
    from vde_dagster.lakehouse.maintenance.fsck import Finding
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport
    from vde_dagster.planning.environments.contracts import ContractBreak
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.project.loading.loader import Project
    from vde_dagster.project.settings import Settings
    from vde_dagster.sql.trees import ParsedQueries
    from vde_dagster.state import StateStore
    from vde_dagster.state.db.effects import Clock, Effects
    from vde_dagster.state.plans.plans import PlanRecord


class Workspace:
    """A project on disk together with everything that it works on, opened as it is needed.

    Args:
        root: The project's folder.
        engine: An engine to use instead of a Spark session of its own; it is not closed here.
        join: Starts or returns a Spark session of somebody else, which the engine joins.
        clock: Who tells the state store the time; the machine by default.
        effects: The state store's port for side effects; for tests.
    """

    def __init__(
        self,
        root: Path,
        *,
        engine: Engine | None = None,
        join: Callable[[], SparkSession] | None = None,
        clock: Clock | None = None,
        effects: Effects | None = None,
    ) -> None:
        self.root = root.resolve()
        self.warehouse = Warehouse(
            self.root, engine=engine, join=join, clock=clock, effects=effects
        )
        self._stops: dict[str, threading.Event] = {}

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        engine: Engine | None = None,
        join: Callable[[], SparkSession] | None = None,
        clock: Clock | None = None,
        effects: Effects | None = None,
    ) -> Workspace:
        """Open a project; nothing is read or started before it is needed.

        Raises:
            UsageError: The folder does not exist.
        """
        if not root.is_dir():
            raise UsageError(
                f"there is no folder {root}", hint="give the project's folder with --project"
            )
        return cls(root, engine=engine, join=join, clock=clock, effects=effects)

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        return self.warehouse.settings

    @cached_property
    def project(self) -> Project:
        """The project; every mistake in it is raised.

        Raises:
            ProjectError: A file is wrong.
            UsageError: The folder has no models.
        """
        from vde_dagster.project.loading.loader import load_project, no_models

        try:
            project = load_project(self.root, parsed=self._parsed)
            if not project.models:
                raise no_models(project.settings)
            return project
        except ProjectError as error:
            from vde_dagster.execution.plans.preflight import all_mistakes

            raise all_mistakes(self.root, error) from None

    @cached_property
    def _parsed(self) -> ParsedQueries:
        """Trees of the queries that loading has just read; planning takes them."""
        from vde_dagster.sql.trees import ParsedQueries

        return ParsedQueries()

    @property
    def store(self) -> StateStore:
        """The state store; created when it does not exist."""
        return self.warehouse.store

    @property
    def lakehouse(self) -> Lakehouse:
        """The Iceberg catalog."""
        return self.warehouse.lakehouse

    def engine(self) -> Engine:
        """Return the engine; the first call starts it."""
        return self.warehouse.engine()

    @property
    def engine_started(self) -> bool:
        """Whether the engine was needed so far."""
        return self.warehouse.started_engine is not None

    def snapshots(self) -> dict[ModelName, Snapshot]:
        """Return the project's snapshots in topological order.

        Raises:
            ProjectError: A file is wrong, a query names what its parents do not have, or a check
                found a mistake.
        """
        return self.warehouse.snapshots_of(self.project.models, self._parsed, [])

    def plan(
        self,
        environment: str,
        options: PlanOptions = NOTHING_SAID,
        *,
        save: bool = True,
        author: str | None = None,
        at_once: bool = False,
        **said: Any,
    ) -> Plan:
        """Plan the project's state for an environment.

        Args:
            environment: The environment's name; it need not exist.
            options: What is to be filled, and by whose clock; see `PlanOptions`.
            save: Whether to store the plan, so that it can be applied by its id.
            author: Who proposes it, for somebody to approve; None for a plan that is only looked
                at, or applied at once.
            at_once: Whether it is applied here and now: where Spark is needed and cannot be had,
                nothing is stored.
            said: Single fields of `PlanOptions`, instead of those in `options`.

        Raises:
            ProjectError: A mistake in the project.
            UsageError: A wrong name or range; the folder has no models; the state belongs to
                another project; or many models would go and nobody said that it is meant.
            NoSparkError: It is to be applied at once, and cannot be.
        """
        from vde_dagster.execution.plans.make_plans import plan_project

        environment = environment_name(environment)
        options = replace(options, **said)
        check = self._require_engine if at_once else None
        if options.restate:
            from vde_dagster.execution.plans.restatements import plan_restatement

            return plan_restatement(
                self.warehouse,
                environment,
                options,
                save=save,
                proposal=self._proposal(author),
                check=check,
            )
        return plan_project(
            self.warehouse,
            self.project.models,
            environment,
            options,
            parsed=self._parsed,
            tests=self.project.tests,
            linter=self.linter() if self.settings.linter.enabled else None,
            save=save,
            proposal=self._proposal(author),
            check=check,
        )

    def _proposal(self, author: str | None) -> Proposal | None:
        return None if author is None else Proposal(self.project.files_hash, author)

    def linter(self, rules: Collection[str] = ()) -> Linter:
        """Return the linter of the project's models, by the settings' rules or given ones."""
        from vde_dagster.execution.linting.linter import Linter

        return Linter(self.settings, self.project.models, self.project.tests, only=rules)

    def likely_meant(self, environment: str) -> str | None:
        """Return the environment that a new one's name is one letter away from, or None."""
        from vde_dagster.execution.plans.make_plans import likely_meant

        return likely_meant(self.store, environment_name(environment))

    def plan_run(
        self,
        environment: str,
        options: PlanOptions = NOTHING_SAID,
        *,
        save: bool = True,
        at_once: bool = False,
        of: Sequence[str] = (),
        **said: Any,
    ) -> Plan:
        """Plan what is due in an environment as it was published, whatever the files say now.

        Args:
            options: By whose clock, and what of it; see `PlanOptions`.
            save: Whether to store the plan.
            at_once: Whether it is applied here and now, as in `plan`.
            of: Patterns of the models that are looked at, and of no others; nothing is stored then.
            said: Single fields of `PlanOptions`, instead of those in `options`.

        Raises:
            UsageError: The environment does not exist.
        """
        from vde_dagster.execution.plans.make_plans import plan_run
        from vde_dagster.execution.plans.restatements import with_auto_restatement

        return plan_run(
            self.warehouse,
            environment_name(environment),
            replace(options, **said),
            save=save and not of,
            add=lambda plan: with_auto_restatement(self.warehouse, plan, save=save and not of),
            of=of,
            check=self._require_engine if at_once else None,
        )

    def analyse(self, plan: Plan) -> Analysis:
        """Let Spark analyse every query that a plan changes; writes nothing.

        Raises:
            StoreError: Spark cannot be had.
        """
        from vde_dagster.execution.plans.analyse_queries import analyse_plan

        return analyse_plan(self.warehouse, plan)

    def test(self, plan: Plan) -> list[UnitTestFinished]:
        """Run the unit tests that an apply of a plan begins with, and return how they ended.

        What passes is not run again by the apply. Nothing is computed or published.

        Raises:
            StoreError: There is a test to run, and Spark cannot be had.
        """
        from vde_dagster.errors import UnitTestFailedError
        from vde_dagster.execution.events import UnitTestFinished

        ended: list[Event] = []
        tests = self._unit_tests(plan)
        if tests is not None:
            with suppress(UnitTestFailedError):
                tests.run(plan, self.engine, ended.append, threading.Event())
        return [event for event in ended if isinstance(event, UnitTestFinished)]

    def estimate(self, plan: Plan) -> WorkEstimate | None:
        """Estimate, by earlier fills, the work of what a plan computes again."""
        from vde_dagster.execution.apply.batches import estimate_restatement

        return estimate_restatement(self.warehouse, plan)

    def whats_missing(self, plan: Plan) -> Missing:
        """Return the work that a plan without changes leaves undone, with the commands for it."""
        from vde_dagster.execution.plans.pending_work import whats_missing

        return whats_missing(self.warehouse, plan)

    def breaks_to_accept(self, plan: Plan) -> tuple[ContractBreak, ...]:
        """Return a plan's breaks of an environment whose readers are to be asked first."""
        name = plan.environment
        asks = name == PRODUCTION or self.settings.is_protected(name)
        return plan.breaks if asks and plan.base_version else ()

    def load_plan(self, plan_id: str) -> Plan:
        """Return a stored plan.

        Raises:
            UsageError: There is no such plan.
        """
        return self.store.plans.load(plan_id)

    def reject(self, plan_id: str, why: str = "", *, who: str | None = None) -> PlanRecord:
        """Reject a stored plan, so that nobody can apply it.

        Args:
            who: Who rejects it; the system user by default.

        Raises:
            UsageError: There is no such plan.
            ConflictError: It is being applied, was applied, or nobody can apply it any more.
        """
        self.store.project.require_own()
        return self.store.plans.reject(plan_id, who or current_user(), why)

    def apply(
        self,
        plan: Plan,
        *,
        on_event: Callable[[Event], None] | None = None,
        concurrency: int | None = None,
        who: str | None = None,
        lease_wait_seconds: float = 0.0,
        skip_tests: bool = False,
    ) -> ApplyResult:
        """Apply a plan: run its models' unit tests, fill what is missing, audit, publish.

        Args:
            on_event: Called in this thread with everything that happens.
            concurrency: Models and batches worked on at once; the project's setting by default.
            who: For the environment's history; the system user by default.
            lease_wait_seconds: How long to wait for a lease whose owner may have died.
            skip_tests: Whether to publish without running unit tests.

        Raises:
            NoSparkError: Spark is needed and cannot be had; nothing was stored.
            ConflictError: The environment moved, or somebody else is changing it.
            UnitTestFailedError: A unit test failed; nothing was computed.
            AuditFailedError: A blocking audit found rows; nothing was published.
            ExecutionError: A model failed; nothing was published.
        """
        from vde_dagster.execution.apply.virtual_update import run_virtual_update
        from vde_dagster.execution.events import ApplyResult

        if plan.is_empty:
            self.lakehouse.recover()
            failed = run_virtual_update(
                self.warehouse,
                plan.environment,
                f"{who or current_user()}, plan {plan.id}",
                on_event or (lambda event: None),
            )
            current = self.store.environments.get(plan.environment)
            self._follow(plan.environment, who)
            return ApplyResult(plan, current, False, 0.0, failed)
        from vde_dagster.execution.apply.apply import Applier

        tests = None if skip_tests else self._unit_tests(plan)
        self._require_engine(plan, tests)
        if self.warehouse.started_engine is not None:
            self.warehouse.started_engine.begin(plan.id)
        stop = threading.Event()
        self._stops[plan.id] = stop
        try:
            result = Applier(
                plan=plan,
                warehouse=self.warehouse,
                on_event=on_event or (lambda event: None),
                concurrency=concurrency or self.settings.concurrency,
                who=who or current_user(),
                stop=stop,
                wait_seconds=lease_wait_seconds,
                tests=tests,
            ).run()
        finally:
            del self._stops[plan.id]
        self._follow(plan.environment, who)
        return result

    def _follow(self, environment: str, who: str | None, *, first: bool = False) -> None:
        from vde_dagster.execution.changes.followers import follow

        follow(self.warehouse, environment, who or current_user(), first=first)

    def _require_engine(self, plan: Plan, tests: PlanTests | None = None) -> None:
        """Make sure that what a plan needs of Spark can be had, before anything is stored."""
        from vde_dagster.execution.plans.preflight import require_engine_for

        require_engine_for(plan, self.warehouse, tests)

    def _unit_tests(self, plan: Plan) -> PlanTests | None:
        """Return the unit tests of the files; mistakes elsewhere in them stop no stored plan."""
        from vde_dagster.execution.apply.plan_tests import PassedTests, PlanTests
        from vde_dagster.project.loading.loader import load_project_isolated

        if plan.kind is not PlanKind.PLAN:
            return None
        project = self.__dict__.get("project") or load_project_isolated(self.root, strict=False)
        if not project.tests:
            return None
        return PlanTests(project.tests, project.models, PassedTests.of(self.settings), self.root)

    def cancel(self, plan_id: str) -> None:
        """Stop an apply of this workspace and the Spark jobs that it runs; any thread may call."""
        stop = self._stops.get(plan_id)
        if stop is not None:
            stop.set()
        if self.warehouse.started_engine is not None:
            self.warehouse.started_engine.cancel(plan_id)

    def rollback(
        self,
        environment: str,
        version: int | None = None,
        *,
        who: str | None = None,
        definitions_only: bool = False,
        dry_run: bool = False,
    ) -> RollbackResult:
        """Publish an earlier version of an environment again, with its data.

        Args:
            version: The version; by default the latest one that differs from the current.
            who: For the environment's history.
            definitions_only: Whether the data stay as they are.
            dry_run: Whether to say only what would happen.

        Raises:
            UsageError: There is no such environment or version, or its data are gone.
            ConflictError: Somebody else is changing the environment or one of its tables.
        """
        from vde_dagster.execution.environments.rollback import rollback

        environment = environment_name(environment)
        result = rollback(
            self.warehouse,
            environment,
            version,
            who or current_user(),
            definitions_only=definitions_only,
            dry_run=dry_run,
        )
        if not dry_run:
            self._follow(environment, who)
        return result

    def freeze(
        self,
        source: str,
        name: str,
        keep: timedelta | None = None,
        *,
        who: str | None = None,
    ) -> FreezeResult:
        """Make an environment that shows a version of another one for ever, code and data.

        Args:
            source: The version: `prod@41`, `prod@2026-11-01T06:00`, or `prod` for the current one.
            name: The new environment's name.
            keep: For how long; without it until it is dropped.
            who: For the environment's history.

        Raises:
            UsageError: There is no such version, its data are not known or gone, or the name is
                taken.
            ConflictError: The version was forgotten meanwhile, or somebody makes the same name.
        """
        from vde_dagster.execution.environments.freeze import freeze

        return freeze(self.warehouse, source, name, keep, who or current_user())

    def janitor(self, *, dry_run: bool = False) -> JanitorReport:
        """Drop what no kept version of any environment reaches."""
        from vde_dagster.lakehouse.maintenance.janitor import run_janitor

        self.store.project.require_own()
        if not dry_run:
            # Before versions are forgotten that these views read.
            self._follow(PRODUCTION, "janitor", first=True)
        return run_janitor(self.store, self.lakehouse, self.settings, dry_run=dry_run)

    def fsck(self, *, deep: bool = False) -> tuple[Finding, ...]:
        """Check that every pointer leads to its files, and that what is shown is there.

        Args:
            deep: Whether the footers of data files are read, too.
        """
        from vde_dagster.lakehouse.maintenance.fsck import fsck
        from vde_dagster.lakehouse.maintenance.janitor import retention_of

        return fsck(self.lakehouse, retention_of(self.settings).uncommitted_grace, deep=deep)

    def export_state(self, path: Path, *, replace: bool = False) -> dict[str, int]:
        """Write state and catalog to a file.

        Args:
            replace: Whether it may exist.

        Returns:
            Rows by table.

        Raises:
            UsageError: The file exists, or its folder does not.
        """
        if path.exists() and not replace:
            raise UsageError(f"{path} exists", hint="give another file, or --force to replace it")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", hint="make it first")
        return self.store.export_state(path)

    def import_state(self, path: Path) -> dict[str, int]:
        """Read a file of `export_state` into a state database that is empty.

        Returns:
            Rows by table.

        Raises:
            UsageError: There is no such file, it is no export, or the state is not empty.
            StoreError: The file was written with another schema.
        """
        return self.store.import_state(path)

    def query(
        self,
        environment: str,
        sql: str,
        limit: int | None = None,
        *,
        raw: bool = False,
        at: str | None = None,
    ) -> QueryResult:
        """Run a query in which model names mean the environment's views, or what they once were.

        Args:
            environment: The environment; `prod@41` and `prod@2026-11-01T06:00` mean a version of
                it, with the definitions and the data that it was published with.
            sql: The query, in Spark SQL.
            limit: The most rows to return.
            at: A time (UTC): the version that was current then.
            raw: Whether to leave out the rules of `query_rules`, which keep a query to models;
                for who may do on this machine whatever Spark may do.

        Raises:
            UsageError: There is no such environment, or the query cannot be read or does more
                than to read models.
        """
        from vde_dagster.execution.changes.reading import expand_changes
        from vde_dagster.execution.environments.published_version import published_version

        said: dict[str, Any] = {"raw": raw, "expand": expand_changes}
        version = published_version(self.store, environment, at)
        if version is not None:
            from vde_dagster.execution.query.query import query_version

            return query_version(self.warehouse, version, sql, limit, **said)
        from vde_dagster.execution.query.query import query_environment

        return query_environment(self.warehouse, environment_name(environment), sql, limit, **said)

    def changes(
        self,
        environment: str,
        model: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        each: bool = False,
    ) -> FoundChanges:
        """Read the changes of a published model, row by row, from one version to another.

        Args:
            since: The version that the caller has, 0 for none: then all rows are inserted.
            until: The version to go to; the current one by default.
            cursor: In place of `since`, the cursor of a consumer, which `acknowledge` moves.
            limit: The most changes to return.
            each: Whether to tell each version's changes, counted by `_change_ordinal`, in place of
                the net ones.

        Raises:
            UsageError: There is no such environment, model or version, or the data of the version
                to go to are gone.
        """
        from vde_dagster.execution.changes.reading import read_changes

        planned = self._plan_changes(environment, model, since, until, cursor, each)
        return read_changes(self.warehouse, planned, cursor, limit)

    def changes_arrow(
        self,
        environment: str,
        model: str,
        *,
        since: int | None = None,
        until: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
        each: bool = False,
    ) -> ArrowChanges:
        """Read the rows of `changes` as an Arrow table, without rows in Python.

        Raises:
            UsageError: As `changes`.
        """
        from vde_dagster.execution.changes.reading import read_arrow_changes

        planned = self._plan_changes(environment, model, since, until, cursor, each)
        return read_arrow_changes(self.warehouse, planned, cursor, limit)

    def changes_between(
        self,
        environment: str,
        model: str,
        since: int,
        until: int | None = None,
        *,
        each: bool = False,
    ) -> ModelChanges:
        """Return the query of changes, for any Spark session with the catalog.

        Raises:
            UsageError: As `changes`.
        """
        return self._plan_changes(environment, model, since, until, None, each)

    def _plan_changes(
        self,
        environment: str,
        model: str,
        since: int | None,
        until: int | None,
        cursor: str | None,
        each: bool,
    ) -> ModelChanges:
        from vde_dagster.execution.changes.reading import plan_changes

        name = ModelName.parse(model, self.settings.default_namespace)
        where = environment_name(environment)
        return plan_changes(self.warehouse, where, name, since, until, cursor, each=each)

    def acknowledge(self, found: FoundChanges | ArrowChanges, *, who: str | None = None) -> None:
        """Move the cursor by which changes were read, once the caller has kept them.

        Raises:
            UsageError: They were not read by a cursor, or not all of them were.
            ConflictError: Somebody else has moved the cursor.
        """
        from vde_dagster.execution.changes.followers import acknowledge

        changes = found.changes
        if found.cursor is None or found.more:
            raise UsageError(
                "these changes were not read by a cursor, or not all of them were",
                hint="read them with cursor=… and without a limit",
            )
        acknowledge(
            self.warehouse,
            changes.environment,
            changes.model,
            found.cursor,
            changes.since,
            changes.until,
            who or current_user(),
        )

    def read(self, environment: str, model: str, columns: Sequence[str] = ()) -> pa.Table:
        """Read a published model into memory, without an engine and so without a JVM.

        Args:
            model: The model, with a table of its own: of any kind but VIEW, EMBEDDED and EXTERNAL.
            columns: The columns to read; all by default.

        Raises:
            UsageError: There is no such environment, model or column, or the model has no table.
        """
        from vde_dagster.execution.query.query import read_published

        name = ModelName.parse(model, self.settings.default_namespace)
        return read_published(self.warehouse, environment_name(environment), name, columns)

    def render(
        self,
        model: str,
        *,
        environment: str = PRODUCTION,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> str:
        """Return the SQL that Spark runs for a model of the project in an environment.

        Raises:
            UsageError: There is no such model, or it has no SQL.
        """
        from vde_dagster.execution.plans.render_model import render_model

        environment = environment_name(environment)
        models = self.project.models
        return render_model(self.warehouse, models, self._parsed, model, environment, start, end)

    def fill(
        self,
        snapshot_id: str,
        intervals: IntervalSet,
        *,
        on_event: Callable[[Event], None] | None = None,
        restate: bool = False,
        who: str | None = None,
        lease_wait_seconds: float = 0.0,
    ) -> ApplyResult:
        """Fill ranges of the table that serves a stored snapshot, and publish where it is shown.

        Args:
            intervals: The ranges (UTC).
            on_event: Called in this thread with everything that happens.
            restate: Whether to fill again what is filled already.
            who: For the environment's history.
            lease_wait_seconds: How long to wait for a lease whose owner may have died.

        Raises:
            UsageError: No environment shows the snapshot.
        """
        from vde_dagster.execution.plans.restatements import plan_backfill

        plan = plan_backfill(self.warehouse, snapshot_id, intervals, restate=restate)
        return self.apply(plan, on_event=on_event, who=who, lease_wait_seconds=lease_wait_seconds)

    def audit(
        self,
        environment: str,
        *,
        select: Sequence[str] = (),
        labels: Collection[str] | None = None,
    ) -> AuditReport:
        """Run the audits of what an environment shows; nothing is filled or published.

        Args:
            select: Patterns of models; all by default.
            labels: Only these audits, by their labels; all by default.

        Raises:
            UsageError: There is no such environment, or a pattern matches nothing.
            ExecutionError: Spark failed.
        """
        from vde_dagster.execution.environments.audit_environment import EnvironmentAudit

        work = EnvironmentAudit(self.warehouse, environment_name(environment), select, labels)
        self._stops[work.run_id] = work.stop
        try:
            return work.run()
        finally:
            del self._stops[work.run_id]

    def drop_environment(self, environment: str) -> None:
        """Let an environment expire now; the janitor drops its views and what only it used.

        Raises:
            UsageError: There is no such environment, or it is production.
        """
        environment = environment_name(environment)
        if environment == PRODUCTION:
            raise UsageError(
                "production cannot be dropped", hint="roll it back, or drop another environment"
            )
        self.store.project.require_own()
        if not self.store.environments.exists(environment):
            from vde_dagster.execution.plans.make_plans import no_environment

            raise no_environment(self.store, environment)
        self.store.environments.invalidate(environment)

    def reload(self) -> None:
        """Forget the project as it was read, so that the next use reads the files again."""
        self.__dict__.pop("project", None)
        self.warehouse.reload_settings()

    def close(self) -> None:
        """Stop the engine that this workspace started, and close the store."""
        self.warehouse.close()

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def current_user() -> str:
    """Return the user of this process, for histories."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        return "unknown"
