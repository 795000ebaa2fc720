"""Making plans: of a project for an environment, and of pending intervals in one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import closest, one_letter_away
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.apply.early_fills import without_early
from vde_dagster.execution.plans.gather_state import gather_state, what_decides
from vde_dagster.execution.plans.preflight import doubts
from vde_dagster.execution.plans.signals import SignalContext, signals_of
from vde_dagster.execution.unit_testing.check_tests import mistakes_in_tests
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    ViewNames,
    environment_name,
    require_changeable,
)
from vde_dagster.planning.environments.warehouse_state import WarehouseState
from vde_dagster.planning.intervals.interval import utc
from vde_dagster.planning.plan.forward_only import (
    ForwardOnly,
    is_concerned,
    require_known,
    require_used,
)
from vde_dagster.planning.plan.plan import (
    NO_STATEMENTS,
    Change,
    EnvironmentStatements,
    Plan,
    PlanKind,
    Proposal,
)
from vde_dagster.planning.plan.plan_request import (
    NOTHING_SAID,
    PlanOptions,
    PlanRequest,
    models_to_fill,
    window_of,
)
from vde_dagster.planning.plan.planner import make_plan
from vde_dagster.planning.plan.publication import require_meant, require_no_gaps
from vde_dagster.planning.snapshots.snapshot import in_order
from vde_dagster.project.model import Model
from vde_dagster.project.selection import select, select_by_name

if TYPE_CHECKING:
    from vde_dagster.execution.linting.linter import Linter
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.planning.environments.warehouse_state import Build
    from vde_dagster.planning.snapshots.snapshot import Snapshot
    from vde_dagster.planning.tables.table import PhysicalTable
    from vde_dagster.project.model import UnitTest
    from vde_dagster.project.problem import Problem
    from vde_dagster.sql.trees import ParsedQueries
    from vde_dagster.state import StateStore


MAX_ID = 64
"""Characters of a plan's id that the state keeps."""


def plan_project(
    warehouse: Warehouse,
    models: Mapping[ModelName, Model],
    environment: str,
    options: PlanOptions = NOTHING_SAID,
    *,
    parsed: ParsedQueries | None = None,
    tests: Sequence[UnitTest] = (),
    linter: Linter | None = None,
    save: bool = True,
    part: bool = False,
    proposal: Proposal | None = None,
    check: Callable[[Plan], None] | None = None,
) -> Plan:
    """Plan a project's models for an environment; see `Workspace.plan`.

    Args:
        warehouse: The project's warehouse.
        options: What is said of the plan.
        parsed: Trees of queries that are at hand.
        tests: The project's unit tests.
        linter: What looks at the models, or None.
        save: Whether to store the plan.
        part: Whether the models are only some, with all that they are made of: of others nothing
            is read. Such a plan is for looking.
        proposal: What makes it one that waits for an approval, or None.
        check: Refuses a plan before it is stored, or None.
    """
    if not part:
        warehouse.store.project.require_own()
        warehouse.store.environments.require_changeable(environment)
    if options.select:
        models = select_models(warehouse, environment, models, options.select)
    if warehouse.settings.forward_only:
        options = replace(options, forward_only=True)
    from vde_dagster.project.problem import config_warnings

    warnings: list[Problem] = []
    # A selection may leave out the model of a test, or show another definition of it.
    own = () if options.select else tests

    def lint(known: Mapping[ModelName, Snapshot]) -> Iterator[ProjectError]:
        if linter is not None and not linter.is_idle:
            from vde_dagster.execution.linting.linter import lint_problems

            yield from lint_problems(linter, known, warnings)

    snapshots = warehouse.snapshots_of(
        models,
        parsed,
        warnings,
        lambda known: (*mistakes_in_tests(own, models, known), *lint(known)),
    )
    build = stored_builder(warehouse)
    gather = partial(
        gather_state, warehouse.store, environment, build=build, among=models if part else None
    )
    state = gather(snapshots)
    about = (*map(str, config_warnings(warehouse.settings)), *(() if part else doubts(warehouse)))
    said = (*about, *map(str, warnings), *_damages(state, environment))
    resolved = ForwardOnly(state, options, partial(_real_types, warehouse))
    require_known(options, snapshots)
    if is_concerned(snapshots, state, options):
        # Whoever reads what goes on with a table of production's is hashed over what that shows.
        snapshots = warehouse.snapshots_of(models, None, [], revise=resolved.revise)
        if resolved.mistakes:
            raise ProjectError.of(resolved.mistakes)
        state = gather(snapshots)
    return _make(
        warehouse,
        environment,
        snapshots,
        state,
        options,
        kind=PlanKind.PLAN,
        save=save,
        warnings=(*said, *resolved.warnings),
        add=partial(_with_statements, warehouse),
        resolved=resolved,
        proposal=proposal,
        check=check,
    )


