"""Proof of a plan: fields that gates and approvers rely on are derived again, and compared.

A plan comes from a file or from a row of the state, where another user may have changed it. Its
content is its definitions, the tables that serve them, and the ranges to fill. All other
fields follow from that content and the state: the kind, changes and categories, breaks, views, the
tables' places, and what is stored with the environment. See docs/signed_plans.md for the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import and_more
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.plans.gather_state import gather_state, stored_builder
from vde_dagster.execution.plans.keepers import find_readers
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Environment,
    environment_name,
    outdated_plan_error,
    require_changeable,
)
from vde_dagster.planning.environments.warehouse_state import reconnect_to_tables
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.assign_tables import define_preview, define_table, serves_snapshot
from vde_dagster.planning.plan.missing_intervals import Window
from vde_dagster.planning.plan.plan import Category, Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.plan.plan_request import PlanRequest
from vde_dagster.planning.plan.planner import compare_models
from vde_dagster.planning.plan.publication import plan_views
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_break, describe_reason
from vde_dagster.state.tables.tables import not_live

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles

_MOST = 5
_CATEGORIES_BY_SEVERITY = (
    *(Category.METADATA, Category.REUSE, Category.NON_BREAKING),
    *(Category.FORWARD_ONLY, Category.AFFECTED, Category.BREAKING),
)


@dataclass(frozen=True, slots=True)
class ProvenPlan(Plan):
    """A stored plan that was checked: its changes and views follow from definitions and tables."""

    written: Plan | None = None

    @property
    def as_written(self) -> Plan:
        """The plan as it was stored or read from a file."""
        return self.written or self


def require_proven(handles: Handles, plan: Plan) -> None:
    """Check that a plan's kind and tables follow from its definitions and from the state.

    Raises:
        UsageError: Fields contradict the definitions or the state, and the message lists the
            contradictions; nothing was changed.
        ConflictError: The environment has changed since the plan was created, or the plan was
            rejected.
    """
    # This takes a few reads of the state, and precedes every apply.
    handles.store.project.require_own()
    handles.store.plans.require_open(plan.id)
    if plan.is_empty:
        return
    current = _require_current(handles, plan)
    if current is not None:
        require_changeable(current.name, current.frozen)
    found = [*_find_contradictions(plan, current), *_find_wrong_tables(handles, plan, current)]
    kind = derive_kind(handles, plan, current)
    if kind is not plan.kind:
        found.append(f"it is declared as a {plan.kind.value}, but is a {kind.value}")
    if plan.environment == PRODUCTION and plan.expires_at is not None:
        found.append(f"it would let '{PRODUCTION}' expire")
    found += (
        f"it would mark readers of {name} as outdated, but does not compute {name}"
        for name in plan.restates
        if not _may_change_rows(plan, name)
    )
    _require_none(plan, found)


def proven(handles: Handles, plan: Plan) -> Plan:
    """Derive all fields of a plan again from its definitions and tables, for gates.

    Raises:
        UsageError: The plan hides a change or a break, or states wrong versions of definitions.
        ConflictError: The environment has changed since the plan was created.
    """
    require_proven(handles, plan)
    if plan.is_empty:
        return plan
    current = _require_current(handles, plan)
    snapshots = _rebuild_snapshots(handles, plan)
    build = stored_builder(handles)
    state = gather_state(handles.store, plan.environment, snapshots, build, None, current)
    if state.base is None:
        exposures = tuple(handles.readable_project.exposures)
    else:
        files = handles.readable_project.exposures
        exposures = find_readers(handles, state.base, files)
    settings = handles.settings
    request = PlanRequest(
        environment=plan.environment,
        window=Window(plan.created_at, plan.start, plan.end),
        kind=plan.kind,
        catalog=settings.catalog,
        suffix=settings.environment_suffix_target,
        mode=settings.virtual_environment_mode,
        exposures=exposures,
    )
    tables = {model.name: model.table for model in plan.models if model.table is not None}
    derived = compare_models(request, snapshots, tables, state)
    given = {model.name: model for model in plan.models}
    if plan.base_version:
        # Types of views found by Spark since then may add breaks.
        certain = compare_models(request, snapshots, tables, replace(state, view_types={}))
        _require_none(plan, list(_find_hidden_changes(given, derived, certain)))
    models = [_merge_models(given.get(name), one, plan.kind) for name, one in derived.items()]
    kept = state.target.kept if state.target is not None else {}
    names = sorted({*plan.kept, *kept})
    around = handles.store.statements.around_runs(plan.environment)
    made = replace(
        plan,
        models=tuple(models),
        views=plan_views(request, snapshots, tables, plan.entries, state),
        other_statements=plan.statements != around,
        other_kept=tuple(name for name in names if plan.kept.get(name) != kept.get(name)),
        objections=None,
    )
    if any(model.skippable for model in made.models):
        from vde_dagster.execution.apply.skipping import forecast_skips

        made = forecast_skips(handles, made, state)
    values: dict[str, Any] = {one.name: getattr(made, one.name) for one in fields(Plan)}
    return ProvenPlan(**values, written=plan)


def derive_kind(handles: Handles, plan: Plan, current: Environment | None) -> PlanKind:
    """Derive a plan's kind from its content: a plan of files, a run or a restatement."""
    # A run has the environment's definitions, statements and stored files, and fills due intervals.
    # A restatement additionally refills filled intervals.
    if current is None or not _has_same_definitions(handles, plan, current):
        return PlanKind.PLAN
    if any(model.deploys or model.records_only for model in plan.models):
        return PlanKind.PLAN
    if plan.kind is PlanKind.RESTATEMENT or _refills_filled_ranges(handles, plan):
        return PlanKind.RESTATEMENT
    return plan.kind


