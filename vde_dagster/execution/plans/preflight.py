"""Checks before a plan is stored: mistakes in files, a doubtful state, a missing engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.apply.plan_tests import PlanTests
from vde_dagster.execution.unit_testing.check_tests import mistakes_in_tests
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.planning.build_snapshots import build_snapshots, in_order
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Model
from vde_dagster.sql.trees import ParsedQueries


def all_mistakes(root: Path, found: ProjectError) -> ProjectError:
    """Add the mistakes in models of the files that could be read.

    Args:
        root: The project's folder.

    Returns:
        One error that has all mistakes.
    """
    try:
        parsed = ParsedQueries()
        project = load_project(root, strict=False, parsed=parsed)
        models = _understood(project)
        build_snapshots(
            models,
            lambda name: (),  # The state is not opened for this: any table may be there.
            parsed=parsed,
            scalar_functions=project.settings.scalar_functions,
            functions=project.settings.functions,
            warnings=[],
            more=lambda known: mistakes_in_tests(project.tests, models, known),
        )
    except ProjectError as error:
        known = {str(mistake) for mistake in found.mistakes}
        more = [mistake for mistake in error.mistakes if str(mistake) not in known]
        return ProjectError.of(in_order([*found.mistakes, *more]))
    return ProjectError.of(in_order(found.mistakes))


def _understood(project: Project) -> dict[ModelName, Model]:
    """Leave out what a file with a mistake may define, and all that reads it."""
    models = project.models
    own = {name.namespace for name, m in models.items() if not m.kind.is_external}
    unknown = {name for problem in project.problems for name in problem.models}
    for name, model in models.items():  # Parents come first.
        undeclared = model.kind.is_external and not model.columns
        doubtful = undeclared and name.namespace in own
        if doubtful or not unknown.isdisjoint((*model.depends_on, *model.audited_against)):
            unknown.add(name)
    return {name: model for name, model in models.items() if name not in unknown}


def doubts(warehouse: Warehouse) -> tuple[str, ...]:
    """Return warnings for a plan of the project's files.

    Raises:
        UsageError: The state certainly belongs to another project.
    """
    return (*_other_name(warehouse), *_new_beside_old(warehouse))


def _other_name(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state elsewhere that was written from a folder of another name."""
    owner, own = warehouse.store.project.require_own(), warehouse.settings.identity
    if owner is None or warehouse.settings.state_url is None or not own.may_be_other(owner):
        return
    yield (
        f"the state store was written by a project in a folder '{owner.name}', and this is "
        f"{own}; if they are two, give this one a state of its own (state_url); if they are one, "
        "let the settings say so in every checkout: an id (or a name) below [tool.vde]"
    )


def _new_beside_old(warehouse: Warehouse) -> Iterator[str]:
    """Doubt a state in which nothing is, where the warehouse has tables."""
    if not warehouse.store.project.is_new():
        return
    found: list[str] = []
    with suppress(OSError):  # What cannot be listed says nothing; who writes there says why.
        found = warehouse.lakehouse.left_by_others()
    if found:
        from vde_dagster.state.db.database import without_password

        settings = warehouse.settings
        yield (
            f"the state store {without_password(settings.resolved_state_url)} is new, but the "
            f"warehouse {settings.resolved_warehouse} has tables and views already (in "
            f"{', '.join(found[:3])}{', …' if found[3:] else ''}): if they are this project's, "
            "the state is the wrong one, and all would be computed again: look at state_url and "
            "VDE_STATE_URL, or import the state (vde state import)"
        )


def require_engine_for(plan: Plan, warehouse: Warehouse, tests: PlanTests | None) -> None:
    """Make sure that an engine can be had, where applying a plan needs one.

    Args:
        warehouse: Where it is to be applied.
        tests: The unit tests that run first, or None for none.

    Raises:
        NoSparkError: Java or the Spark master is not there.
    """
    if (
        any(map(_works, plan.models))
        or plan.statements
        or _unknown_views(plan, warehouse)
        or (tests is not None and tests.need_an_engine(plan))
    ):
        warehouse.require_engine()


def _works(model: PlannedModel) -> bool:
    """Say whether an engine works on a model; what a run skips it leaves alone."""
    computes = model.builds and not model.records_only and model.skips is None
    new = model.table is not None and not model.table.created and model.snapshot_id is not None
    return computes or new or model.audits or model.layout or model.deploys


def _unknown_views(plan: Plan, warehouse: Warehouse) -> bool:
    """Say whether a query is shown whose types nobody has asked an engine for."""
    shown = {
        entry.snapshot_id
        for entry in plan.entries.values()
        if entry.table_id is None
        and plan.snapshots[entry.snapshot_id].model.kind.is_shown
        and plan.snapshots[entry.snapshot_id].model.query is not None
    }
    return bool(shown) and len(warehouse.store.snapshots.view_types(shown)) < len(shown)
