"""The sensor that turns a change of the project's files into plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, PLANS
from vde_dagster.planning.plan import Category, Change, Plan

if TYPE_CHECKING:
    from vde_dagster.project.settings import AutoApply, Settings

_HARMLESS = {
    "reuse": (Category.METADATA, Category.REUSE),
    "non_breaking": (Category.METADATA, Category.REUSE, Category.NON_BREAKING),
}


def code_sensor(root: Path, settings: Settings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """Return the sensor.

    Args:
        root: The project's folder.
        settings: Its settings: interval, environments and what is applied without being asked.
        jobs: The jobs that it requests: `vde_plan_job` and `vde_apply_job`.
    """

    @dg.sensor(
        name="vde_code_changes",
        description="Looks at the project's files; plans every change of their meaning.",
        jobs=jobs,
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_code_changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        return evaluate(root, context.cursor)

    return vde_code_changes


def evaluate(root: Path, cursor: str | None) -> dg.SensorResult | dg.SkipReason:
    """Look at the files once.

    The cursor is the hash of all files, so a tick on an unchanged project only asks the file
    system for times and sizes. A mistake in a file fails the tick and leaves the cursor, so the
    next tick looks again.

    Args:
        root: The project's folder.
        cursor: The hash that was planned last.

    Raises:
        Failure: A file is wrong; says where and what to do.
    """
    from vde_dagster.project.loader import project_hash

    try:
        found = project_hash(root)
        if found == cursor:
            return dg.SkipReason("the project's files are unchanged")
        plans = _plans(root)
    except VdeError as error:
        raise dg.Failure(str(error)) from error
    made = [(plan, policy) for plan, policy in plans if not plan.is_empty]
    if not made:
        names = ", ".join(plan.environment for plan, _ in plans)
        return dg.SensorResult(
            skip_reason=dg.SkipReason(f"the change means nothing for {names}"), cursor=found
        )
    ids = [plan.id for plan, _ in made]
    requests = []
    for plan, policy in made:
        requests.append(_request("vde_plan_job", plan.id, plan))
        if applies_itself(plan, policy):
            requests.append(_request("vde_apply_job", f"apply-{plan.id}", plan))
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[PLANS.build_add_request(ids)],
        cursor=found,
    )


def applies_itself(plan: Plan, policy: AutoApply) -> bool:
    """Say whether the project wants a plan applied without being asked.

    Args:
        plan: The plan.
        policy: `never`; `reuse`: when nothing is computed; `non_breaking`: also when only columns
            or models are added; `always`.
    """
    if policy == "never":
        return False
    if policy == "always":
        return True
    if policy == "reuse" and plan.builds:
        return False
    for model in plan.models:
        if model.change is Change.REMOVED:
            return False
        if model.change is Change.MODIFIED and model.category not in _HARMLESS[policy]:
            return False
        if model.change is Change.AFFECTED and model.builds:
            return False
    return True


def _plans(root: Path) -> list[tuple[Plan, AutoApply]]:
    """Plan every environment that the project names, in a process without old modules."""
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.project.loader import load_project_isolated

    load_project_isolated(root)
    with Workspace.open(root) as workspace:
        settings = workspace.settings.dagster
        names = dict.fromkeys([settings.default_environment, *settings.auto_apply])
        return [(workspace.plan(name), settings.auto_apply.get(name, "never")) for name in names]


def _request(job: str, run_key: str, plan: Plan) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=run_key,
        job_name=job,
        partition_key=plan.id,
        tags={PLAN_TAG: plan.id, ENVIRONMENT_TAG: plan.environment},
    )
