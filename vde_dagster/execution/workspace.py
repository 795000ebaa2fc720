"""One opened project with its state, catalog and engine: the door for the CLI and for Dagster."""

from __future__ import annotations

import getpass
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.planning.environment import PRODUCTION, environment_name
from vde_dagster.planning.interval import Interval, IntervalSet, utc
from vde_dagster.planning.plan import Plan, PlanKind

if TYPE_CHECKING:
    from vde_dagster.execution.apply import ApplyResult
    from vde_dagster.execution.engine import Engine
    from vde_dagster.execution.events import Event
    from vde_dagster.execution.memo import FileMemo
    from vde_dagster.execution.query import QueryResult
    from vde_dagster.execution.rollback import RollbackResult
    from vde_dagster.lakehouse import Lakehouse
    from vde_dagster.lakehouse.fsck import Finding
    from vde_dagster.lakehouse.janitor import JanitorReport
    from vde_dagster.planning.planner import WarehouseState
    from vde_dagster.planning.snapshot import Snapshot
    from vde_dagster.project.loading.loader import Project
    from vde_dagster.project.loading.parsed import ParsedQueries
    from vde_dagster.project.model import Model
    from vde_dagster.project.settings import Settings
    from vde_dagster.state import StateStore
    from vde_dagster.state.clock import Clock
    from vde_dagster.state.effects import Effects


