"""What a person sees: the pages in a real browser, on a real webserver and daemon."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from vde_dagster_tests.orchestration.browser import SECONDS, cut_off, keep
from vde_dagster_tests.orchestration.servers import Dagster, running_dagster, wait_for
from vde_dagster_tests.orchestration.test_server import SETTINGS
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server]


@pytest.mark.turns(5, "Dagster's servers")
def test_a_person_finds_the_plan_the_missing_intervals_and_the_forms(
    built: ProjectFolder, tmp_path: Path, page: Page
) -> None:
    built.write("pyproject.toml", SETTINGS)
    with running_dagster(built.root, tmp_path / "home") as dagster:
        (plan,) = wait_for(dagster.plans, "the sensor's plan")
        wait_for(lambda: plan in dagster.filled("vde/plan"), "the plan's page")
        see_the_plan(page, dagster, plan)
        see_that_it_awaits_approval(page, dagster)
        see_missing_intervals(page, dagster)
        see_the_documented_form(page, dagster)


def see_the_plan(page: Page, dagster: Dagster, plan: str) -> None:
    page.goto(f"{dagster.url}/assets/vde/plan?view=partitions&partition={plan}")
    expect(page.get_by_text("Plan for prod: 6 added, 5 to compute").first).to_be_visible(
        timeout=SECONDS
    )
    expect(page.get_by_text("2024-01-01 … 2024-01-05").first).to_be_visible(timeout=SECONDS)
    keep(page, "plan")
    assert cut_off(page) == []
    page.get_by_role("link", name="its partition of vde/apply").first.click()
    expect(page).to_have_url(re.compile(f"/assets/vde/apply.*partition={plan}"), timeout=SECONDS)
    expect(page.get_by_text("View all historical events (0)")).to_be_visible(timeout=SECONDS)
    keep(page, "plan-to-approve")


def see_that_it_awaits_approval(page: Page, dagster: Dagster) -> None:
    page.goto(f"{dagster.url}/assets/vde/apply?view=partitions")
    expect(page.get_by_text("Missing (1)")).to_be_visible(timeout=SECONDS)
    keep(page, "apply")


def see_missing_intervals(page: Page, dagster: Dagster) -> None:
    page.goto(f"{dagster.url}/assets/marts/daily?view=partitions")
    expect(page.get_by_text("Missing (5)")).to_be_visible(timeout=SECONDS)
    keep(page, "missing")
    page.goto(f"{dagster.url}/assets/marts/daily")
    source = page.get_by_role("link", name="models/marts/daily.sql")
    expect(source.first).to_be_visible(timeout=SECONDS)
    expect(page.get_by_text("count(*) AS orders").first).to_be_visible(timeout=SECONDS)
    keep(page, "model")


def see_the_documented_form(page: Page, dagster: Dagster) -> None:
    page.goto(f"{dagster.url}/locations/vde/jobs/vde_plan_and_apply/playground")
    expect(page.get_by_text("# models to compute again").first).to_be_visible(timeout=SECONDS)
    keep(page, "launchpad")
