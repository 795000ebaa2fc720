"""Creation of plans: of a project's files, or of an environment's due intervals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import current_user, mark_unverified
from vde_dagster.errors import UnitTestFailedError, UsageError
from vde_dagster.execution.apply.batches import with_batches
from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.execution.events import UnitTestFinished
from vde_dagster.execution.plans.build_plans import PlanBuilder
from vde_dagster.execution.plans.due_work import find_changeable_environment, with_outdated
from vde_dagster.execution.plans.finish_plan import readable_id, require_engine_for
from vde_dagster.execution.plans.gates import Gates
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    branch_name,
    environment_name,
    protected_tables,
)
from vde_dagster.planning.plan.plan import Plan, PlanKind, Proposal
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions
from vde_dagster.planning.plan.restatement import limit_to_model
from vde_dagster.planning.plan.restatement import restate as restated
from vde_dagster.planning.tables.table import TableChange
from vde_dagster.reports.plan_json import plan_json
from vde_dagster.reports.reasons import describe_break, describe_change_in_place
from vde_dagster.reports.restatement import restated_plan

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.execution.plans.estimate import Estimate, ModelEstimate
    from vde_dagster.execution.plans.plan_file import PlanFiles
    from vde_dagster.planning.environments.contracts import ContractBreak
    from vde_dagster.planning.intervals.interval import IntervalSet
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.state.fills.fills import FillRecord
    from vde_dagster.state.plans.plans import PlanRecord

_MOST_FILLS = 1000
"""Maximum number of a table's past fills that are compared with their estimates."""


