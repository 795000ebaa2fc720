"""The door for the command line, Dagster and programs: one opened project."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import UsageError
from vde_dagster.execution.warehouse import Warehouse, current_user
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from vde_dagster.execution.changes.reading import Changes
    from vde_dagster.execution.environments.environments import Environments
    from vde_dagster.execution.events import ApplyResult, Event
    from vde_dagster.execution.maintenance import Maintenance
    from vde_dagster.execution.plans.make_plans import Plans
    from vde_dagster.execution.plans.render_model import Models
    from vde_dagster.execution.query.query import Queries, QueryResult
    from vde_dagster.planning.plan.plan import Plan
    from vde_dagster.spark import SparkEngine
    from vde_dagster.state.db.effects import Clock, Effects


class Workspace(Warehouse):
    """The door: a warehouse with the three commonest calls, and facets with all others."""

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        engine: SparkEngine | None = None,
        join: Callable[[], SparkSession] | None = None,
        clock: Clock | None = None,
        effects: Effects | None = None,
    ) -> Self:
        """Open a project; nothing is read or started before it is needed.

        Raises:
            UsageError: The folder does not exist.
        """
        if not root.is_dir():
            raise UsageError(
                f"there is no folder '{root}'",
                hint="give the project's folder with --project, or make a project with `vde init`",
            )
        return cls(root, engine=engine, join=join, clock=clock, effects=effects)

    def plan(self, environment: str, options: PlanOptions = NOTHING_SAID, **said: Any) -> Plan:
        """Plan the project's state for an environment; see `Plans.make`."""
        return self.plans.make(environment, options, **said)

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

        Raises:
            NoSparkError: Spark is needed and cannot be had; nothing was stored.
            ConflictError: The environment moved, or somebody else is changing it.
            UnitTestFailedError: A unit test failed; nothing was computed.
            AuditFailedError: A blocking audit found rows; nothing was published.
            ExecutionError: A model failed; nothing was published.
        """
        from vde_dagster.execution.apply.virtual_update import run_virtual_update
        from vde_dagster.execution.changes.followers import follow
        from vde_dagster.execution.events import ApplyResult

        who, tell = who or current_user(), on_event or (lambda event: None)
        if plan.is_empty:
            self.lakehouse.recover()
            owner = f"{who}, plan {plan.id}"
            failed = run_virtual_update(self, plan.environment, owner, tell)
            current = self.store.environments.get(plan.environment)
            result = ApplyResult(plan, current, False, 0.0, failed)
        else:
            from vde_dagster.execution.apply.apply import Applier
            from vde_dagster.execution.apply.plan_tests import PlanTests
            from vde_dagster.execution.plans.finish_plan import require_engine_for

            tests = None if skip_tests else PlanTests.of(self, plan)
            require_engine_for(plan, self, tests)
            if self.started_engine is not None:
                self.started_engine.begin(plan.id)
            most = concurrency or self.settings.concurrency
            with self.stoppable(plan.id) as stop:
                work = Applier(plan, self, tell, most, who, stop, lease_wait_seconds, tests)
                result = work.run()
        follow(self, plan.environment, who)
        return result

    def query(
        self, environment: str, sql: str, limit: int | None = None, **how: Any
    ) -> QueryResult:
        """Run a query in which model names mean the environment's views; see `Queries.run`."""
        return self.queries.run(environment, sql, limit, **how)

    @cached_property
    def plans(self) -> Plans:
        """Plans: of the files, of what is due, of ranges; tested and rejected."""
        from vde_dagster.execution.plans.make_plans import Plans

        return Plans(self)

    @cached_property
    def environments(self) -> Environments:
        """Published environments: rolled back, frozen, audited, dropped, and their versions."""
        from vde_dagster.execution.environments.environments import Environments

        return Environments(self)

    @cached_property
    def changes(self) -> Changes:
        """Changes of the rows of published models between versions."""
        from vde_dagster.execution.changes.reading import Changes

        return Changes(self)

    @cached_property
    def queries(self) -> Queries:
        """Queries of environments and versions, and reads of models without an engine."""
        from vde_dagster.execution.query.query import Queries

        return Queries(self)

    @cached_property
    def models(self) -> Models:
        """Models of the files, as Spark runs them."""
        from vde_dagster.execution.plans.render_model import Models

        return Models(self)

    @cached_property
    def maintenance(self) -> Maintenance:
        """The janitor, checks of files, and copies of the state."""
        from vde_dagster.execution.maintenance import Maintenance

        return Maintenance(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
