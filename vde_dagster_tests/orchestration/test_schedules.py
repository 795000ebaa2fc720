"""The cadence: which schedules there are, and what a tick asks for."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg

from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import ENVIRONMENT_TAG
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import run_job
from vde_dagster_tests.projects import ProjectFolder

NOW = datetime(2024, 2, 1, tzinfo=timezone.utc)


def tick(folder: ProjectFolder, name: str) -> dg.RunRequest | str:
    """Evaluate a schedule once: the run that it asks for, or why it asks for none."""
    schedule = vde_definitions(folder.root).resolve_schedule_def(name)
    data = schedule.evaluate_tick(dg.build_schedule_context(scheduled_execution_time=NOW))
    if data.skip_message:
        return data.skip_message
    (request,) = data.run_requests or []
    return request


def test_without_settings_production_has_an_hourly_schedule_that_is_off(
    built: ProjectFolder,
) -> None:
    schedules = {found.name: found for found in vde_definitions(built.root).schedules or []}
    assert set(schedules) == {"vde_run_prod", "vde_janitor"}
    hourly = schedules["vde_run_prod"]
    assert isinstance(hourly, dg.ScheduleDefinition)
    assert (hourly.cron_schedule, hourly.execution_timezone) == ("0 * * * *", "UTC")
    assert hourly.default_status is dg.DefaultScheduleStatus.STOPPED


def test_the_schedule_cleans_up_and_an_unedited_form_only_reports(built: ProjectFolder) -> None:
    schedule = vde_definitions(built.root).resolve_schedule_def("vde_janitor")
    (asked,) = schedule.evaluate_tick(dg.build_schedule_context()).run_requests or ()
    assert asked.run_config == {"ops": {"janitor": {"config": {"dry_run": False}}}}
    with dg.DagsterInstance.ephemeral() as instance:
        done = run_job(built, instance, "vde_janitor")
        (output,) = (e for e in done.events_for_node("janitor") if e.is_successful_output)
        assert output.step_output_data.metadata["vde/dry_run"].value is True


def test_schedules_that_the_settings_name_are_on(built: ProjectFolder) -> None:
    built.write("pyproject.toml", '[tool.vde.dagster]\nschedules = { dev = "5 4 * * *" }')
    schedule = vde_definitions(built.root).resolve_schedule_def("vde_run_dev")
    assert schedule.cron_schedule == "5 4 * * *"
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING


def test_a_tick_without_its_environment_is_skipped_and_says_what_to_do(
    built: ProjectFolder,
) -> None:
    said = tick(built, "vde_run_prod")
    assert isinstance(said, str)
    assert "environment 'prod' does not exist yet" in said
    assert "`vde apply prod`" in said
    assert "vde_plan_and_apply" in said


def test_a_schedule_of_a_branch_is_that_of_its_environment(built: ProjectFolder) -> None:
    built.write("pyproject.toml", '[tool.vde.dagster.schedules]\n"feature/x" = "5 4 * * *"')
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("feature/x", skip_backfill=True))
    asked = tick(built, "vde_run_feature_x")
    assert isinstance(asked, dg.RunRequest)
    assert asked.tags[ENVIRONMENT_TAG] == "feature_x"


def test_a_tick_asks_for_a_run_of_its_environment(built: ProjectFolder) -> None:
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=True))
    asked = tick(built, "vde_run_prod")
    assert isinstance(asked, dg.RunRequest)
    assert asked.tags[ENVIRONMENT_TAG] == "prod"
    job = vde_definitions(built.root).resolve_job_def("vde_run")
    assert dg.validate_run_config(job, asked.run_config)
    assert asked.run_config["ops"]["run"]["config"]["environment"] == "prod"


def test_a_tick_where_nothing_is_due_is_skipped_and_fills_no_page(built: ProjectFolder) -> None:
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plans.due("prod"))
    assert tick(built, "vde_run_prod") == "no intervals are due in prod"
