"""Planning from the launchpad: what its form takes, and what it answers to a mistake."""

from __future__ import annotations

import dagster as dg
import pytest
import yaml

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.config import PlanConfig
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


UNEDITED = """
ops:
  {op}:
    config:
      end: '# last day, included'
      environment: {environment}
      restate:
      - '# models to compute again: schema.model, tag:x'
      select:
      - '# models to take: +schema.model, tag:x; else all'
      start: '# first day: 2024-01-31, or 3 days ago'
"""


@pytest.mark.parametrize(
    ("op", "environment"),
    [("plan", "prod"), ("plan_and_apply", "'# name, such as dev; created if it does not exist'")],
)
def test_an_unedited_form_has_the_common_fields_as_placeholders_alone(
    built: ProjectFolder, op: str, environment: str
) -> None:
    from dagster._core.snap import JobSnap
    from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap

    name = {"plan": "vde_new_plan"}.get(op, f"vde_{op}")
    snap = JobSnap.from_job_def(vde_definitions(built.root).resolve_job_def(name))
    schema = snap.config_schema_snapshot
    root = schema.get_config_snap(snap.mode_def_snaps[0].root_config_key)
    shown = default_values_yaml_from_type_snap(schema, root)
    assert shown == UNEDITED.format(op=op, environment=environment).lstrip()


def test_an_unedited_form_plans_production(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.write("pyproject.toml", "[tool.vde.dagster]\ncheck_queries = false")
    config = yaml.safe_load(UNEDITED.format(op="plan", environment="prod"))
    for form in ({}, config["ops"]["plan"]["config"]):
        run_job(built, instance, "vde_new_plan", form, op="plan")
    with Workspace.open(built.root) as workspace:
        plans = workspace.store.plans.recent()
        assert [plan.environment for plan in plans] == ["prod", "prod"]
        plan = workspace.store.plans.load(plans[0].id)
        assert workspace.store.environments.all() == []
    assert plan.computed
    assert not plan.restates


def test_an_unedited_form_applies_nothing(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    result = run_job(built, instance, "vde_plan_and_apply", raise_on_error=False)
    assert refusal(result).startswith("the config names no environment\nhint: set `environment`")
    with Workspace.open(built.root) as workspace:
        assert workspace.store.plans.recent() == []


RARE = {
    "backfill": ["marts.daily"],
    "empty_backfill": True,
    "ignore_cron": True,
    "min_intervals": 2,
    "no_gaps": True,
    "execution_time": "2024-01-04",
    "forward_only": True,
    "effective_from": "2024-01-02",
    "allow_destructive": ["marts.*"],
    "allow_additive": ["marts.daily"],
}


@pytest.mark.parametrize("name", RARE)
def test_a_stored_configuration_with_a_rare_option_at_the_top_still_works(name: str) -> None:
    value = RARE[name]
    below = PlanConfig(advanced={name: value}).options()
    assert below != PlanOptions()
    assert PlanConfig(**{name: value}).options() == below


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"selct": ["marts.daily"]}, "the config has no field 'selct'"),
        ({"min_intervals": -1}, "the config's min_intervals -1: Input should be greater than"),
        ({"no_gaps": "often"}, "the config's no_gaps 'often': Input should be a valid boolean"),
        (
            {"min_intervals": 1, "advanced": {"min_intervals": 2}},
            "the config has 'min_intervals' twice",
        ),
        ({"execution_time": "soon"}, "the config's advanced.execution_time 'soon' is not a time"),
        ({"environment": "# dev"}, "the config names no environment"),
        ({"environment": " "}, "the config names no environment"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_with_the_place(
    built: ProjectFolder, instance: dg.DagsterInstance, config: dict[str, object], said: str
) -> None:
    result = run_job(built, instance, "vde_new_plan", config, op="plan", raise_on_error=False)
    text = refusal(result)
    assert text.startswith(said)
    assert "\nhint: " in text
    assert ("advanced" in text) is (str(next(iter(config))) in RARE)
    with Workspace.open(built.root) as workspace:
        assert workspace.store.plans.recent() == []


def test_a_value_that_begins_with_a_number_sign_is_a_comment() -> None:
    config = PlanConfig(
        start="# later", end=" # never", select=["# all", "marts.daily"], restate=["#"]
    )
    assert config.options() == PlanOptions(select=("marts.daily",))