def _with_statements(warehouse: Warehouse, plan: Plan) -> Plan:
    """Add the statements `before_all` and `after_all` of the settings."""
    settings = warehouse.settings
    before = warehouse.store.environment_statements.get(plan.environment)
    made = NO_STATEMENTS
    if settings.before_all or settings.after_all:
        from vde_dagster.planning.rendering.views import over_views
        from vde_dagster.project.loading.environment_statements import environment_statements

        names = ViewNames(plan.environment, settings.environment_suffix_target)
        shown = {
            name
            for name, entry in plan.entries.items()
            if plan.snapshots[entry.snapshot_id].model.kind.is_shown
        }
        refs = [names.ref(name) for name in shown]
        made = EnvironmentStatements(
            *environment_statements(
                settings,
                plan.environment,
                schemas=sorted({ref.namespace for ref in refs}),
                views=sorted(f"{settings.catalog}.{ref.namespace}.{ref.name}" for ref in refs),
            )
        ).map(
            lambda text: over_views(
                text,
                lambda name: names.quoted(name, settings.catalog) if name in shown else None,
                settings.catalog,
            )
        )
    if made == before:
        return replace(plan, statements=made) if made else plan
    return replace(plan, statements=made, other_statements=True)


def _damages(state: WarehouseState, environment: str) -> Iterator[str]:
    """Return the warnings on damaged definitions and their repair."""
    for name in state.mended:
        yield (
            f"the stored definition of {name} was damaged; it is written again from the "
            "project's files, which still have it"
        )
    for name in state.left_out:
        yield (
            f"the definition of {name} that '{environment}' shows, or would take over, cannot be "
            "read in the state store; the plan counts the model as changed"
        )


def stored_builder(warehouse: Warehouse) -> Build:
    """Return the function that hashes stored definitions again."""
    return lambda models, revise: warehouse.snapshots_of(models, revise=revise)


def _real_types(warehouse: Warehouse, table: PhysicalTable) -> dict[str, str]:
    """Read the types of a table's columns as Iceberg has them, without an engine."""
    columns = warehouse.lakehouse.table_columns(table.ref)
    return {name: type_ for name, type_, _ in columns}


def plan_run(
    warehouse: Warehouse,
    environment: str,
    options: PlanOptions = NOTHING_SAID,
    *,
    save: bool = True,
    add: Callable[[Plan], Plan] | None = None,
    only_read: bool = False,
    of: Sequence[str] = (),
    check: Callable[[Plan], None] | None = None,
) -> Plan:
    """Plan what is due in an environment as it was published; see `Workspace.plan_run`.

    Args:
        warehouse: The project's warehouse.
        options: What is said of the plan.
        save: Whether to store it.
        add: What else the plan is to have before it is stored, or None.
        only_read: Whether it is only looked at; what is frozen has plans of no other use.
        of: Patterns of the models that are looked at; where names alone decide, nothing is read
            and planned but these and what they are made of. Such a plan is for looking.
        check: Refuses a plan before it is stored, or None.

    Raises:
        UsageError: There is no such environment.
    """
    store = warehouse.store
    current = store.environments.get(environment)
    if current is None:
        raise no_environment(store, environment)
    if not only_read:
        store.project.require_own()
        require_changeable(environment, current.frozen)
    named = select_by_name(current.entries, of)
    among = None if named is None else what_decides(store, current, named)
    state = gather_state(store, environment, None, stored_builder(warehouse), among)
    snapshots = in_order(
        {
            name: state.snapshots[entry.snapshot_id]
            for name, entry in current.entries.items()
            if among is None or name in among
        }
    )

    def with_published(plan: Plan) -> Plan:
        said = store.environment_statements.get(environment)
        plan = replace(plan, statements=said) if said else plan
        return add(plan) if add else plan

    return _make(
        warehouse,
        environment,
        snapshots,
        state,
        options,
        kind=PlanKind.RUN,
        save=save,
        add=with_published,
        check=check,
    )


def likely_meant(store: StateStore, environment: str) -> str | None:
    """Return the environment that a new one's name is one letter away from, or None."""
    names = store.environments.names()
    return None if environment in names else one_letter_away(environment, names)


def require_environment(store: StateStore, environment: str) -> str:
    """Return an environment's name as it is stored; production need not have been published yet.

    Raises:
        UsageError: It is none's, or there is no such environment.
    """
    name = environment_name(environment)
    if name != PRODUCTION and not store.environments.exists(name):
        raise no_environment(store, name)
    return name


def no_environment(store: StateStore, environment: str) -> UsageError:
    """Return the error that says that there is no such environment."""
    close = closest(environment, store.environments.names())
    hint = f"did you mean '{close}'?" if close else f"plan it first: vde plan {environment}"
    return UsageError(f"there is no environment '{environment}'", hint=hint)


