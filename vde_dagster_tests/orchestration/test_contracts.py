"""A published column that goes is never applied unasked, and its plan's page begins with it."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import BREAKING_CHECK, SHORT
from vde_dagster.orchestration.pages.plan_page import breaking_check, readers_in_location
from vde_dagster.orchestration.pages.report_text import report_markdown
from vde_dagster.reports.plan import plan_report
from vde_dagster_tests.execution.fake_workspace import publish_shop
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.orchestration.test_sensor import tick
from vde_dagster_tests.projects import Prepared, ProjectFolder

TOP = "models/marts/top.sql"
CUSTOMERS = "models/marts/customers.sql"
RENAME = {CUSTOMERS: ("AS revenue", "AS turnover"), TOP: ("customer, revenue,", "customer,")}
ORDER = (TOP, "ORDER BY revenue", "ORDER BY turnover")


def published(root: Path) -> None:
    publish_shop(root)
    ProjectFolder(root).write("pyproject.toml", "[tool.vde.dagster]\ncheck_queries = false")


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    """A project that was published, without Spark."""
    return prepared(published)


def rename(folder: ProjectFolder) -> None:
    """Rename a column in the model that makes it and in the one that reads it."""
    for path, (old, new) in RENAME.items():
        folder.edit(path, old, new)
    folder.edit(*ORDER)


def evaluated(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    """Return the check of what breaks; another one says that unit tests pass."""
    found = result.get_asset_check_evaluations()
    (check,) = (one for one in found if one.check_name == BREAKING_CHECK)
    return check


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        ("reuse", ["vde_plan_job"]),
        ("non_breaking", ["vde_plan_job"]),
        ("always", ["vde_plan_job", "vde_auto_apply"]),
    ],
)
def test_a_rename_is_applied_unasked_only_where_everything_is(
    shop: ProjectFolder, policy: str, jobs: list[str]
) -> None:
    shop.write("pyproject.toml", f'[tool.vde.dagster]\nauto_apply = {{ prod = "{policy}" }}')
    first = tick(shop)
    shop.edit(CUSTOMERS, "sum(amount) AS revenue", "sum(amount) AS turnover")
    shop.edit(TOP, "customer, revenue,", "customer, turnover AS revenue,")
    shop.edit(*ORDER)
    result = tick(shop, first.cursor)
    assert [request.job_name for request in result.run_requests] == jobs
    with Workspace.open(shop.root) as workspace:
        plan = workspace.store.plans.load(result.run_requests[0].partition_key)
    assert not plan.builds, "it costs nothing"


@pytest.mark.parametrize("policy", ["reuse", "non_breaking"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("customer, revenue,", "revenue AS customer, customer AS revenue,"),
        ("customer, revenue,", "customer, customer AS revenue,"),
    ],
)
def test_names_that_show_other_values_are_not_applied_unasked(
    shop: ProjectFolder, policy: str, before: str, after: str
) -> None:
    shop.write("pyproject.toml", f'[tool.vde.dagster]\nauto_apply = {{ prod = "{policy}" }}')
    shop.edit(TOP, before, after)
    assert [request.job_name for request in tick(shop).run_requests] == ["vde_plan_job"]


def test_what_costs_nothing_and_breaks_nothing_is_applied(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", '[tool.vde.dagster]\nauto_apply = { prod = "reuse" }')
    shop.edit(TOP, "customer, revenue,", "revenue, customer, customer AS who,")
    jobs = [request.job_name for request in tick(shop).run_requests]
    assert jobs == ["vde_plan_job", "vde_auto_apply"]


def test_the_plans_page_begins_with_what_breaks_and_the_check_fails(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    rename(shop)
    with Workspace.open(shop.root) as workspace:
        plan = workspace.plan("prod", author="anna")
    instance.add_dynamic_partitions(str(SHORT.plans.name), [plan.id])
    result = (
        vde_definitions(shop.root)
        .resolve_job_def("vde_plan_job")
        .execute_in_process(instance=instance, run_config=QUIET, partition_key=plan.id)
    )
    check = evaluated(result)
    assert not check.passed
    broken = "marts.customers.revenue is renamed to turnover; read by marts.top (revenue, place)"
    assert broken in str(check.metadata["vde/risks"].value)
    (event,) = result.asset_materializations_for_node("vde__plan")
    assert event.asset_key == SHORT.plan_key
    assert next(iter(event.metadata)) == "summary"
    for label in ("summary", "plan"):
        text = str(event.metadata[label].value)
        assert text.index(broken) < text.index("### Computes")


def test_assets_that_are_made_of_the_model_are_named_as_its_readers(shop: ProjectFolder) -> None:
    @dg.asset(key=["office", "letters"], deps=[dg.AssetKey(["marts", "customers"])])
    def letters() -> None: ...

    rename(shop)
    with Workspace.open(shop.root) as workspace:
        plan = workspace.plan("prod")
    repository = vde_definitions(shop.root, assets=[letters]).get_repository_def()
    readers = readers_in_location(repository, load_catalog(shop), plan)
    said = "is renamed to turnover; read by marts.top (revenue, place), asset office/letters\n"
    text = report_markdown(plan_report(plan, {}, readers=readers), SHORT)
    assert f"- marts.customers.revenue {said}" in text, "and vde/environment is none of them"
    assert "- column revenue is renamed to turnover\n" in text
    said = said.strip()
    assert said in str(breaking_check(plan, readers, SHORT.plan_key).metadata["vde/risks"].value)


def test_a_plan_made_from_the_launchpad_names_it_too(
    shop: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    rename(shop)
    job = vde_definitions(shop.root).resolve_job_def("vde_new_plan")
    result = job.execute_in_process(instance=instance, run_config=QUIET)
    check = evaluated(result)
    assert not check.passed
    assert "marts.customers.revenue is renamed to turnover" in str(
        check.metadata["vde/risks"].value
    )