def _has_same_definitions(handles: Handles, plan: Plan, current: Environment) -> bool:
    around = handles.store.statements.around_runs(plan.environment)
    if plan.statements != around or plan.kept != current.kept:
        return False
    shown = {name: entry.snapshot_id for name, entry in current.entries.items()}
    planned = {name: entry.snapshot_id for name, entry in plan.entries.items()}
    if planned == shown:
        return True
    if plan.kind is PlanKind.PLAN or planned.keys() != shown.keys():
        return False
    # An upgrade may have rehashed the definitions: then compare new ids.
    build = stored_builder(handles)
    state = gather_state(handles.store, plan.environment, None, build, None, current)
    return all(planned[name] in (key, state.snapshots[key].id) for name, key in shown.items())


def _refills_filled_ranges(handles: Handles, plan: Plan) -> bool:
    if plan.kind is not PlanKind.RUN:
        return bool(plan.restates) or any(model.restate for model in plan.models)
    again = _refilled_ranges(handles, plan)
    if not again and not plan.restates and not any(model.restate for model in plan.models):
        return False
    # Ranges of lookback, automatic restatements, unfinished units and early fills are due in a new
    # plan, with or without a tick of the cron.
    from vde_dagster.execution.plans.build_plans import PlanBuilder

    builder, nothing = PlanBuilder(handles), IntervalSet()
    for ignore_cron in (False, True):
        options = PlanOptions(now=plan.created_at, full=True, ignore_cron=ignore_cron)
        due = builder.plan_published(plan.environment, options, save=False, ticks=True)
        known = {model.name: model.intervals for model in due.models}
        if not any(ranges - known.get(name, nothing) for name, ranges in again.items()) and not any(
            ranges - due.restates.get(name, nothing) for name, ranges in plan.restates.items()
        ):
            return False
    return True


def _refilled_ranges(handles: Handles, plan: Plan) -> dict[ModelName, IntervalSet]:
    store = handles.store
    works = {
        model.table.id: model
        for model in plan.models
        if model.builds
        and model.table is not None
        and model.snapshot_id is not None
        and plan.snapshots[model.snapshot_id].is_incremental
    }
    found: dict[ModelName, IntervalSet] = {}
    for table_id, table in store.tables.load(list(works)).items():
        model = works[table_id]
        again = table.intervals & model.intervals
        if again:
            log = store.fills.log(table_id)
            again = again - IntervalSet.of(f.interval for f in log if f.plan_id == plan.id)
        if again:
            found[model.name] = again
    return found