def _make(
    warehouse: Warehouse,
    environment: str,
    snapshots: dict[ModelName, Snapshot],
    state: WarehouseState,
    options: PlanOptions,
    *,
    kind: PlanKind,
    save: bool,
    warnings: tuple[str, ...] = (),
    add: Callable[[Plan], Plan] | None = None,
    resolved: ForwardOnly | None = None,
    proposal: Proposal | None = None,
    check: Callable[[Plan], None] | None = None,
) -> Plan:
    now = utc(options.now) if options.now else warehouse.store.database.clock.now()
    state, early = without_early(warehouse, state, save=save)
    settings = warehouse.settings
    alone = [name for name, one in snapshots.items() if not one.model.kind.is_read]
    if alone and kind is PlanKind.RUN:
        audited = warehouse.store.audits.audited_until(environment, alone)
        state = replace(state, audited=audited)
    request = PlanRequest(
        environment=environment,
        window=window_of(options, now, settings.start_time),
        kind=kind,
        options=options,
        ready=signals_of(environment, now, partial(SignalContext, warehouse, environment, now)),
        backfill=models_to_fill(snapshots, options.backfill, warehouse.changed_files),
        time_to_live=settings.time_to_live(environment),
        catalog=settings.catalog,
        suffix=settings.environment_suffix_target,
        mode=settings.virtual_environment_mode,
        changes=resolved.changes if resolved else {},
        previewed=resolved.previewed if resolved else {},
    )
    plan = make_plan(
        request,
        snapshots,
        state,
        plan_id=f"{environment}-{uuid.uuid4().hex[:10]}",
        unique_id=lambda: uuid.uuid4().hex,
    )
    require_used(options, plan)
    plan = replace(plan, warnings=(*warnings, *early), proposal=proposal)
    plan = add(plan) if add else plan
    if any(model.skippable for model in plan.models):
        from vde_dagster.execution.apply.skipping import forecast_skips

        plan = forecast_skips(warehouse, plan, state)
    if plan.builds:
        from vde_dagster.execution.apply.batches import with_batches

        plan = with_batches(warehouse, plan)
    if kind is PlanKind.PLAN and not options.remove_models:
        require_meant(plan, state, settings.max_removed)
    plan = replace(plan, id=readable_id(plan, _change_in_a_word(plan, state)))
    if options.no_gaps:
        require_no_gaps(plan, state.target, state.tables)
    if check is not None and not plan.is_empty:
        check(plan)
    if save and not plan.is_empty:
        warehouse.store.plans.save(plan, state.held)
    return plan


def readable_id(plan: Plan, change: str) -> str:
    """Name a plan by its environment, when it was made (UTC), what changes, and chance.

    It is also the name of branches and files, so it has letters, digits, `-` and `_` only.
    """
    head, tail = plan.environment, uuid.uuid4().hex[:10]
    when = f"{plan.created_at:%d%b-%H%M}"
    room = MAX_ID - len(f"{head}-{when}--{tail}")
    word = re.sub(r"\W+", "_", change, flags=re.ASCII).strip("_")[: max(room, 0)].rstrip("_")
    return "-".join(part for part in (head, when, word, tail) if part)[-MAX_ID:]


def _change_in_a_word(plan: Plan, state: WarehouseState) -> str:
    """Return a plan's subject in words: `orders_with_total`, `orders_and_3_more`, `new`, `run`."""
    if plan.kind is not PlanKind.PLAN:
        return str(plan.kind.value)
    edited = [model for model in plan.models if model.change in (Change.MODIFIED, Change.REMOVED)]
    edited += [model for model in plan.models if model.change is Change.ADDED]
    if not plan.base_version or not edited:
        return "" if plan.base_version else "new"
    first, *others = edited
    if others:
        return f"{first.name.name}_and_{len(others)}_more"
    if first.change is not Change.MODIFIED:
        return f"{first.name.name}_{first.change.value}"
    old = state.snapshots.get(first.previous_snapshot_id or "")
    new = plan.snapshots.get(first.snapshot_id or "")
    known = {column.name.lower() for column in old.columns} if old and old.columns else set()
    added = [c.name for c in new.columns or () if c.name.lower() not in known] if new else []
    name = str(first.name.name)
    return f"{name}_with_{added[0]}" if known and len(added) == 1 else name


def select_models(
    warehouse: Warehouse,
    environment: str,
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
) -> dict[ModelName, Model]:
    """Return the project in which only selected models changed.

    A model that is not selected keeps the definition that the environment (or, for a new one,
    production) has; one that exists in neither is left out unless a selected model reads it.

    Args:
        warehouse: Has the state store, and the project's folder.
        environment: The environment to be planned.
        models: The project's models.
        patterns: See `project.selection`.

    Raises:
        UsageError: A pattern selects nothing.
    """
    store = warehouse.store
    base = store.environments.get(environment) or store.environments.get(PRODUCTION)
    stored = (
        store.snapshots.load([entry.snapshot_id for entry in base.entries.values()]) if base else {}
    )
    old = (
        {name: stored[entry.snapshot_id].model for name, entry in base.entries.items()}
        if base
        else {}
    )
    chosen = select({**old, **models}, patterns, warehouse.changed_files)
    out = {name: model for name, model in models.items() if name in chosen}
    out |= {name: model for name, model in old.items() if name not in chosen}
    waiting = [name for model in out.values() for name in _named(model)]
    while waiting:
        name = waiting.pop()
        if name not in out and name in models:
            out[name] = models[name]
            waiting += _named(models[name])
    return out


def _named(model: Model) -> tuple[ModelName, ...]:
    return *model.depends_on, *model.audited_against