class Workspace:
    """A project on disk together with everything that it works on, opened as it is needed.

    Args:
        root: The project's folder.
        engine: An engine to use instead of a Spark session of its own; it is not closed here.
        clock: Who tells the state store the time; the machine by default.
        effects: The state store's port for side effects; for tests.
    """

    def __init__(
        self,
        root: Path,
        *,
        engine: Engine | None = None,
        clock: Clock | None = None,
        effects: Effects | None = None,
    ) -> None:
        self.root = root.resolve()
        self._engine = engine
        self._clock = clock
        self._effects = effects
        self._own_engine = engine is None
        self._lock = threading.Lock()
        self._stops: dict[str, threading.Event] = {}

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        engine: Engine | None = None,
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
        return cls(root, engine=engine, clock=clock, effects=effects)

    @cached_property
    def settings(self) -> Settings:
        """The project's settings."""
        from vde_dagster.project.loading.loader import read_settings

        return read_settings(self.root)

    @cached_property
    def project(self) -> Project:
        """The project; every mistake in it is raised.

        Raises:
            ProjectError: A file is wrong.
        """
        from vde_dagster.project.loading.loader import load_project

        try:
            return load_project(self.root)
        except ProjectError as error:
            from vde_dagster.execution.mistakes import all_mistakes

            raise all_mistakes(self.root, error) from None

    @cached_property
    def store(self) -> StateStore:
        """The state store; created when it does not exist."""
        from vde_dagster.state import StateStore

        url = self.settings.resolved_state_url
        if url.startswith("sqlite:///"):
            Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        return StateStore.open(url, clock=self._clock, effects=self._effects)

    @cached_property
    def lakehouse(self) -> Lakehouse:
        """The Iceberg catalog."""
        from vde_dagster.lakehouse import Lakehouse

        settings = self.settings
        return Lakehouse(
            self.store, settings.catalog, settings.resolved_warehouse, settings.trino_catalog
        )

    def engine(self) -> Engine:
        """Return the engine; the first call starts it."""
        with self._lock:
            if self._engine is None:
                from vde_dagster.spark import SparkEngine

                self._engine = SparkEngine(self.settings, self.root, self.lakehouse)
            return self._engine

    @property
    def engine_started(self) -> bool:
        """Whether the engine was needed so far."""
        return self._engine is not None

    def snapshots(self) -> dict[ModelName, Snapshot]:
        """Return the project's snapshots in topological order.

        Raises:
            ProjectError: A file is wrong, or a query names what its parents do not have.
        """
        return self._build(self.project.models, self.project.parsed)

    def _build(
        self, models: Mapping[ModelName, Model], parsed: ParsedQueries | None = None
    ) -> dict[ModelName, Snapshot]:
        from vde_dagster.planning.build_snapshots import build_snapshots

        built = build_snapshots(
            models,
            self._catalog_columns,
            memo=self._memo,
            parsed=parsed,
            scalar_functions=self.settings.scalar_functions,
        )
        self._memo.save()
        return built

    @cached_property
    def _memo(self) -> FileMemo:
        from vde_dagster.execution.memo import FileMemo

        return FileMemo(self.settings.work_dir / "cache" / "snapshots")

    def _catalog_columns(self, name: ModelName) -> Sequence[tuple[str, str]] | None:
        from vde_dagster.planning.table import TableRef

        ref = TableRef(name.namespace, name.name)
        if not self.lakehouse.table_exists(ref):
            return None
        return [(column, type_) for column, type_, _ in self.lakehouse.table_columns(ref)]

    def plan(
        self,
        environment: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        select: Sequence[str] = (),
        skip_backfill: bool = False,
        now: datetime | None = None,
        save: bool = True,
    ) -> Plan:
        """Plan the project's state for an environment.

        Args:
            environment: The environment's name; it need not exist.
            start: Fill only from here on (UTC).
            end: Fill only before here (UTC, exclusive).
            select: Patterns of the models whose changes are taken; all by default.
            skip_backfill: Publish without computing anything.
            now: The plan's instant (UTC); the clock's by default.
            save: Whether to store the plan, so that it can be applied by its id.

        Raises:
            ProjectError: A mistake in the project.
            UsageError: A wrong name or range.
        """
        from vde_dagster.execution.gather_state import gather_state
        from vde_dagster.execution.select_models import select_models

        environment = environment_name(environment)
        models = self.project.models
        if select:
            models = select_models(self.store, environment, models, select)
        snapshots = self._build(models, self.project.parsed)
        state = gather_state(self.store, environment, snapshots, self._build)
        return self._make(
            environment, snapshots, state, PlanKind.PLAN, start, end, skip_backfill, now, save
        )

    def plan_run(self, environment: str, *, now: datetime | None = None, save: bool = True) -> Plan:
        """Plan what is due in an environment as it was published, whatever the files say now.

        Raises:
            UsageError: The environment does not exist.
        """
        from vde_dagster.execution.gather_state import gather_state
        from vde_dagster.planning.order import in_order

        environment = environment_name(environment)
        current = self.store.environment(environment)
        if current is None:
            raise self._no_environment(environment)
        state = gather_state(self.store, environment, None, self._build)
        snapshots = in_order(
            {name: state.snapshots[entry.snapshot_id] for name, entry in current.entries.items()}
        )
        return self._make(environment, snapshots, state, PlanKind.RUN, None, None, False, now, save)

    def _make(
        self,
        environment: str,
        snapshots: dict[ModelName, Snapshot],
        state: WarehouseState,
        kind: PlanKind,
        start: datetime | None,
        end: datetime | None,
        skip_backfill: bool,
        now: datetime | None,
        save: bool,
    ) -> Plan:
        from vde_dagster.planning.missing import Window
        from vde_dagster.planning.planner import PlanRequest, make_plan

        now = utc(now) if now else self.store.clock.now()
        if start is not None and end is not None:
            Interval(start, end)
        if start is not None and utc(start) > now:
            raise UsageError(
                f"the start {utc(start):%Y-%m-%d %H:%M} UTC lies in the future",
                hint="give a start before now",
            )
        settings = self.settings
        request = PlanRequest(
            environment=environment,
            window=Window(
                now,
                utc(start) if start else None,
                utc(end) if end else None,
                settings.start_time,
            ),
            kind=kind,
            skip_backfill=skip_backfill,
            time_to_live=timedelta(days=settings.environment_ttl_days),
            catalog=settings.catalog,
        )
        plan = make_plan(
            request,
            snapshots,
            state,
            plan_id=f"{environment}-{uuid.uuid4().hex[:10]}",
            unique_id=lambda: uuid.uuid4().hex,
        )
        if save and not plan.is_empty:
            self.store.save_plan(plan, state.held)
        return plan

    def load_plan(self, plan_id: str) -> Plan:
        """Return a stored plan.

        Raises:
            UsageError: There is no such plan.
        """
        return self.store.load_plan(plan_id)

    def apply(
        self,
        plan: Plan,
        *,
        on_event: Callable[[Event], None] | None = None,
        concurrency: int | None = None,
        who: str | None = None,
        lease_wait_seconds: float = 0.0,
    ) -> ApplyResult:
        """Apply a plan: fill what is missing, audit, publish.

        Args:
            plan: The plan.
            on_event: Called in this thread with everything that happens.
            concurrency: Models worked on at once; the project's setting by default.
            who: For the environment's history; the system user by default.
            lease_wait_seconds: How long to wait for a lease whose owner may have died.

        Raises:
            ConflictError: The environment moved, or somebody else is changing it.
            AuditFailedError: A blocking audit found rows; nothing was published.
            ExecutionError: A model failed; nothing was published.
        """
        from vde_dagster.execution.apply import Applier, ApplyResult

        if plan.is_empty:
            return ApplyResult(plan, self.store.environment(plan.environment), False, 0.0)
        if self._engine is not None:
            self._engine.begin(plan.id)
        stop = threading.Event()
        self._stops[plan.id] = stop
        try:
            return Applier(
                plan=plan,
                settings=self.settings,
                store=self.store,
                lakehouse=self.lakehouse,
                engine=self.engine,
                on_event=on_event or (lambda event: None),
                concurrency=concurrency or self.settings.concurrency,
                who=who or current_user(),
                stop=stop,
                wait_seconds=lease_wait_seconds,
            ).run()
        finally:
            del self._stops[plan.id]

    def cancel(self, plan_id: str) -> None:
        """Stop an apply of this workspace and the Spark jobs that it runs; any thread may call."""
        stop = self._stops.get(plan_id)
        if stop is not None:
            stop.set()
        if self._engine is not None:
            self._engine.cancel(plan_id)

    def rollback(
        self, environment: str, version: int | None = None, *, who: str | None = None
    ) -> RollbackResult:
        """Publish an earlier version of an environment again.

        Args:
            environment: The environment.
            version: The version; by default the latest one that differs from the current.
            who: For the environment's history.

        Raises:
            UsageError: There is no such environment or version.
            ConflictError: Somebody else is changing the environment.
        """
        from vde_dagster.execution.rollback import rollback

        return rollback(self, environment_name(environment), version, who or current_user())

    def janitor(self, *, dry_run: bool = False) -> JanitorReport:
        """Drop what no kept version of any environment reaches."""
        from vde_dagster.lakehouse.janitor import run_janitor

        return run_janitor(self.store, self.lakehouse, self.settings, dry_run=dry_run)

    def fsck(self) -> tuple[Finding, ...]:
        """Check that every pointer leads to its files, and that what is shown is there."""
        from vde_dagster.lakehouse.fsck import fsck
        from vde_dagster.lakehouse.janitor import retention_of

        return fsck(self.lakehouse, retention_of(self.settings).uncommitted_grace)

    def export_state(self, path: Path, *, replace: bool = False) -> dict[str, int]:
        """Write state and catalog to a file.

        Args:
            path: The file.
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
        self, environment: str, sql: str, limit: int | None = None, *, raw: bool = False
    ) -> QueryResult:
        """Run a query in which model names mean the environment's views.

        Args:
            environment: The environment.
            sql: The query, in Spark SQL.
            limit: The most rows to return.
            raw: Whether to leave out the rules of `query_rules`, which keep a query to models;
                for who may do on this machine whatever Spark may do.

        Raises:
            UsageError: There is no such environment, or the query cannot be read or does more
                than to read models.
        """
        from vde_dagster.execution.query import query_environment

        return query_environment(self, environment_name(environment), sql, limit, raw=raw)

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
        from vde_dagster.execution.render_model import render_model

        return render_model(self, model, environment_name(environment), start, end)

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
            snapshot_id: The snapshot.
            intervals: The ranges (UTC).
            on_event: Called in this thread with everything that happens.
            restate: Whether to fill again what is filled already.
            who: For the environment's history.
            lease_wait_seconds: How long to wait for a lease whose owner may have died.

        Raises:
            UsageError: No environment shows the snapshot.
        """
        from vde_dagster.execution.backfill import plan_backfill

        plan = plan_backfill(self, snapshot_id, intervals, restate=restate)
        return self.apply(plan, on_event=on_event, who=who, lease_wait_seconds=lease_wait_seconds)

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
        if not self.store.has_environment(environment):
            raise self._no_environment(environment)
        self.store.invalidate_environment(environment)

    def reload(self) -> None:
        """Forget the project as it was read, so that the next use reads the files again."""
        for name in ("project", "settings"):
            self.__dict__.pop(name, None)

    def close(self) -> None:
        """Stop the engine that this workspace started, and close the store."""
        if self._engine is not None and self._own_engine:
            self._engine.close()
            self._engine = None
        if "store" in self.__dict__:
            self.store.close()
            for name in ("store", "lakehouse"):
                self.__dict__.pop(name, None)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _no_environment(self, environment: str) -> UsageError:
        from vde_dagster.base.suggestions import closest

        close = closest(environment, self.store.environment_names())
        hint = f"did you mean '{close}'?" if close else f"plan it first: vde plan {environment}"
        return UsageError(f"there is no environment '{environment}'", hint=hint)


def current_user() -> str:
    """Return who runs this process, for histories."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        return "unknown"