@dataclass(frozen=True, slots=True)
class Plans:
    handles: Handles

    def make(
        self,
        environment: str,
        options: PlanOptions = NOTHING_SAID,
        *,
        save: bool = True,
        author: str | None = None,
        once: bool = False,
        at_once: bool = False,
        **fields: Any,
    ) -> Plan:
        """Plan the project's files for an environment.

        Args:
            environment: The environment's name. It need not exist.
            save: Whether to store the plan, if permitted, so that it can be applied by its id.
            author: Author of a proposal for approval; None if the plan needs no approval.
            once: Whether to return an equal plan that already awaits approval, if there is one.
            at_once: Whether the caller applies the plan immediately. If that needs Spark and Spark
                is unavailable, the plan is not stored.
            fields: Single fields of `PlanOptions`, instead of `options`.

        Raises:
            ProjectError: The project has an error.
            UsageError: A name or range is invalid; the folder has no models; the state belongs to
                another project; many models would be removed without confirmation; or there is
                nothing to restate.
            NoSparkError: The plan is applied immediately and needs Spark, which is unavailable.
        """
        named, environment = environment, environment_name(environment)
        options = replace(options, **fields)
        save = self._can_store(environment, save=save, at_once=at_once)
        if author is not None:
            self.handles.store.rights.require("plan", "propose a plan")
        branch = "" if options.restate else self._require_same_branch(named, environment)
        if options.restate:
            plan = PlanBuilder(self.handles).restate(environment, options)
        else:
            models = self.handles.project.models
            plan = PlanBuilder(self.handles).plan_files(environment, options, models, save=save)
        if branch:
            plan = replace(plan, branch=branch)
        if author is not None:
            plan = self.proposed(plan, author)
        return self._store(plan, save=save, at_once=at_once, once=once)

    def proposed(self, plan: Plan, author: str | None = None) -> Plan:
        """Turn a plan into a proposal for approval. Its author is the system user by default."""
        proposal = Proposal(self.handles.project.files_hash, author or current_user())
        return replace(plan, proposal=proposal)

    def _require_same_branch(self, named: str, environment: str) -> str:
        branch = branch_name(named)
        known = (
            None if environment == PRODUCTION else self.handles.store.plans.git_branch(environment)
        )
        if known is None or known == branch:
            return branch
        of = f"belongs to branch '{known}'" if known else "was created with this exact name"
        meant = known or environment
        raise UsageError(
            f"environment '{environment}' {of}, and '{named.strip()}' names the same environment",
            hint=f"to continue with '{environment}', run vde plan {meant}; for another one, "
            f"choose another name, or run vde drop {environment} first",
        )

    def due(
        self,
        environment: str,
        options: PlanOptions = NOTHING_SAID,
        *,
        save: bool = True,
        at_once: bool = False,
        of: Sequence[str] = (),
        **fields: Any,
    ) -> Plan:
        """Plan a run: fill the due intervals of an environment with its published definitions.

        Args:
            options: Time and selection. `save`, `at_once` and `fields` are as in `make`.
            of: Names or globs of models to plan, with related models. Such a plan is not stored.

        Raises:
            UsageError: The environment does not exist.
        """
        environment, save = environment_name(environment), save and not of
        options = replace(options, **fields)
        save = self._can_store(environment, save=save, at_once=at_once)
        builder = PlanBuilder(self.handles)
        plan = builder.plan_published(environment, options, save=save, ticks=True, of=of)
        return self._store(plan, save=save, at_once=at_once)

    def backfill(self, snapshot_id: str, intervals: IntervalSet, *, restate: bool = False) -> Plan:
        """Plan to fill ranges of one snapshot's table, and store the plan.

        The plan is for an unfrozen environment that contains the snapshot, preferably production.

        Args:
            intervals: The ranges (UTC), widened to whole units.
            restate: Whether to refill filled ranges of the model and of every descendant.

        Raises:
            UsageError: No unfrozen environment contains the snapshot.
        """
        # A restatement in an environment other than production leaves out production's tables. A
        # model with restatement disabled gets only its missing ranges.
        handles = self.handles
        environment = find_changeable_environment(handles, snapshot_id)
        builder = PlanBuilder(handles)
        plan = builder.plan_published(environment.name, PlanOptions(full=True), save=False)
        name = next(n for n, e in environment.entries.items() if e.snapshot_id == snapshot_id)
        if restate:
            production = handles.store.environments.get(PRODUCTION)
            protected = protected_tables(environment.name, production)
            found = restated(plan, {name: intervals}, protected, fills_missing=True)
            from vde_dagster.execution.plans.backlog import mark_restated

            plan = with_outdated(handles, mark_restated(handles, restated_plan(found)))
            if plan.restates:
                plan = replace(plan, kind=PlanKind.RESTATEMENT)
        else:
            plan = limit_to_model(plan, name, intervals)
        plan = replace(plan, id=readable_id(plan, "fill"))
        plan = with_batches(handles, plan)
        return self._store(plan, save=True)

    def reject(
        self, plan_id: str, why: str = "", *, who: str | None = None, verified: bool = True
    ) -> PlanRecord:
        """Reject a stored plan, so that it cannot be applied.

        Args:
            who: Name of the person; the system user by default.
            verified: Whether the name is verified, not just typed.

        Raises:
            UsageError: The plan does not exist.
            ConflictError: The plan is being applied, was applied, or can no longer be applied.
        """
        store = self.handles.store
        store.project.require_own()
        record = store.plans.record(plan_id)
        if record is not None:
            store.rights.require_change(
                record.environment, f"reject a plan of '{record.environment}'"
            )
        name = who or current_user()
        return store.plans.reject(plan_id, name if verified else mark_unverified(name), why)

    def test(self, plan: Plan) -> list[UnitTestFinished]:
        """Run a plan's unit tests. Raises StoreError if they need Spark and it is unavailable."""
        # The apply of the plan skips tests that passed.
        ended: list[UnitTestFinished] = []
        tests = PlanTests.load(self.handles, plan)
        if tests is not None:
            with suppress(UnitTestFailedError):
                tests.run(plan, self.handles.engine, ended.append, threading.Event())
        return ended

    def breaks_to_accept(self, plan: Plan) -> tuple[ContractBreak, ...]:
        """Return a plan's breaking changes that a person must confirm."""
        name = plan.environment
        asks = name == PRODUCTION or self.handles.settings.is_protected(name)
        return plan.breaks if asks and plan.base_version else ()

    @property
    def gates(self) -> Gates:
        return Gates(self.handles)

    @property
    def files(self) -> PlanFiles:
        from vde_dagster.execution.plans.plan_file import PlanFiles

        return PlanFiles(self.handles)

    @staticmethod
    def to_json(plan: Plan) -> dict[str, Any]:
        """Return the documented JSON form of a plan (`vde plan --json`)."""
        return plan_json(plan)

    @staticmethod
    def describe(part: ContractBreak | TableChange) -> str:
        """Describe a breaking change, or the change of a table in place, as the report does."""
        if isinstance(part, TableChange):
            return "; ".join(describe_change_in_place(part))
        return describe_break(part)

    def proven(self, plan: Plan) -> Plan:
        """Derive all fields of a plan again from its definitions and tables. See `ProvenPlan`."""
        from vde_dagster.execution.plans.proven_plan import proven

        return proven(self.handles, plan)

    def previous_snapshots(self, plan: Plan) -> dict[str, Snapshot]:
        """Read the snapshots that a plan replaces or removes, by id."""
        ids = [
            model.previous_snapshot_id
            for model in plan.models
            if model.previous_snapshot_id and model.previous_snapshot_id != model.snapshot_id
        ]
        return dict(self.handles.store.snapshots.load(ids)) if ids else {}

    def estimate(self, plan: Plan) -> Estimate:
        from vde_dagster.execution.plans.estimate import estimate_plan

        return estimate_plan(self.handles, plan)

    def past_estimates(
        self, since: datetime, until: datetime
    ) -> Iterator[tuple[Snapshot, FillRecord, ModelEstimate]]:
        """Yield fills in [since, until) (UTC), each with its estimate from earlier fills."""
        # Each estimate is computed again, from the fills of the same table recorded before.
        from vde_dagster.execution.plans.estimate import MOST, past_estimates

        store = self.handles.store
        tables = store.tables.load({one.table_id for one in store.fills.between(since, until)})
        snapshots = store.snapshots.load({one.snapshot_id for one in tables.values()})
        for table_id, fills in store.fills.recent(tables, _MOST_FILLS + MOST, until).items():
            snapshot = snapshots.get(tables[table_id].snapshot_id)
            if snapshot is not None:
                for fill, estimate in past_estimates(fills, by_range=snapshot.is_incremental):
                    if since <= fill.recorded_at < until:
                        yield snapshot, fill, estimate

    def _can_store(self, environment: str, *, save: bool, at_once: bool) -> bool:
        # A login without the right to plan can only view the plan.
        rights = self.handles.store.rights
        if at_once:
            rights.require_change(environment, f"apply a plan to '{environment}'")
        return save and rights.has("plan")

    def _store(self, plan: Plan, *, save: bool, at_once: bool = False, once: bool = False) -> Plan:
        if save or at_once:
            plan = replace(plan, objections=tuple(self.gates.objections(plan)))
        if at_once and not plan.is_empty:
            require_engine_for(plan, self.handles, None)
        if save and not plan.is_empty:
            stored = self.handles.store.plans.save(plan, once=once)
            return plan if stored == plan.id else self.handles.store.plans.load(stored)
        return plan
