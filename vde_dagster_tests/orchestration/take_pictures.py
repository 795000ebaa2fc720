"""The docs' pictures, taken of the example project: `make pictures`; with `vault`, of the vault;
with `site`, of the documentation site; with `forms`, of forms and cleanups.

It builds a copy of the example, opens Dagster on it, edits a model, and waits for the plan.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from vde_dagster_tests.orchestration.browser import HEIGHT, SECONDS, WIDTH, cut_off, open_page
from vde_dagster_tests.orchestration.clicks import open_launchpad, retype, watch_run
from vde_dagster_tests.orchestration.servers import (
    REPOSITORY,
    Dagster,
    running_dagster,
    wait_for,
)

PICTURES = REPOSITORY / "docs" / "pictures"
TALL = 1100
"""Pixels that the whole lineage needs."""
HEADER, ICONS = 160, 64
"""Pixels above the lineage, and of the navigation at its left."""
EMPTY = 560, 1060
"""A place on the lineage's page where no model is, to drag it by."""


def main() -> None:
    """Build, look, edit, look again."""
    with tempfile.TemporaryDirectory(prefix="vde-pictures-") as folder:
        project = Path(folder) / "flights"
        project.mkdir()
        shutil.copytree(REPOSITORY / "models", project / "models")
        shutil.copy(REPOSITORY / "pyproject.toml", project)
        build = [sys.executable, "-m", "vde_dagster.cli.main_job"]
        subprocess.run(
            build, cwd=project, check=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
        )
        with (
            running_dagster(project, project / ".dagster_home") as dagster,
            sync_playwright() as playwright,
        ):
            page = open_page(playwright, Path(folder) / "profile")
            take_lineage(page, dagster)
            take_environment(page, dagster)
            model = project / "models" / "marts" / "airline_days.sql"
            model.write_text(edited(model.read_text()))
            known = set(dagster.plans())
            plan = wait_for(lambda: set(dagster.plans()) - known, "the sensor's plan").pop()
            wait_for(lambda: plan in dagster.filled("vde/plan"), "the plan's page")
            take_plan(page, dagster, plan)
            publish_without_computing(project, dagster)
            take_missing(page, dagster)


