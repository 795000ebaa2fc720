"""Creation of plans without storing them: of files, of published models, and of restatements."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import utc
from vde_dagster.errors import ProjectError
from vde_dagster.execution.apply.batches import with_batches
from vde_dagster.execution.apply.early_fills import remove_early_ranges
from vde_dagster.execution.plans.due_work import (
    environment_tables,
    with_auto_restatement,
    with_outdated,
)
from vde_dagster.execution.plans.finish_plan import (
    damage_warnings,
    lost_table_warnings,
    name_change,
    project_warnings,
    readable_id,
    with_statements,
)
from vde_dagster.execution.plans.gather_state import gather_state, related_models, stored_builder
from vde_dagster.execution.plans.keepers import add_kept_texts
from vde_dagster.execution.plans.signals import SignalContext, signal_caller
from vde_dagster.execution.published_version import named_environment
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.checks.unit_tests import find_test_mistakes
from vde_dagster.planning.environments.contracts import find_reader_mistakes
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    protected_tables,
    require_changeable,
)
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.forward_only import (
    ForwardOnly,
    may_change_in_place,
    require_effective_from_used,
    require_matching_patterns,
)
from vde_dagster.planning.plan.plan import Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.plan.plan_request import PlanRequest, models_to_fill, plan_window
from vde_dagster.planning.plan.planner import make_plan
from vde_dagster.planning.plan.publication import require_confirmed_removals, require_no_gaps
from vde_dagster.planning.plan.restatement import require_same_ranges, restate_published
from vde_dagster.planning.snapshots.snapshot import Snapshot, sort_parents_first
from vde_dagster.project.configuration.config_files import config_warnings
from vde_dagster.project.dag import needed_models
from vde_dagster.project.model import Model
from vde_dagster.project.selection import select, select_by_name
from vde_dagster.reports.forward_only import warnings_in_place
from vde_dagster.reports.restatement import restated_plan
from vde_dagster.sql.grammar.compiled import grammar_warnings

if TYPE_CHECKING:
    from vde_dagster.base.failures import Problem
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.tables.table import PhysicalTable


@dataclass(frozen=True, slots=True)
class PlanBuilder:
    """Builds plans without storing them: plans of files, runs, and restatements."""

    handles: Handles

    def make_part(self, models: Mapping[ModelName, Model], environment: str) -> Plan:
        """Build a plan of some models and their ancestors."""
        options = PlanOptions(skip_backfill=True, remove_models=True)
        return self.plan_files(environment, options, models, save=False, part=True)

    def plan_files(
        self,
        environment: str,
        options: PlanOptions,
        models: Mapping[ModelName, Model],
        *,
        save: bool,
        part: bool = False,
    ) -> Plan:
        handles, store = self.handles, self.handles.store
        if not part:
            store.project.require_own()
            store.environments.require_changeable(environment)
        if options.select:
            models = select_models(handles, environment, models, options.select)
        if handles.settings.forward_only:
            options = replace(options, forward_only=True)
        snapshots, warnings = self._checked_snapshots(models, options, part=part)
        gather = partial(
            gather_state,
            store,
            environment,
            build=stored_builder(handles),
            among=models if part else None,
        )
        state = gather(snapshots)
        about = (
            *config_warnings(handles.settings),
            *handles.project.warnings,
            *grammar_warnings(),
            *(() if part else project_warnings(handles)),
        )
        messages = (*map(str, (*about, *warnings)), *damage_warnings(state, environment))

        def real_types(table: PhysicalTable) -> dict[str, str]:
            return columns_of(handles.lakehouse.table_metadata(table.ref), None)

        resolved = ForwardOnly(state, options, real_types)
        require_matching_patterns(options, snapshots)
        if may_change_in_place(snapshots, state, options):
            # Hashes of readers depend on the real types of production's reused tables.
            snapshots = handles.snapshots_of(models, None, [], revise=resolved.revise)
            messages = (*messages, *warnings_in_place(resolved.findings))
            state = gather(snapshots)
        snapshots = state.keep_published(snapshots)
        kept = state.target.kept if state.target is not None else {}

        def with_settings(plan: Plan) -> Plan:
            plan = with_statements(handles, plan)
            # A plan of some models does not include other parts of the files.
            whole = not part and not options.select
            return add_kept_texts(handles, plan, kept) if whole else replace(plan, kept=dict(kept))

        return self._make_plan(
            environment,
            snapshots,
            state,
            options,
            with_settings,
            resolved=resolved,
            warnings=messages,
            save=save,
        )

    def _checked_snapshots(
        self, models: Mapping[ModelName, Model], options: PlanOptions, *, part: bool
    ) -> tuple[dict[ModelName, Snapshot], list[Problem]]:
        handles = self.handles
        # A selection may exclude a test's model, or use another definition of it.
        whole = not part and not options.select
        warnings: list[Problem] = []

        def mistakes(known: Mapping[ModelName, Snapshot]) -> Iterator[ProjectError]:
            if whole:
                yield from find_test_mistakes(handles.project.tests, models, known)
                yield from find_reader_mistakes(handles.project.exposures, known, warnings)
            if handles.settings.linter.enabled and not part:
                from vde_dagster.execution.linting.linter import Linter, lint_problems

                yield from lint_problems(Linter(handles.project), known, warnings)

        return handles.snapshots_of(models, handles.parsed, warnings, mistakes), warnings

    def plan_published(
        self,
        environment: str,
        options: PlanOptions,
        *,
        save: bool,
        ticks: bool = False,
        of: Sequence[str] = (),
    ) -> Plan:
        """Build a plan of the due intervals of an environment's published models.

        Args:
            ticks: Whether the plan is a scheduled run, which includes automatic restatements.
            of: Patterns of models.
        """
        # If all patterns are names, only the named models and their ancestors are read.
        handles, store = self.handles, self.handles.store
        current = named_environment(handles, environment)
        store.project.require_own()
        require_changeable(environment, current.frozen)
        named = select_by_name(current.entries, of)
        among = None if named is None else related_models(store, current, named)
        build = stored_builder(handles)
        state = gather_state(store, environment, None, build, among, current)
        snapshots = sort_parents_first(
            {
                name: state.snapshots[entry.snapshot_id]
                for name, entry in current.entries.items()
                if among is None or name in among
            }
        )

        def with_published(plan: Plan) -> Plan:
            messages = store.statements.around_runs(environment)
            plan = replace(plan, statements=messages, kept=current.kept)
            return with_auto_restatement(handles, plan, save=save) if ticks else plan

        return self._make_plan(environment, snapshots, state, options, with_published, save=save)

    def restate(self, environment: str, options: PlanOptions) -> Plan:
        """Build a plan that computes filled intervals of an environment's models again."""
        handles = self.handles
        run = self.plan_published(environment, replace(options, full=True), save=False)
        require_same_ranges(run, environment_tables(handles, environment))
        production = handles.store.environments.get(PRODUCTION)
        protected = protected_tables(environment, production)
        found = restate_published(run, options, protected, handles.changed_files)
        from vde_dagster.execution.plans.backlog import mark_restated

        plan = mark_restated(handles, restated_plan(found))
        plan = with_batches(handles, with_outdated(handles, plan))
        return replace(plan, id=readable_id(plan, f"restates_{next(iter(plan.restates), '')}"))

    def _make_plan(
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
        handles, settings = self.handles, self.handles.settings
        kind = PlanKind.RUN if resolved is None else PlanKind.PLAN
        present = handles.store.database.clock.now()
        now = utc(options.now) if options.now else present
        kept = settings.time_to_live(environment)
        state, early = remove_early_ranges(handles, state, save=save)
        alone = [name for name, one in snapshots.items() if not one.model.kind.is_read]
        if alone and kind is PlanKind.RUN:
            audited = handles.store.audits.audited_until(environment, alone)
            state = replace(state, audited=audited)
        request = PlanRequest(
            environment=environment,
            window=plan_window(options, now, settings.start_time),
            kind=kind,
            options=options,
            ready=signal_caller(
                environment, now, partial(SignalContext, handles, environment, now)
            ),
            backfill=models_to_fill(snapshots, options.backfill, handles.changed_files),
            expires_at=present + kept if kept else None,  # Not from a past execution time.
            catalog=settings.catalog,
            suffix=settings.environment_suffix_target,
            mode=settings.virtual_environment_mode,
            changes=resolved.changes if resolved else {},
            previewed=resolved.previewed if resolved else {},
            exposures=handles.project.exposures if resolved else (),
        )
        plan = make_plan(
            request,
            snapshots,
            state,
            plan_id=f"{environment}-{uuid.uuid4().hex[:10]}",
            unique_id=lambda: uuid.uuid4().hex,
        )
        require_effective_from_used(options, plan)
        lost = lost_table_warnings(handles, plan, state)
        plan = self._with_forecasts(add(replace(plan, warnings=(*warnings, *early, *lost))), state)
        if kind is PlanKind.PLAN and not options.remove_models:
            require_confirmed_removals(plan, state, settings.max_removed)
        plan = replace(plan, id=readable_id(plan, name_change(plan, state)))
        if options.no_gaps:
            require_no_gaps(plan, state.target, state.tables)
        return plan

    def _with_forecasts(self, plan: Plan, state: WarehouseState) -> Plan:
        """Add the fills that may be skipped, backlogs of changes, and numbers of batches."""
        if any(model.skippable for model in plan.models):
            from vde_dagster.execution.apply.skipping import forecast_skips

            plan = forecast_skips(self.handles, plan, state)
        models = [model for model in plan.models if _has_backlog(plan, model)]
        if models:
            from vde_dagster.execution.plans.backlog import with_backlogs

            plan = with_backlogs(self.handles, plan, state, models)
        return with_batches(self.handles, plan) if plan.builds else plan


def _has_backlog(plan: Plan, model: PlannedModel) -> bool:
    snapshot = plan.snapshots.get(model.snapshot_id or "")
    if snapshot is None or model.table is None or not model.table.intervals:
        return False
    meaning = meaning_of(snapshot.model.kind)
    # Most models choose. Plans that do not compute them need not read the metadata of all inputs.
    is_read = model.builds or not meaning.chooses(snapshot.model)
    return is_read and meaning.refreshes(snapshot.model)


def select_models(
    handles: Handles, environment: str, models: Mapping[ModelName, Model], patterns: Sequence[str]
) -> dict[ModelName, Model]:
    """Take selected models from the files, and all others as published.

    Raises UsageError if a pattern selects nothing.
    """
    # A model that is not selected keeps its published definition in the environment, or, for a new
    # environment, its definition in production. A model that is not published there is left out,
    # unless a selected model reads it.
    store = handles.store
    base = store.environments.get(environment) or store.environments.get(PRODUCTION)
    entries = base.entries if base else {}
    stored = store.snapshots.load([entry.snapshot_id for entry in entries.values()])
    old = {name: stored[entry.snapshot_id].model for name, entry in entries.items()}
    chosen = select({**old, **models}, patterns, handles.changed_files)
    out = {name: model for name, model in models.items() if name in chosen}
    out |= {name: model for name, model in old.items() if name not in chosen}
    needed = needed_models({**models, **out}, out)
    return out | {name: model for name, model in models.items() if name in needed - out.keys()}
