"""Entry point for the command line, Dagster and programs: a project with all operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import current_user, mark_unverified
from vde_dagster.execution.handles import Handles
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions

if TYPE_CHECKING:
    from vde_dagster.execution.changes.reading import Changes
    from vde_dagster.execution.environments.environments import Environments
    from vde_dagster.execution.events import ApplyResult, Event
    from vde_dagster.execution.maintenance import Maintenance
    from vde_dagster.execution.plans.make_plans import Plans
    from vde_dagster.execution.query.query import Queries, QueryResult
    from vde_dagster.execution.render_model import Models
    from vde_dagster.planning.plan.plan import Plan


class Workspace(Handles):
    """Opened project with its operations, such as `plan`, `apply` and `query`."""

    # Only the command line, Dagster, plug-ins and programs import this class. Functions of this
    # package take `Handles`.
    def plan(self, environment: str, options: PlanOptions = NOTHING_SAID, **fields: Any) -> Plan:
        """Plan the project's files for an environment. See `Plans.make`."""
        return self.plans.make(environment, options, **fields)

    def apply(
        self,
        plan: Plan,
        *,
        on_event: Callable[[Event], None] | None = None,
        concurrency: int | None = None,
        who: str | None = None,
        approved: bool = False,
        verified: bool = True,
        lease_wait_seconds: float = 0.0,
        skip_tests: bool = False,
    ) -> ApplyResult:
        """Apply a plan: run unit tests, fill missing ranges, audit, and publish the environment.

        Args:
            on_event: Called with every event, by one thread at a time.
            concurrency: Maximum number of models and batches in parallel; the project's setting by
                default.
            who: Name for the environment's history; the system user by default.
            approved: Whether `who` has approved exactly this plan, for rules that require it.
            verified: Whether the approver's name is verified, not just typed.
            lease_wait_seconds: How long to wait while another process changes the environment.

        Raises:
            NoSparkError: Spark is needed but unavailable; nothing was stored.
            UsageError: Rules of the project refuse the plan; nothing was changed.
            NotAllowedError: The login of the state's database lacks the right; nothing was changed.
            ConflictError: The environment has changed, or another process is changing it.
        """
        from vde_dagster.execution.changes.view_updates import update_change_views

        who, tell = who or current_user(), on_event or (lambda event: None)
        self.store.rights.require_change(plan.environment, f"apply a plan to '{plan.environment}'")
        if plan.is_empty:
            result = self._apply_empty(plan, who, tell)
        else:
            from vde_dagster.execution.apply.apply import Applier
            from vde_dagster.execution.apply.plan_tests import PlanTests
            from vde_dagster.execution.plans.finish_plan import (
                require_engine_for,
                require_right_to_preview,
            )

            proved = self.plans.gates.require_open(plan, who if approved else None)
            require_right_to_preview(self, plan)
            tests = None if skip_tests else PlanTests.load(self, plan)
            require_engine_for(plan, self, tests)
            # Others may be skipped, for which no engine is needed.
            begun = (*plan.computed, *plan.recorded)
            if any(model.table and not model.table.created for model in begun):
                self.start_engine_in_background()
            if self.started_engine is not None:
                self.started_engine.begin(plan.id)
            most = concurrency or self.settings.concurrency
            with self.stoppable(plan.id) as stop:
                work = Applier(
                    plan,
                    self,
                    tell,
                    most,
                    who if verified or not approved else mark_unverified(who),
                    stop,
                    lease_wait_seconds,
                    tests,
                    approved,
                    proved,
                )
                result = work.run()
        update_change_views(self, plan.environment, who)
        return result

    def _apply_empty(self, plan: Plan, who: str, on_event: Callable[[Event], None]) -> ApplyResult:
        from vde_dagster.execution.apply.virtual_update import run_virtual_update
        from vde_dagster.execution.events import ApplyResult
        from vde_dagster.planning.plan.plan import PlanKind
        from vde_dagster.state.db.leases import lease_owner

        self.lakehouse.recover()
        owner = lease_owner(f"{who}, plan {plan.id}")
        failed = run_virtual_update(self, plan.environment, owner, on_event)
        is_run = plan.kind is PlanKind.RUN
        if not is_run and plan.environment in self.store.environments.expired():
            # Without a new version, the janitor would drop the environment.
            self.store.environments.expire(plan.environment, plan.expires_at)
        current = self.store.environments.get(plan.environment)
        return ApplyResult(plan, current, False, 0.0, failed)

    def query(
        self, environment: str, sql: str, limit: int | None = None, **how: Any
    ) -> QueryResult:
        """Run a query over an environment's views or one of its versions. See `Queries.run`."""
        return self.queries.run(environment, sql, limit, **how)

    @cached_property
    def plans(self) -> Plans:
        from vde_dagster.execution.plans.make_plans import Plans

        return Plans(self)

    @cached_property
    def environments(self) -> Environments:
        from vde_dagster.execution.environments.environments import Environments

        return Environments(self)

    @cached_property
    def changes(self) -> Changes:
        """Access to the rows that changed between two versions of an environment."""
        from vde_dagster.execution.changes.reading import Changes

        return Changes(self)

    @cached_property
    def queries(self) -> Queries:
        from vde_dagster.execution.query.query import Queries

        return Queries(self)

    @cached_property
    def models(self) -> Models:
        from vde_dagster.execution.render_model import Models

        return Models(self)

    @cached_property
    def maintenance(self) -> Maintenance:
        from vde_dagster.execution.maintenance import Maintenance

        return Maintenance(self)