def take_vault() -> None:
    """What a PIT of the vault's example is made of."""
    with tempfile.TemporaryDirectory(prefix="vde-pictures-") as folder:
        project = Path(folder) / "vault"
        shutil.copytree(REPOSITORY / "examples" / "vault", project)
        subprocess.run(
            [sys.executable, "-m", "vde_dagster.cli", "apply", "prod", "--yes"],
            cwd=project,
            check=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        with (
            running_dagster(project, project / ".dagster_home") as dagster,
            sync_playwright() as playwright,
        ):
            wait_for(lambda: dagster.asset("vault/pit_aircraft"), "the code location")
            page = open_page(playwright, Path(folder) / "profile")
            page.goto(
                f"{dagster.url}/assets/vault/pit_aircraft"
                "?view=lineage&lineageScope=upstream&lineageDepth=3"
            )
            page.set_viewport_size({"width": WIDTH, "height": TALL})
            page.wait_for_timeout(8_000)
            page.get_by_text("Hide navigation").click()
            expect(page.get_by_text("sat_whereabouts").first).to_be_visible(timeout=SECONDS)
            page.get_by_role("button", name="zoom_in").click()
            page.wait_for_timeout(5_000)
            centre(page)
            page.screenshot(path=PICTURES / "vault.png")


def take_site() -> None:
    """Take the first page, the graph and the matrix of the example's documentation."""
    with tempfile.TemporaryDirectory(prefix="vde-pictures-") as folder:
        project = Path(folder) / "flights"
        project.mkdir()
        shutil.copytree(REPOSITORY / "models", project / "models")
        shutil.copy(REPOSITORY / "pyproject.toml", project)
        vde = [sys.executable, "-m", "vde_dagster.cli"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

        def run(*arguments: str) -> None:
            subprocess.run([*vde, *arguments], cwd=project, check=True, env=environment)

        run("apply", "prod", "--yes")
        model = project / "models" / "marts" / "airline_days.sql"
        model.write_text(edited(model.read_text()))
        run("apply", "dev", "--yes", "--skip-backfill", "--skip-tests")
        run("docs", "build")
        with sync_playwright() as playwright:
            page = open_page(playwright, Path(folder) / "profile")
            pages = (project / "build" / "docs" / "index.html").as_uri()
            page.set_viewport_size({"width": 1200, "height": 780})
            routes = (("", "site-home"), ("environments", "matrix"), ("graph", "site-graph"))
            for route, name in routes:
                page.goto(f"{pages}#/{route}")
                expect(page.locator("h1")).to_be_visible()
                if route == "graph":  # its first model, then a reader of that and of the next
                    for _ in range(3):
                        page.locator("canvas.graph").press("ArrowRight")
                page.wait_for_timeout(1_000)
                page.screenshot(path=PICTURES / f"{name}.png")


ORDERS = """
-- Orders per day
MODEL (name marts.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-01-01',
  end '2024-01-31', owner 'data@example.com', automation_condition eager);
SELECT day, count(*) AS orders FROM raw.orders
WHERE day BETWEEN @start_date AND @end_date GROUP BY day
"""
RAW = """
MODEL (name raw.orders, kind FULL);
SELECT explode(sequence(DATE'2024-01-01', DATE'2024-01-31')) AS day
"""


def take_forms() -> None:
    """The form of a plan, the automation of a model, and the history of cleanups."""
    with tempfile.TemporaryDirectory(prefix="vde-pictures-") as folder:
        project = Path(folder) / "shop"
        (project / "models").mkdir(parents=True)
        settings = "[tool.vde]\nname = 'shop'\njanitor_grace_hours = 0\n"
        (project / "pyproject.toml").write_text(settings)
        (project / "models" / "daily.sql").write_text(ORDERS)
        (project / "models" / "orders.sql").write_text(RAW)
        vde = [sys.executable, "-m", "vde_dagster.cli"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

        def run(*arguments: str) -> None:
            subprocess.run([*vde, *arguments], cwd=project, check=True, env=environment)

        run("apply", "prod", "--yes")
        with (
            running_dagster(project, project / ".dagster_home") as dagster,
            sync_playwright() as playwright,
        ):
            wait_for(lambda: len(dagster.filled("marts/daily")) == 31, "the fills")
            page = open_page(playwright, Path(folder) / "profile")
            open_launchpad(page, dagster, "vde_new_plan")
            page.wait_for_timeout(3_000)
            take_part(page, "launchpad", 560)
            page.goto(f"{dagster.url}/assets/marts/daily?view=overview")
            card = page.get_by_text("Automation condition").first
            expect(card).to_be_visible(timeout=SECONDS)
            page.get_by_text("Schedules", exact=True).first.scroll_into_view_if_needed()
            page.wait_for_timeout(3_000)
            page.screenshot(path=PICTURES / "automation.png")
            for number in (2, 3):
                text = ORDERS.replace("count(*)", f"{number} * count(*)")
                (project / "models" / "daily.sql").write_text(text)
                run("apply", "dev", "--yes")
                run("drop", "dev")
                open_launchpad(page, dagster, "vde_janitor")
                if number == 2:  # the form keeps the edit
                    retype(page, "dry_run: true", "dry_run: false")
                page.get_by_role("button", name="Launch Run").click()
                watch_run(page, dagster)
            page.goto(f"{dagster.url}/assets/vde/janitor?view=overview")
            page.get_by_role("button", name="Plots").click()
            plot = page.locator("canvas").first
            expect(plot).to_be_visible(timeout=SECONDS)
            page.set_viewport_size({"width": WIDTH, "height": TALL})
            page.wait_for_timeout(3_000)
            page.screenshot(path=PICTURES / "janitor-plots.png")
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            page.goto(f"{dagster.url}/assets/vde/janitor?view=events")
            expect(page.get_by_text("vde/report").first).to_be_visible(timeout=SECONDS)
            page.wait_for_timeout(3_000)
            assert cut_off(page) == []
            take_part(page, "janitor", 760)


def take_part(page: Page, name: str, height: int) -> None:
    """Take the upper part of a page."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    page.screenshot(path=PICTURES / f"{name}.png", clip=clip)


def edited(text: str) -> str:
    """Call a flight delayed from half an hour on, as some airports do."""
    changed = text.replace("f.arrival_delay >= 15", "f.arrival_delay >= 30")
    assert changed != text
    return changed


def take_lineage(page: Page, dagster: Dagster) -> None:
    """The neighbours of the model that everything reads."""
    page.goto(
        f"{dagster.url}/assets/staging/flights?view=lineage&lineageScope=neighbors&lineageDepth=2"
    )
    page.set_viewport_size({"width": WIDTH, "height": TALL})
    page.wait_for_timeout(5_000)
    page.get_by_text("Hide navigation").click()
    details = page.get_by_text("365 partitions").first
    for _ in range(8):  # from far away a model shows no more than its name
        if details.is_visible():
            break
        page.get_by_role("button", name="zoom_in").click()
        page.wait_for_timeout(1_000)
    expect(details).to_be_visible(timeout=SECONDS)
    page.wait_for_timeout(5_000)
    centre(page)
    page.screenshot(path=PICTURES / "lineage.png")
    page.evaluate("localStorage.clear()")  # the other pages show the navigation again
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def centre(page: Page) -> None:
    """Drag the lineage until what it shows is in the middle of the page."""
    nodes = page.locator("foreignObject").evaluate_all(
        "found => found.map(one => one.getBoundingClientRect())"
        ".map(box => [box.left, box.top, box.right, box.bottom])"
    )
    left, top = (min(node[side] for node in nodes) for side in (0, 1))
    right, bottom = (max(node[side] for node in nodes) for side in (2, 3))
    print(f"the lineage spans {left:.0f} to {right:.0f} by {top:.0f} to {bottom:.0f} pixels")
    x, y = EMPTY
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(
        x + (WIDTH + ICONS - right - left) / 2, y + (TALL + HEADER - bottom - top) / 2, steps=20
    )
    page.mouse.up()
    page.wait_for_timeout(3_000)


def take_environment(page: Page, dagster: Dagster) -> None:
    """What production serves."""
    page.goto(f"{dagster.url}/assets/vde/environment?view=partitions&partition=prod")
    expect(page.get_by_text("vde/views").first).to_be_visible(timeout=SECONDS)
    page.wait_for_timeout(2_000)
    page.screenshot(path=PICTURES / "environment.png")


def publish_without_computing(project: Path, dagster: Dagster) -> None:
    """Let a development environment show the edited model, of which nothing is filled."""
    # Counted before: the sensor may have the location loaded again before the command has ended.
    partitions = len(dagster.asset("marts/airline_days")["partitionKeys"])
    # The edit is one that a unit test refuses, and tests are not what the picture shows.
    options = ["--yes", "--skip-backfill", "--skip-tests"]
    subprocess.run(
        [sys.executable, "-m", "vde_dagster.cli", "apply", "dev", *options],
        cwd=project,
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    wait_for(
        lambda: len(dagster.asset("marts/airline_days")["partitionKeys"]) > partitions,
        "the page of the new version",
    )


def take_missing(page: Page, dagster: Dagster) -> None:
    """A new version of a model, nothing of it filled, beside the version that is published."""
    page.goto(f"{dagster.url}/assets/marts/airline_days?view=partitions")
    expect(page.get_by_text("Missing (365)")).to_be_visible(timeout=SECONDS)
    page.wait_for_timeout(2_000)
    page.screenshot(path=PICTURES / "missing-intervals.png")


def take_plan(page: Page, dagster: Dagster, plan: str) -> None:
    """The plan as a pull request."""
    page.goto(f"{dagster.url}/assets/vde/plan?view=partitions&partition={plan}")
    expect(page.get_by_text("Plan for prod").first).to_be_visible(timeout=SECONDS)
    page.wait_for_timeout(2_000)
    page.screenshot(path=PICTURES / "plan.png")


if __name__ == "__main__":
    {"vault": take_vault, "site": take_site, "forms": take_forms}.get(
        " ".join(sys.argv[1:]), main
    )()
