"""Planning from the launchpad: what its form takes, and what it answers to a mistake."""

from __future__ import annotations

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import run_job
from vde_dagster_tests.projects import ProjectFolder


def refusal(result: dg.ExecuteInProcessResult) -> str:
    """Return what the one failed step says."""
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None, failure.step_failure_data.error
    return said.description or ""


@pytest.mark.parametrize(
    ("job", "op"), [("vde_new_plan", "plan"), ("vde_plan_and_apply", "plan_and_apply")]
)
@pytest.mark.parametrize(
    ("field", "text"), [("start", "2024-13-01"), ("end", "soon"), ("end", "9999-12-31")]
)
def test_a_wrong_date_is_refused_with_what_to_write_and_changes_nothing(
    built: ProjectFolder, instance: dg.DagsterInstance, job: str, op: str, field: str, text: str
) -> None:
    result = run_job(
        built, instance, job, {"environment": "prod", field: text}, op=op, raise_on_error=False
    )
    said = refusal(result)
    assert said.startswith(f"the config's {field} '{text}' is not a time")
    assert "write a date or an instant (UTC): 2013-02-01" in said
    assert instance.get_dynamic_partitions(str(SHORT.plans.name)) == []
    with Workspace.open(built.root) as workspace:
        assert workspace.store.environments.all() == []
        assert workspace.store.plans.recent() == []


def test_a_range_that_ends_before_it_starts_is_refused(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    config = {"start": "2024-01-05", "end": "2024-01-01"}
    result = run_job(built, instance, "vde_new_plan", config, op="plan", raise_on_error=False)
    assert "give a start that lies before the end" in refusal(result)


def test_dates_limit_what_is_filled_the_last_day_included(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.write("pyproject.toml", "[tool.vde.dagster]\ncheck_queries = false")
    config = {"start": "2024-01-02", "end": "2024-01-03"}
    run_job(built, instance, "vde_new_plan", config, op="plan")
    (plan_id,) = instance.get_dynamic_partitions(str(SHORT.plans.name))
    with Workspace.open(built.root) as workspace:
        plan = workspace.store.plans.load(plan_id)
    (daily,) = [model for model in plan.builds if str(model.name) == "marts.daily"]
    assert [str(interval) for interval in daily.intervals] == [
        "2024-01-02T00:00:00Z/2024-01-04T00:00:00Z"
    ]


def logged(instance: dg.DagsterInstance, result: dg.ExecuteInProcessResult) -> str:
    """Return what a run said."""
    return "\n".join(entry.user_message for entry in instance.all_logs(result.run_id))


@pytest.mark.parametrize("job", ["vde_new_plan", "vde_plan_and_apply"])
def test_a_plan_without_a_change_says_what_is_missing_and_else_that_nothing_is_to_do(
    built: ProjectFolder, instance: dg.DagsterInstance, job: str
) -> None:
    op = job.removeprefix("vde_").removeprefix("new_")
    built.write("pyproject.toml", "[tool.vde]\nconcurrency = 1")
    with open_fake(built.root) as workspace, lend(workspace):
        workspace.apply(workspace.plan("prod", PlanOptions(skip_backfill=True)))
        said = logged(instance, run_job(built, instance, job, {"environment": "prod"}, op=op))
        assert "prod: nothing to publish; missing or due: " in said
        assert "computed by: vde run prod" in said
        assert "nothing to do" not in said
        workspace.apply(workspace.plans.due("prod"))
        said = logged(instance, run_job(built, instance, job, {"environment": "prod"}, op=op))
        assert "prod: nothing to do" in said
        assert "missing" not in said
