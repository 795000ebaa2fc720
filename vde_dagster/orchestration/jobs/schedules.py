"""Cadence: a scheduled run per environment, and the clean-up."""

from __future__ import annotations

import dagster as dg

from vde_dagster.orchestration.names import ENVIRONMENT_TAG, Names
from vde_dagster.project.settings import Settings

HOURLY = "0 * * * *"


def schedules(
    names: Names, settings: Settings, run_job: dg.JobDefinition, janitor_job: dg.JobDefinition
) -> list[dg.ScheduleDefinition]:
    """Return the schedules of a project.

    Environments that the settings name are running from the start; without any, production
    has an hourly schedule to be switched on. A run fills only what is due by each model's cron,
    so ticks may come more often than any model's.

    Args:
        names: The project's names.
        settings: The project's settings.
        run_job: The job of a scheduled run.
        janitor_job: The job of the clean-up.
    """
    crons = settings.dagster.schedules
    running = dg.DefaultScheduleStatus.RUNNING if crons else dg.DefaultScheduleStatus.STOPPED
    out = [
        dg.ScheduleDefinition(
            name=names.named(f"vde_run_{environment}"),
            description=f"Computes what is due in {environment}.",
            job=run_job,
            cron_schedule=cron,
            execution_timezone="UTC",
            run_config={"ops": {names.named("run"): {"config": {"environment": environment}}}},
            tags={ENVIRONMENT_TAG: environment},
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
            execution_timezone="UTC",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    )
    return out
