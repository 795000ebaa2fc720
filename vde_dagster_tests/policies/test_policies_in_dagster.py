"""Rules over plans in Dagster: nothing that they ask about is applied unasked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import SENSOR_NAME_TAG

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import SHORT
from vde_dagster_tests.execution.fake_workspace import publish_shop
from vde_dagster_tests.orchestration.test_sensor import tick
from vde_dagster_tests.projects import Prepared, ProjectFolder

pytestmark = pytest.mark.dagster

SETTINGS = """
[tool.vde.policies]
[tool.vde.dagster]
check_queries = false
auto_apply = { prod = "always" }
"""
RULE = "- {name: read, require: 'plan.environment != \"prod\"', message: read it, level: %s}"
TOP = "models/marts/top.sql"


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    """A project that was published, without Spark, then edited at no cost."""

    def published(root: Path) -> None:
        publish_shop(root)
        ProjectFolder(root).write("pyproject.toml", SETTINGS)

    folder = prepared(published)
    folder.edit(TOP, "customer, revenue,", "revenue, customer, customer AS who,")
    return folder


@pytest.mark.parametrize(
    ("level", "jobs"),
    [
        ("warn", ["vde_plan_job", "vde_auto_apply"]),
        ("ask", ["vde_plan_job"]),
        ("refuse", ["vde_plan_job"]),
    ],
)
def test_the_sensor_applies_nothing_that_waits_for_an_approval(
    shop: ProjectFolder, level: str, jobs: list[str]
) -> None:
    shop.write("policies.yaml", RULE % level)
    assert [request.job_name for request in tick(shop).run_requests] == jobs


@pytest.mark.parametrize(
    ("level", "tags", "published"),
    [
        ("ask", {}, True),
        ("ask", {SENSOR_NAME_TAG: "vde_code_changes"}, False),
        ("refuse", {}, False),
    ],
)
def test_a_person_approves_in_dagster_what_a_rule_asks_about(
    shop: ProjectFolder, level: str, tags: dict[str, Any], published: bool
) -> None:
    shop.write("policies.yaml", RULE % level)
    with Workspace.open(shop.root) as workspace:
        plan = workspace.plan("prod", author="anna")
    assert any(warning.startswith("read: read it;") for warning in plan.notices)
    job = vde_definitions(shop.root).resolve_job_def("vde_apply_job")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
        done = job.execute_in_process(
            instance=instance,
            partition_key=plan.id,
            run_config=QUIET,
            tags=tags,
            raise_on_error=False,
        )
    assert done.success is published
    with Workspace.open(shop.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        assert (current.plan_id == plan.id) is published
    if not published:
        failed = [event for event in done.all_events if event.is_step_failure]
        assert "was not applied because of rules: read: read it" in str(
            failed[0].step_failure_data.error
        )
