"""What computes a model by itself: schedules, sensors and conditions on its page; retries."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.applying import Work
from vde_dagster.orchestration.jobs.sensors import evaluate
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import run_job, version_of
from vde_dagster_tests.orchestration.graphql import open_location
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.dagster

CARD = """
query Card($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode {
      jobNames
      automationCondition { label }
      targetingInstigators {
        ... on Schedule { name }
        ... on Sensor { name }
      }
    }
  }
}
"""
"""What the card "Automation" of an asset's page asks for."""


def test_a_models_page_lists_the_schedule_the_sensor_and_the_condition_that_compute_it(
    built: ProjectFolder, synchronous: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = '[tool.vde.dagster]\nschedules = { prod = "@daily", dev = "@hourly" }\n'
    built.write("pyproject.toml", settings)
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=True))
        own = "MODEL (name marts.own, kind FULL, automation_condition eager); SELECT 1 AS n"
        built.write("models/own.sql", own)
        workspace.reload()
        workspace.apply(workspace.plan("dev", skip_backfill=True))
    with open_location(built.root, synchronous, monkeypatch) as location:

        def card(*key: str) -> tuple[set[str], set[str], Any]:
            found = location.ask(CARD, key={"path": key})["assetNodeOrError"]
            names = {one["name"] for one in found["targetingInstigators"]}
            jobs = {name for name in found["jobNames"] if not name.startswith("__")}
            return names, jobs, (found["automationCondition"] or {}).get("label")

        assert card("marts", "daily") == (
            {"vde_run_prod", "vde_run_dev", "vde_code_changes"},
            {"vde_run_prod", "vde_run_dev", "vde_auto_apply"},
            None,
        )
        assert card("marts", "own") == (
            {"vde_run_dev", "vde_code_changes", "default_automation_condition_sensor"},
            {"vde_run_dev", "vde_auto_apply"},
            "eager",
        )
        asked = "{ repositoryOrError(repositorySelector: "
        asked += '{repositoryName: "__repository__", repositoryLocationName: "vde"}) '
        asked += "{ ... on Repository { jobs { name isAssetJob } } } }"
        jobs = location.ask(asked)["repositoryOrError"]["jobs"]
        launched = {"vde_new_plan", "vde_plan_and_apply", "vde_run", "vde_janitor"}
        assert {one["name"]: one["isAssetJob"] for one in jobs if one["name"] in launched} == (
            dict.fromkeys(launched, False)
        ), "Dagster hides the launchpad of jobs that list assets"


def test_the_sensor_and_the_schedule_launch_runs_that_compute(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.write("pyproject.toml", '[tool.vde.dagster]\nauto_apply = { prod = "always" }')
    result = evaluate(built.root, None, instance)
    assert isinstance(result, dg.SensorResult)
    _, asked = result.run_requests or ()
    assert asked.job_name == "vde_auto_apply"
    config = asked.run_config["ops"]["auto_apply"]["config"]
    assert run_job(built, instance, asked.job_name, config, op="auto_apply").success
    assert instance.get_materialized_partitions(dg.AssetKey(["vde", "apply"])) == {config["plan"]}
    built.edit("models/marts/running.sql", "end '2024-01-05'", "end '2024-01-06'")
    again = run_job(
        built,
        instance,
        asked.job_name,
        {"plan": "prod-none"},
        op="auto_apply",
        raise_on_error=False,
    )
    assert not again.success
    run = run_job(built, instance, "vde_run_prod", {"environment": "prod", "full": True}, op="run")
    assert run.success


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(ExecutionError("the cluster was busy"), 3), (UsageError("a parent has no data"), 1)],
)
def test_a_step_is_tried_again_as_its_retry_policy_asks_unless_it_would_fail_again(
    built: ProjectFolder,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    attempts: int,
) -> None:
    built.edit("models/marts/daily.sql", "MODEL (", "MODEL (retry_policy 2, ")
    with open_fake(built.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    tried = []

    def broken(self: Work, *_: Any, **__: Any) -> Any:
        tried.append(1)
        raise error

    monkeypatch.setattr(Work, "fill", broken)
    daily, version = dg.AssetKey(["marts", "daily"]), version_of(built, "marts.daily")
    key = f"{version}|2024-01-01"
    ended = (
        vde_definitions(built.root)
        .resolve_implicit_global_asset_job_def()
        .execute_in_process(
            instance=instance,
            asset_selection=[daily],
            partition_key=key,
            run_config=QUIET,
            raise_on_error=False,
        )
    )
    assert not ended.success
    assert len(tried) == attempts
