"""Making plans: of a project for an environment, and of pending intervals in one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, current_user, unverified
from vde_dagster.base.times import utc
from vde_dagster.errors import ProjectError, UnitTestFailedError, UsageError
from vde_dagster.execution.apply.batches import with_batches
from vde_dagster.execution.apply.early_fills import without_early
from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.execution.events import UnitTestFinished
from vde_dagster.execution.plans.due_work import (
    showing,
    shown_tables,
    with_auto_restatement,
    with_outdated,
)
from vde_dagster.execution.plans.finish_plan import (
    change_in_a_word,
    damages,
    doubts,
    readable_id,
    require_engine_for,
    with_statements,
)
from vde_dagster.execution.plans.gates import objections
from vde_dagster.execution.plans.gather_state import gather_state, stored_builder, what_decides
from vde_dagster.execution.plans.keepers import with_kept
from vde_dagster.execution.plans.signals import SignalContext, signals_of
from vde_dagster.execution.published_version import named_environment
from vde_dagster.execution.unit_testing.run_test import mistakes_in_tests
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.environments.contracts import mistakes_in_readers
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    branch_name,
    environment_name,
    protected_tables,
    require_changeable,
)
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.forward_only import (
    ForwardOnly,
    is_concerned,
    require_known,
    require_used,
)
from vde_dagster.planning.plan.plan import Plan, PlanKind, Proposal
from vde_dagster.planning.plan.plan_options import NOTHING_SAID, PlanOptions
from vde_dagster.planning.plan.plan_request import PlanRequest, models_to_fill, window_of
from vde_dagster.planning.plan.planner import make_plan
from vde_dagster.planning.plan.publication import require_meant, require_no_gaps
from vde_dagster.planning.plan.restatement import (
    fill_chosen,
    require_what_is_shown,
    restate_published,
)
from vde_dagster.planning.plan.restatement import restate as restated
from vde_dagster.planning.snapshots.snapshot import in_order
from vde_dagster.project.dag import needed_models
from vde_dagster.project.model import Model
from vde_dagster.project.selection import select, select_by_name
from vde_dagster.sql.grammar.compiled import grammar_warnings

if TYPE_CHECKING:
    from vde_dagster.base.failures import Problem
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environments.contracts import ContractBreak
    from vde_dagster.planning.intervals.interval import IntervalSet
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.table import PhysicalTable
    from vde_dagster.state.plans.plans import PlanRecord


@dataclass(frozen=True, slots=True)
class Plans:
    """Plans of a project and of what it has published: made, looked at, and rejected."""

    workspace: Workspace

    def make(
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
            save: Whether to store the plan, so that it can be applied by its id; by who may.
            author: Who proposes it, for somebody to approve; None for a plan that is only looked
                at, or applied at once.
            at_once: Whether it is applied here and now: where Spark is needed and cannot be had,
                nothing is stored.
            said: Single fields of `PlanOptions`, instead of those in `options`.

        Raises:
            ProjectError: A mistake in the project.
            UsageError: A wrong name or range; the folder has no models; the state belongs to
                another project; many models would go and nobody said that it is meant; or there
                is nothing to restate.
            NoSparkError: It is to be applied at once, and cannot be.
        """
        named, environment = environment, environment_name(environment)
        options = replace(options, **said)
        save = self._may(environment, save=save, at_once=at_once)
        if author is not None:
            self.workspace.store.rights.require("plan", "propose a plan")
        branch = "" if options.restate else self._branch(named, environment)
        if options.restate:
            plan = self._again(environment, options)
        else:
            models = self.workspace.project.models
            plan = self._of_files(environment, options, models, save=save)
        if branch:
            plan = replace(plan, branch=branch)
        if author is not None:
            proposal = Proposal(self.workspace.project.files_hash, author)
            plan = replace(plan, proposal=proposal)
        return self._kept(plan, save=save, at_once=at_once)

    def _branch(self, named: str, environment: str) -> str:
        """Return the branch that an environment is named by; UsageError if it is another one's."""
        branch = branch_name(named)
        known = (
            None
            if environment == PRODUCTION
            else self.workspace.store.plans.git_branch(environment)
        )
        if known is None or known == branch:
            return branch
        of = f"was made for the branch '{known}'" if known else "was made by that name"
        meant = known or environment
        raise UsageError(
            f"environment '{environment}' {of}, and '{named.strip()}' would be the same one",
            hint=f"if it is meant: vde plan {meant}; else take another name, or vde drop "
            f"{environment} first",
        )

    def of_part(self, models: Mapping[ModelName, Model], environment: str) -> Plan:
        """Plan some models with all that they are made of, only to look; no others are read."""
        options = PlanOptions(skip_backfill=True, remove_models=True)
        return self._of_files(environment, options, models, save=False, part=True)

    def due(
        self,
        environment: str,
        options: PlanOptions = NOTHING_SAID,
        *,
        save: bool = True,
        at_once: bool = False,
        of: Sequence[str] = (),
        **said: Any,
    ) -> Plan:
        """Plan a run: what is due in an environment as it was published, whatever the files say.

        Args:
            options: By whose clock, and what of it; `save`, `at_once` and `said` are as in `make`.
            of: Patterns of the models that are looked at, and of no others; nothing is stored then.

        Raises:
            UsageError: The environment does not exist.
        """
        environment, save = environment_name(environment), save and not of
        options = replace(options, **said)
        save = self._may(environment, save=save, at_once=at_once)
        plan = self._published(environment, options, save=save, ticks=True, of=of)
        return self._kept(plan, save=save, at_once=at_once)

    def backfill(self, snapshot_id: str, intervals: IntervalSet, *, restate: bool = False) -> Plan:
        """Plan to fill ranges of the table that serves a stored snapshot, and store the plan.

        It is made against the environment that shows the snapshot, production first. Restating a
        range restates it in every descendant, but for the tables that production shows when
        another environment's are restated. A model that may not be restated is filled where it
        lacks something.

        Args:
            intervals: The ranges (UTC), widened to whole units.
            restate: Whether to fill again what is filled already.

        Raises:
            UsageError: No environment shows the snapshot.
        """
        workspace = self.workspace
        environment = showing(workspace, snapshot_id)
        plan = self._published(environment.name, PlanOptions(full=True), save=False)
        name = next(n for n, e in environment.entries.items() if e.snapshot_id == snapshot_id)
        if restate:
            production = workspace.store.environments.get(PRODUCTION)
            protected = protected_tables(environment.name, production)
            found = restated(plan, {name: intervals}, protected, fills_missing=True)
            plan = with_outdated(workspace, found.plan)
            if plan.restates:
                plan = replace(plan, kind=PlanKind.RESTATEMENT)
        else:
            plan = fill_chosen(plan, name, intervals)
        plan = replace(plan, id=f"{environment.name}-{uuid.uuid4().hex[:10]}")
        plan = with_batches(workspace, plan)
        return self._kept(plan, save=True)

    def reject(
        self, plan_id: str, why: str = "", *, who: str | None = None, verified: bool = True
    ) -> PlanRecord:
        """Reject a stored plan, so that nobody can apply it.

        Args:
            who: Who rejects it; the system user by default.
            verified: Whether that name is more than a text that was typed.

        Raises:
            UsageError: There is no such plan.
            ConflictError: It is being applied, was applied, or nobody can apply it any more.
        """
        store = self.workspace.store
        store.project.require_own()
        record = store.plans.record(plan_id)
        if record is not None:
            store.rights.require_change(
                record.environment, f"reject a plan of '{record.environment}'"
            )
        name = who or current_user()
        return store.plans.reject(plan_id, name if verified else unverified(name), why)

    def test(self, plan: Plan) -> list[UnitTestFinished]:
        """Run the unit tests that an apply of a plan begins with, which need not run them again.

        Raises:
            StoreError: There is a test to run, and Spark cannot be had.
        """
        ended: list[UnitTestFinished] = []
        tests = PlanTests.of(self.workspace, plan)
        if tests is not None:
            with suppress(UnitTestFailedError):
                tests.run(plan, self.workspace.engine, ended.append, threading.Event())
        return ended

    def breaks_to_accept(self, plan: Plan) -> tuple[ContractBreak, ...]:
        """Return a plan's breaks of an environment whose readers are to be asked first."""
        name = plan.environment
        asks = name == PRODUCTION or self.workspace.settings.is_protected(name)
        return plan.breaks if asks and plan.base_version else ()

    def _may(self, environment: str, *, save: bool, at_once: bool) -> bool:
        """Say whether a plan can be stored; who may only read sees it all the same.

        Raises:
            NotAllowedError: It is to be applied here and now, by somebody who may not.
        """
        rights = self.workspace.store.rights
        if at_once:
            rights.require_change(environment, f"apply a plan to '{environment}'")
        return save and rights.has("plan")

    def _kept(self, plan: Plan, *, save: bool, at_once: bool = False) -> Plan:
        """Store a plan that does something, if that is wanted and it can be applied."""
        if save or at_once:
            plan = replace(plan, objections=tuple(objections(self.workspace, plan)))
        if at_once and not plan.is_empty:
            require_engine_for(plan, self.workspace, None)
        if save and not plan.is_empty:
            self.workspace.store.plans.save(plan)
        return plan

    def _of_files(
        self,
        environment: str,
        options: PlanOptions,
        models: Mapping[ModelName, Model],
        *,
        save: bool,
        part: bool = False,
    ) -> Plan:
        """Plan models of the files."""
        from vde_dagster.project.configuration.config_files import config_warnings

        workspace, store = self.workspace, self.workspace.store
        if not part:
            store.project.require_own()
            store.environments.require_changeable(environment)
        # A selection may leave out the model of a test, or show another definition of it.
        tests = () if part or options.select else workspace.project.tests
        readers = () if part or options.select else workspace.project.exposures
        if options.select:
            models = select_models(workspace, environment, models, options.select)
        if workspace.settings.forward_only:
            options = replace(options, forward_only=True)
        warnings: list[Problem] = []

        def lint(known: Mapping[ModelName, Snapshot]) -> Iterator[ProjectError]:
            if workspace.settings.linter.enabled and not part:
                from vde_dagster.execution.linting.linter import Linter, lint_problems

                yield from lint_problems(Linter(workspace.project), known, warnings)

        snapshots = workspace.snapshots_of(
            models,
            workspace.parsed,
            warnings,
            lambda known: (
                *mistakes_in_tests(tests, models, known),
                *mistakes_in_readers(readers, known, warnings),
                *lint(known),
            ),
        )
        gather = partial(
            gather_state,
            store,
            environment,
            build=stored_builder(workspace),
            among=models if part else None,
        )
        state = gather(snapshots)
        about = (
            *config_warnings(workspace.settings),
            *workspace.project.warnings,
            *grammar_warnings(),
            *(() if part else doubts(workspace)),
        )
        said = (*map(str, (*about, *warnings)), *damages(state, environment))

        def real_types(table: PhysicalTable) -> dict[str, str]:
            return columns_of(workspace.lakehouse.table_metadata(table.ref), None)

        resolved = ForwardOnly(state, options, real_types)
        require_known(options, snapshots)
        if is_concerned(snapshots, state, options):
            # Readers of what goes on with a table of production's are hashed over what that shows.
            snapshots = workspace.snapshots_of(models, None, [], revise=resolved.revise)
            if resolved.mistakes:
                raise ProjectError.combine(resolved.mistakes)
            state = gather(snapshots)
        snapshots = state.keep_published(snapshots)
        kept = state.target.kept if state.target is not None else {}

        def with_settings(plan: Plan) -> Plan:
            plan = with_statements(workspace, plan)
            # A part of the models is none of what else the files have.
            whole = not part and not options.select
            return with_kept(workspace, plan, kept) if whole else replace(plan, kept=dict(kept))

        return self._made(
            environment,
            snapshots,
            state,
            options,
            with_settings,
            resolved=resolved,
            warnings=(*said, *resolved.warnings),
            save=save,
        )

    def _published(
        self,
        environment: str,
        options: PlanOptions,
        *,
        save: bool,
        ticks: bool = False,
        of: Sequence[str] = (),
    ) -> Plan:
        """Plan what is due in an environment.

        Args:
            ticks: Whether it is a run by the clock, and fills again what models ask for.
            of: Patterns of models; where names alone decide, no others are read but what these are
                made of.
        """
        workspace, store = self.workspace, self.workspace.store
        current = named_environment(workspace, environment)
        store.project.require_own()
        require_changeable(environment, current.frozen)
        named = select_by_name(current.entries, of)
        among = None if named is None else what_decides(store, current, named)
        build = stored_builder(workspace)
        state = gather_state(store, environment, None, build, among, current)
        snapshots = in_order(
            {
                name: state.snapshots[entry.snapshot_id]
                for name, entry in current.entries.items()
                if among is None or name in among
            }
        )

        def with_published(plan: Plan) -> Plan:
            said = store.statements.around_runs(environment)
            plan = replace(plan, statements=said, kept=current.kept)
            return with_auto_restatement(workspace, plan, save=save) if ticks else plan

        return self._made(environment, snapshots, state, options, with_published, save=save)

    def _again(self, environment: str, options: PlanOptions) -> Plan:
        """Plan to compute models of an environment again, as it was published."""
        workspace = self.workspace
        run = self._published(environment, replace(options, full=True), save=False)
        require_what_is_shown(run, shown_tables(workspace, environment))
        production = workspace.store.environments.get(PRODUCTION)
        protected = protected_tables(environment, production)
        plan = restate_published(run, options, protected, workspace.changed_files)
        plan = with_batches(workspace, with_outdated(workspace, plan))
        return replace(plan, id=readable_id(plan, f"restates_{next(iter(plan.restates), '')}"))

    def _made(
        self,
        environment: str,
        snapshots: dict[ModelName, Snapshot],
        state: WarehouseState,
        options: PlanOptions,
        add: Callable[[Plan], Plan],
        *,
        save: bool,
        resolved: ForwardOnly | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Plan:
        """Make a plan of snapshots: of files where it is said what goes on in place, or a run."""
        workspace, settings = self.workspace, self.workspace.settings
        kind = PlanKind.RUN if resolved is None else PlanKind.PLAN
        now = utc(options.now) if options.now else workspace.store.database.clock.now()
        state, early = without_early(workspace, state, save=save)
        alone = [name for name, one in snapshots.items() if not one.model.kind.is_read]
        if alone and kind is PlanKind.RUN:
            audited = workspace.store.audits.audited_until(environment, alone)
            state = replace(state, audited=audited)
        request = PlanRequest(
            environment=environment,
            window=window_of(options, now, settings.start_time),
            kind=kind,
            options=options,
            ready=signals_of(environment, now, partial(SignalContext, workspace, environment, now)),
            backfill=models_to_fill(snapshots, options.backfill, workspace.changed_files),
            time_to_live=settings.time_to_live(environment),
            catalog=settings.catalog,
            suffix=settings.environment_suffix_target,
            mode=settings.virtual_environment_mode,
            changes=resolved.changes if resolved else {},
            previewed=resolved.previewed if resolved else {},
            exposures=workspace.project.exposures if resolved else (),
        )
        plan = make_plan(
            request,
            snapshots,
            state,
            plan_id=f"{environment}-{uuid.uuid4().hex[:10]}",
            unique_id=lambda: uuid.uuid4().hex,
        )
        require_used(options, plan)
        plan = add(replace(plan, warnings=(*warnings, *early)))
        if any(model.skippable for model in plan.models):
            from vde_dagster.execution.apply.skipping import forecast_skips

            plan = forecast_skips(workspace, plan, state)
        if any(meaning_of(one.model.kind).changed_by(one.model) for one in snapshots.values()):
            from vde_dagster.execution.plans.backlog import with_backlogs

            plan = with_backlogs(workspace, plan, state)
        if plan.builds:
            plan = with_batches(workspace, plan)
        if kind is PlanKind.PLAN and not options.remove_models:
            require_meant(plan, state, settings.max_removed)
        plan = replace(plan, id=readable_id(plan, change_in_a_word(plan, state)))
        if options.no_gaps:
            require_no_gaps(plan, state.target, state.tables)
        return plan


def select_models(
    workspace: Workspace,
    environment: str,
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
) -> dict[ModelName, Model]:
    """Return the project in which only selected models changed.

    A model that is not selected keeps the definition that the environment (or, for a new one,
    production) has; one that exists in neither is left out unless a selected model reads it.

    Raises:
        UsageError: A pattern selects nothing.
    """
    store = workspace.store
    base = store.environments.get(environment) or store.environments.get(PRODUCTION)
    entries = base.entries if base else {}
    stored = store.snapshots.load([entry.snapshot_id for entry in entries.values()])
    old = {name: stored[entry.snapshot_id].model for name, entry in entries.items()}
    chosen = select({**old, **models}, patterns, workspace.changed_files)
    out = {name: model for name, model in models.items() if name in chosen}
    out |= {name: model for name, model in old.items() if name not in chosen}
    needed = needed_models({**models, **out}, out)
    return out | {name: model for name, model in models.items() if name in needed - out.keys()}