_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Pattern of plan ids, which are used in names of branches and files."""


def _find_contradictions(plan: Plan, current: Environment | None) -> Iterator[str]:
    if not _ID.fullmatch(plan.id):
        yield f"its id '{plan.id[:64]}' is invalid"
    if environment_name(plan.environment) != plan.environment:
        yield f"'{plan.environment}' is not a valid environment name"
    shown = current.entries if current is not None else {}
    models = {model.name: model for model in plan.models}
    for key, snapshot in plan.snapshots.items():
        if key != snapshot.id and snapshot.canonicaliser == CANONICALISER:
            yield f"the content of definition {key[:12]} of {snapshot.name} does not match this id"
    for name, entry in plan.entries.items():
        snapshot, model = plan.snapshots[entry.snapshot_id], models.get(name)
        before = shown.get(name)
        if entry.held is not None and (before is None or before.held != entry.held):
            yield f"it would publish an earlier state of {name}, which only a rollback may do"
        if snapshot.name != name:
            yield f"{name} would get the definition of {snapshot.name}"
        if model is None or model.snapshot_id is None:
            yield f"it contains {name}, but does not list it among its models"
        elif model.snapshot_id != entry.snapshot_id:
            yield f"it lists one definition of {name}, but publishes another"
        elif (model.table.id if model.table else None) != entry.table_id:
            yield f"it lists one table of {name}, but publishes another"
    for model in plan.models:
        if model.snapshot_id is not None and model.name not in plan.entries:
            yield f"it lists {model.name}, but does not publish it"


def _find_wrong_tables(handles: Handles, plan: Plan, current: Environment | None) -> Iterator[str]:
    known = handles.store.tables.load(list(plan.tables))
    production = handles.store.environments.get(PRODUCTION)
    shown = {
        (name, entry.snapshot_id, entry.table_id)
        for environment in (current, production)
        if environment is not None
        for name, entry in environment.entries.items()
    }
    for model in plan.models:
        table, snapshot = model.table, plan.snapshots.get(model.snapshot_id or "")
        if table is None or snapshot is None:
            continue
        there = known.get(table.id)
        # A change in place may have been published after the plan was created.
        if there is not None and (
            (there.ref, there.preview) != (table.ref, table.preview)
            or (table.mixed and not there.mixed)
        ):
            yield f"the table of {model.name} differs from the state: {there.ref}"
        elif there is None and table.created:
            raise not_live(table.id)
        elif there is None and not _is_as_planned(table, plan):
            yield f"the new table of {model.name} does not match its definition"
        elif there is not None and (model.name, snapshot.id, table.id) not in shown:
            served = replace(table, fill_version=there.fill_version, mixed=there.mixed)
            forward = snapshot.forward
            own = forward is not None and forward.table_id in (
                table.id,
                table.preview.of if table.preview else "",
            )
            if not own and not serves_snapshot(served, snapshot):
                yield f"the table {there.ref} does not hold the rows of {model.name}"


def _is_as_planned(table: PhysicalTable, plan: Plan) -> bool:
    sharing = {m.snapshot_id for m in plan.models if m.table is not None and m.table.id == table.id}
    for key in sharing:
        other = plan.snapshots.get(key or "")
        if other is None or other.id != table.snapshot_id:
            continue
        if table.preview is None:
            made = define_table(other, table.id)
            return replace(table, computed_from=(), intervals=made.intervals) == made
        if other.forward is None or table.preview.of != other.forward.table_id:
            return False
        base = replace(table, id=table.preview.of, preview=None, intervals=IntervalSet())
        made = define_preview(base, other, table.id, table.computed_from)
        return (table.ref, table.fill_version, table.branch) == (
            made.ref,
            made.fill_version,
            made.branch,
        )
    return False


def _may_change_rows(plan: Plan, name: ModelName) -> bool:
    entry = plan.entries.get(name)
    if entry is None:
        return False
    if entry.table_id is None:
        return True  # A view, or an external table, passes restated rows on.
    return any(m.builds for m in plan.models if m.table and m.table.id == entry.table_id)


def _rebuild_snapshots(handles: Handles, plan: Plan) -> dict[ModelName, Snapshot]:
    target = plan.target
    extend = any(snapshot.forward is not None for snapshot in target.values())
    try:
        built = handles.snapshots_of(
            {name: snapshot.model for name, snapshot in target.items()},
            revise=reconnect_to_tables(target) if extend else None,
            catalog_columns=lambda name: (),
        )
    except ProjectError as error:
        _require_none(plan, [f"a definition is not valid: {error.message}"])
        raise
    differ = [
        f"the field '{part}' of {name} does not match the model's definition"
        for name, snapshot in target.items()
        if snapshot.canonicaliser == CANONICALISER
        and (part := _first_difference(snapshot, built[name]))
    ]
    _require_none(plan, differ)
    return {
        name: replace(one, id=target[name].id)
        if target[name].canonicaliser == CANONICALISER
        else one
        for name, one in built.items()
    }


_COMPARED = (
    *("fill_version", "metadata_hash", "layout_hash", "definition_hash", "version", "columns"),
    *("parents", "reads", "forward", "id"),
)


def _first_difference(snapshot: Snapshot, built: Snapshot) -> str | None:
    # Its stored id is the hash of its bytes, which reading has checked. A package that writes more
    # fields gives the same content another id, so ids are computed again before they are compared.
    snapshot = with_content_id(snapshot)
    differ = (name for name in _COMPARED if getattr(snapshot, name) != getattr(built, name))
    return next(differ, None)


def _find_hidden_changes(
    given: Mapping[ModelName, PlannedModel],
    derived: Mapping[ModelName, PlannedModel],
    certain: Mapping[ModelName, PlannedModel],
) -> Iterator[str]:
    # The types of views may have been stored after the plan was created.
    for name, model in derived.items():
        given_model = given.get(name)
        if given_model is None:
            yield f"it does not list that {name} is {model.change.value}"
            continue
        if given_model.change is not model.change:
            yield f"{name} is declared {given_model.change.value}, but is {model.change.value}"
        elif _severity(given_model.category) < _severity(model.category):
            what = (one.value if one else "none" for one in (given_model.category, model.category))
            yield f"the change of {name} is declared {next(what)}, but is {next(what)}"
        known = {(one.column, one.was, one.becomes) for one in given_model.breaks}
        sure = {(one.column, one.was, one.becomes) for one in certain[name].breaks}
        for one in model.breaks:
            if (one.column, one.was, one.becomes) in sure - known:
                yield f"it does not list a breaking change: {describe_break(one)}"
    for name in given.keys() - derived.keys():
        yield f"it lists {name}, which is neither planned nor published"


def _severity(category: Category | None) -> int:
    return -1 if category is None else _CATEGORIES_BY_SEVERITY.index(category)


def _merge_models(
    given: PlannedModel | None, derived: PlannedModel, kind: PlanKind
) -> PlannedModel:
    # The reasons and breaks of both are kept.
    if given is None:
        return derived
    reasons = (*derived.reasons, *given.reasons)
    breaks = (*derived.breaks, *given.breaks)
    return replace(
        given,
        change=derived.change,
        category=derived.category,
        reasons=tuple({describe_reason(one): one for one in reasons}.values()),
        previous_snapshot_id=derived.previous_snapshot_id,
        breaks=tuple({describe_break(one): one for one in breaks}.values()),
        moves=tuple(sorted({*derived.moves, *given.moves})),
        skips=given.skips if kind is PlanKind.RUN and given.skippable else None,
    )


def _require_current(handles: Handles, plan: Plan) -> Environment | None:
    store, name = handles.store, plan.environment
    current = store.environments.get(name)
    if store.versions.current_base(name, plan.base_version) is None:
        raise outdated_plan_error(name, plan.base_version, current)
    return current


def _require_none(plan: Plan, found: list[str]) -> None:
    if found:
        contradictions = "; ".join(found[:_MOST])
        raise UsageError(
            f"plan {plan.id} was not applied, because its fields contradict its content: "
            f"{contradictions}{and_more(len(found), _MOST)}",
            hint=f"check `vde log` for its origin, and plan again: vde plan {plan.environment}",
        )
