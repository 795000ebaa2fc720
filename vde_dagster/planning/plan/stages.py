"""Stages of an apply: an apply runs them, and `vde plan --explain` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan.plan import Change, Plan, PlannedModel, PlannedViews
from vde_dagster.project.dag import AuditOrder, audit_order, parents_first

Names = tuple[ModelName, ...]


@dataclass(frozen=True, slots=True)
class RunUnitTests:
    """Stage that runs the unit tests of built or changed models."""

    name: ClassVar[str] = "test"
    models: Names


@dataclass(frozen=True, slots=True)
class RunStatements:
    """Stage that runs the environment's statements before all fills, or after the publication."""

    name: ClassVar[str] = "statements"
    when: Literal["before", "after"]
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LockTables:
    """Stage that locks the tables that the plan writes, if they are published."""

    # The tables stay locked for the whole apply.
    name: ClassVar[str] = "lock"
    models: Names


@dataclass(frozen=True, slots=True)
class FillTables:
    """Stage that fills, audits or creates the tables of models, parents first.

    Args:
        after: For each model, the models that must be processed first.
    """

    name: ClassVar[str] = "fill"
    after: Mapping[ModelName, frozenset[ModelName]]

    @property
    def models(self) -> Names:
        """The models to fill, each after the models that it depends on."""
        return tuple(parents_first({name: tuple(before) for name, before in self.after.items()}))


@dataclass(frozen=True, slots=True)
class AuditAfterFills:
    """Stage that runs audits of models after the fills of other tables that these audits read."""

    name: ClassVar[str] = "audit"
    models: Names


@dataclass(frozen=True, slots=True)
class ChangeLayouts:
    """Stage that changes partitioning, sort order or properties of existing tables."""

    name: ClassVar[str] = "layout"
    models: Names


@dataclass(frozen=True, slots=True)
class Publish:
    """Stage that publishes the environment in one commit.

    The commit contains the views, table branches, changes of tables in place, and the new version.

    Args:
        deploys: Models whose published tables get another definition in place.
    """

    name: ClassVar[str] = "publish"
    version: int
    views: PlannedViews
    deploys: Names


Stage = (
    RunUnitTests
    | RunStatements
    | LockTables
    | FillTables
    | AuditAfterFills
    | ChangeLayouts
    | Publish
)


def apply_stages(plan: Plan, audits: AuditOrder | None = None) -> tuple[Stage, ...]:
    """Return the stages of an apply of a plan, without optional stages that have no work.

    Args:
        audits: Result of `plan_audit_order` for the plan, if already computed.
    """
    # The stages do not include facts that are known only at run time: ranges filled since the plan
    # was made, skipped fills, batches and statements of views.
    statements = plan.complete_statements
    order, work = audits or plan_audit_order(plan), planned_work(plan)
    late = tuple(name for name in work if name in order.late)
    writes = _names(plan, lambda model: bool(model.builds or model.layout or model.deploys))
    deploys = _names(plan, lambda model: model.deploys)
    found: tuple[tuple[Stage, object], ...] = (
        (tested := RunUnitTests(tested_models(plan)), tested.models),
        (RunStatements("before", statements.before), statements.before),
        (LockTables(writes), True),
        (FillTables(work_graph(plan, work, order)), work),
        (AuditAfterFills(late), late),
        (layouts := ChangeLayouts(_names(plan, lambda model: bool(model.layout))), layouts.models),
        (Publish(plan.base_version + 1, plan.views, deploys), True),
        (RunStatements("after", statements.after), statements.after),
    )
    return tuple(stage for stage, has_work in found if has_work)


def stage_json(stage: Stage) -> dict[str, Any]:
    shown: dict[str, Any] = {"stage": stage.name}
    for one in fields(stage):
        value = getattr(stage, one.name)
        if isinstance(value, PlannedViews):
            value = value.to_json()
        elif isinstance(value, Mapping):
            value = {str(name): sorted(map(str, before)) for name, before in value.items()}
        elif isinstance(value, tuple):
            value = list(map(str, value))
        shown[one.name] = value
    return shown


def _names(plan: Plan, chosen: Callable[[PlannedModel], bool]) -> Names:
    return tuple(
        model.name
        for model in plan.models
        if model.snapshot_id is not None and model.table is not None and chosen(model)
    )


def tested_models(plan: Plan) -> Names:
    """Return the models with unit tests to run: all models that a plan builds or changes."""
    return tuple(
        model.name
        for model in plan.models
        if model.snapshot_id is not None and (model.builds or model.change is not Change.UNCHANGED)
    )


def planned_work(plan: Plan) -> dict[ModelName, PlannedModel]:
    """Return the models that a plan fills, audits or deploys in place, or gives a new table."""
    return {
        model.name: model
        for model in plan.models
        if model.builds
        or model.audits
        or model.deploys
        or (model.table and not model.table.created)
    }


def plan_audit_order(plan: Plan) -> AuditOrder:
    """Return the order of the audits of a plan's models."""
    return audit_order({name: snapshot.model for name, snapshot in plan.target.items()})


def work_graph(
    plan: Plan, work: Mapping[ModelName, PlannedModel], audits: AuditOrder
) -> dict[ModelName, frozenset[ModelName]]:
    """Return, by model to fill or to audit, the models that must be finished first."""
    # This includes models that it depends on through models without work. If several models share a
    # table, the later models wait for the first and then have nothing left to do.
    after = {
        model.name: (*plan.snapshots[model.snapshot_id].parents, *audits.before.get(model.name, ()))
        for model in plan.models
        if model.snapshot_id is not None
    }
    order: dict[ModelName, frozenset[ModelName]] = {}
    before: dict[ModelName, set[ModelName]] = {}
    first_of_table: dict[str, ModelName] = {}
    for name in parents_first(after):
        needed: set[ModelName] = set()
        for parent in after[name]:
            needed |= {parent} if parent in work else before[parent]
        before[name] = needed
        if name in work:
            table = work[name].table
            first = name if table is None else first_of_table.setdefault(table.id, name)
            order[name] = frozenset(needed if first == name else {*needed, first})
    return order
