"""Scheduled runs of environments and clean-up, and hooks that report how a job ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from vde_dagster.errors import VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG, Names
from vde_dagster.project.settings import Settings

HOURLY = "0 * * * *"


def schedules(
    root: Path, settings: Settings, run_job: dg.JobDefinition, janitor_job: dg.JobDefinition
) -> list[dg.ScheduleDefinition]:
    """Return the schedules of a project.

    Those that the settings name run from the start; without any, production has an hourly one to
    be switched on. A run fills only what is due by each model's cron, so ticks may come more often.
    """
    names, crons = Names.of(settings), settings.dagster.schedules
    running = dg.DefaultScheduleStatus.RUNNING if crons else dg.DefaultScheduleStatus.STOPPED
    out = [
        dg.ScheduleDefinition(
            name=names.named(f"vde_run_{environment}"),
            description=f"Computes what is due in {environment}.",
            job=run_job,
            cron_schedule=cron,
            execution_timezone=settings.dagster.schedule_tz,
            execution_fn=_tick(root, names, environment),
            default_status=running,
        )
        for environment, cron in (crons or {"prod": HOURLY}).items()
    ]
    out.append(
        dg.ScheduleDefinition(
            name=names.named("vde_janitor"),
            description="Drops expired environments and tables that nothing refers to.",
            job=janitor_job,
            cron_schedule=settings.dagster.janitor_cron,
            execution_timezone=settings.dagster.schedule_tz,
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    )
    return out


def _tick(
    root: Path, names: Names, environment: str
) -> Callable[[dg.ScheduleEvaluationContext], dg.RunRequest | dg.SkipReason]:
    def tick(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        with Workspace.open(root) as workspace:
            if not workspace.store.environments.exists(environment):
                return dg.SkipReason(
                    f"there is no environment {environment!r} yet: make it with "
                    f"`vde apply {environment}` or the job {names.named('vde_plan_and_apply')}; or "
                    "take it out of [tool.vde.dagster] schedules"
                )
            try:
                if workspace.plans.due(environment, save=False).is_empty:
                    return dg.SkipReason(f"nothing is due in {environment}")
            except VdeError as error:
                # The run fails with it, for all to see, and calls the project's hooks.
                context.log.warning(f"what is due in {environment} cannot be planned: {error}")
        return dg.RunRequest(
            run_config={"ops": {names.named("run"): {"config": {"environment": environment}}}},
            tags={ENVIRONMENT_TAG: environment},
        )

    return tick


@dataclass(frozen=True, slots=True)
class Notification:
    """The end of one job of the project, with what the run's tags say of its plan."""

    succeeded: bool
    job: str
    run_id: str
    environment: str | None
    plan_id: str | None
    error: str | None = None


def notification_hooks(notify: Callable[[Notification], None]) -> frozenset[dg.HookDefinition]:
    """Return hooks that call a function when a job of the project succeeds or fails."""

    def tell(context: dg.HookContext, succeeded: bool) -> None:
        run = context.instance.get_run_by_id(context.run_id)
        tags = dict(run.tags) if run else {}
        error = context.op_exception
        notify(
            Notification(
                succeeded=succeeded,
                job=context.job_name,
                run_id=context.run_id,
                environment=tags.get(ENVIRONMENT_TAG),
                plan_id=tags.get(PLAN_TAG),
                error=str(error) if error else None,
            )
        )

    @dg.success_hook(name="vde_notify_success")
    def succeeded(context: dg.HookContext) -> None:
        tell(context, True)

    @dg.failure_hook(name="vde_notify_failure")
    def failed(context: dg.HookContext) -> None:
        tell(context, False)

    return frozenset({succeeded, failed})
