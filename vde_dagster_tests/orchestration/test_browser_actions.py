"""What a person does: plans, fills, environments and rollbacks by clicks in a real browser.

Every step ends with a look at what the state store and Spark have afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.environment import Environment
from vde_dagster_tests.orchestration.browser import SECONDS, cut_off, keep
from vde_dagster_tests.orchestration.clicks import (
    add_below,
    choose,
    choose_only_missing,
    launch,
    launch_run,
    looking_away,
    materialize,
    materialize_group,
    open_launchpad,
    open_partitions,
    retype,
    run_of,
    scaffold,
    watch_run,
)
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.orchestration.servers import Dagster, running_dagster, wait_for
from vde_dagster_tests.orchestration.test_server import SETTINGS
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

DAYS = [f"2024-01-0{n}" for n in range(1, 6)]
BASKETS = "SELECT CAST(day AS STRING), basket FROM marts.running ORDER BY day"
FIRST = (("2024-01-01", 6.25), ("2024-01-03", 20.0), ("2024-01-05", 1.0))
DOUBLED = tuple((day, 2 * basket) for day, basket in FIRST)


@dataclass
class Shop:
    """A project that is looked at and driven in a browser."""

    folder: ProjectFolder
    dagster: Dagster
    page: Page

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Open the project as the command line does."""
        with Workspace.open(self.folder.root) as found:
            yield found

    def published(self, environment: str) -> Environment:
        """Return what an environment is now."""
        with self.workspace() as workspace:
            found = workspace.store.environments.get(environment)
        assert found is not None
        return found

    def status(self, plan: str) -> str:
        """Return how far a plan got."""
        with self.workspace() as workspace:
            record = workspace.store.plans.record(plan)
        assert record is not None
        return record.status

    def baskets(self, environment: str) -> tuple[tuple[object, ...], ...]:
        """Query a published view."""
        with self.workspace() as workspace:
            return workspace.query(environment, BASKETS).rows

    def commits(self, environment: str, model: str) -> dict[str, int]:
        """Return the Iceberg commit that wrote each day last."""
        entry = self.published(environment).entries[ModelName.parse(model)]
        assert entry.table_id is not None
        with self.workspace() as workspace:
            fills = workspace.store.fills.log(entry.table_id)
        return {
            day: next(
                fill.iceberg_snapshot_id
                for fill in fills
                if f"{fill.interval.start:%F}" <= day < f"{fill.interval.end:%F}"
            )
            for day in DAYS
        }

    def events(self, asset: str, version: str) -> Counter[str]:
        """Count a version's events by day."""
        events = self.dagster.asset(asset)["assetMaterializations"]
        keys = [event["partition"].split("|") for event in events]
        return Counter(day for found, day in keys if found == version)


@pytest.mark.turns(5, "Dagster's servers")
def test_a_person_approves_backfills_recomputes_rolls_back_and_drops_by_clicks(
    built: ProjectFolder, tmp_path: Path, page: Page
) -> None:
    built.write("pyproject.toml", SETTINGS)
    with running_dagster(built.root, tmp_path / "home") as dagster:
        shop = Shop(built, dagster, page)
        materialize_all_and_approve_nothing(shop)
        approve_the_sensors_plan(shop)
        see_what_production_serves(shop)
        waiting = create_a_development_environment(shop)
        reject_the_plan(shop, waiting)
        see_what_is_shared_and_what_is_its_own(shop)
        published = time.time()
        recompute_a_day_that_is_filled(shop)
        dagster.wait_for_daemon(published)
        backfill_only_what_is_missing(shop)
        plan = mistype_a_date_and_correct_it(shop)
        publish_to_production_what_dev_built(shop, plan)
        roll_back_to_a_chosen_version(shop)
        see_the_history(shop)
        drop_the_development_environment(shop)


def materialize_all_and_approve_nothing(shop: Shop) -> None:
    (plan,) = wait_for(shop.dagster.plans, "the sensor's plan")
    wait_for(lambda: plan in shop.dagster.filled("vde/plan"), "the plan's page")
    dialog = materialize_group(shop.page, shop.dagster, "vde")
    dialog.get_by_role("button", name="All", exact=True).click()
    launch(shop.page, dialog, "Launch backfill", name="bulk")
    with looking_away(shop.page):
        wait_for(lambda: "REQUESTED" not in shop.dagster.backfills(), "the backfill")
    for asset in ("vde/apply", "vde/reject"):
        assert shop.dagster.filled(asset) == set()
        assert shop.dagster.asset(asset)["partitionStats"]["numFailed"] == 0
    assert shop.status(plan) == "planned"
    with shop.workspace() as workspace:
        assert workspace.store.environments.all() == []


def approve_the_sensors_plan(shop: Shop) -> None:
    (plan,) = wait_for(shop.dagster.plans, "the sensor's plan")
    wait_for(lambda: plan in shop.dagster.filled("vde/plan"), "the plan's page")
    approve(shop, plan, "approve")
    environment = shop.published("prod")
    assert (environment.version, environment.plan_id) == (1, plan)
    assert shop.baskets("prod") == FIRST


def approve(shop: Shop, plan: str, name: str) -> None:
    """Materialise a plan's partition of `vde/apply`, and come back to it."""
    open_partitions(shop.page, shop.dagster, "vde/apply", plan)
    choose(shop.page, plan)
    launch(shop.page, materialize(shop.page), "Launch 1 run", name=name)
    watch_run(shop.page, shop.dagster)
    keep(shop.page, f"{name}-run")
    open_partitions(shop.page, shop.dagster, "vde/apply", plan)
    choose(shop.page, plan)
    expect(shop.page.get_by_text("Materialized", exact=True)).to_be_visible(timeout=SECONDS)
    keep(shop.page, name)


def see_what_production_serves(shop: Shop) -> None:
    assert environment_rows(shop, "prod")["marts.daily"][1] == "own"
    keep(shop.page, "environment-prod")


def environment_rows(shop: Shop, environment: str) -> dict[str, list[str]]:
    """Read the table of an environment's page: version, whose its table is, since when, by view."""
    open_partitions(shop.page, shop.dagster, "vde/environment", "Failed (0)")
    choose(shop.page, environment)
    table = shop.page.get_by_role("table").filter(has_text="whose").last
    expect(table).to_be_visible(timeout=SECONDS)
    assert cut_off(shop.page) == []
    rows = [row.get_by_role("cell").all_inner_texts() for row in table.get_by_role("row").all()]
    return {row[0]: row[1:4] for row in rows if row}


def create_a_development_environment(shop: Shop) -> str:
    """Return the plan for production that the sensor makes of the same edit."""
    page, known = shop.page, set(shop.dagster.plans())
    shop.folder.edit("models/marts/running.sql", "revenue / orders", "2 * revenue / orders")
    (waiting,) = wait_for(lambda: set(shop.dagster.plans()) - known, "the plan for production")
    open_launchpad(page, shop.dagster, "vde_plan_and_apply")
    retype(page, "environment: '#", "environment: dev")
    retype(page, "start: '#", "start: 2024-01-01")
    described = page.get_by_text("Only intervals up to this date, the day included")
    expect(described).to_be_visible(timeout=SECONDS)
    retype(page, "end: '#", "end: 2024-01-02")
    launch_run(page, shop.dagster, name="new-environment")
    dev = shop.published("dev")
    assert dev.version == 1
    assert dev.expires_at is not None
    assert shop.baskets("dev") == DOUBLED[:1]
    assert shop.baskets("prod") == FIRST
    return waiting


def reject_the_plan(shop: Shop, waiting: str) -> None:
    page = shop.page
    open_partitions(page, shop.dagster, "vde/reject", waiting)
    choose(page, waiting)
    launch(page, materialize(page), "Launch 1 run", name="reject")
    watch_run(page, shop.dagster)
    assert shop.status(waiting) == "rejected"
    assert waiting not in shop.dagster.plans()
    rejected = shop.dagster.asset("vde/reject")["partitionStats"]
    assert rejected["numMaterialized"] == rejected["numPartitions"] == 1, "all that is there"
    page.goto(f"{shop.dagster.url}/assets/vde/reject?view=events")
    rejected_by = page.get_by_text(f"The plan {waiting} was rejected by").first
    expect(rejected_by).to_be_visible(timeout=SECONDS)
    keep(page, "rejected")


def see_what_is_shared_and_what_is_its_own(shop: Shop) -> None:
    prod, dev = environment_rows(shop, "prod"), environment_rows(shop, "dev")
    assert dev["marts__dev.daily"][0] == prod["marts.daily"][0]
    assert dev["marts__dev.daily"][1] == "shared"
    assert dev["marts__dev.running"][0] == version_of(shop.folder, "marts.running")
    assert dev["marts__dev.running"][1] == "own"
    keep(shop.page, "environment-dev")


def backfill_only_what_is_missing(shop: Shop) -> None:
    page, version = shop.page, version_of(shop.folder, "marts.running")
    open_partitions(page, shop.dagster, "marts/running", "Missing (3)")
    choose(page, version)
    dialog = materialize(page)
    choose_only_missing(dialog, "Only 3 failed and missing")
    launch(page, dialog, "Launch backfill", name="backfill")
    every_day = Counter(DAYS)
    with looking_away(page):
        wait_for(lambda: shop.events("marts/running", version) == every_day, "the missing days")
    expect(page.get_by_text("100% completed")).to_be_visible(timeout=SECONDS)
    keep(page, "backfill-page")
    open_partitions(page, shop.dagster, "marts/running", "Materialized (10)")
    keep(page, "backfill")
    with shop.workspace() as workspace:
        assert workspace.plan("dev", save=False).is_empty, "as after `vde apply dev`"
    assert shop.baskets("dev") == DOUBLED


def recompute_a_day_that_is_filled(shop: Shop) -> None:
    page, version = shop.page, version_of(shop.folder, "marts.daily")
    before = shop.commits("prod", "marts.daily"), shop.commits("prod", "marts.running")
    open_partitions(page, shop.dagster, "marts/daily", "Missing (0)")
    choose(page, version)
    dialog = materialize(page)
    dialog.get_by_placeholder("ex:").fill(DAYS[2])
    page.keyboard.press("Enter")
    launch(page, dialog, "Launch 1 run", name="recompute")
    watch_run(page, shop.dagster)
    keep(page, "recompute")
    after = shop.commits("prod", "marts.daily"), shop.commits("prod", "marts.running")
    for old, new in zip(before, after, strict=True):
        assert [day for day in DAYS if new[day] != old[day]] == [DAYS[2]]
    assert shop.events("marts/daily", version) == Counter([*DAYS, DAYS[2]])
    assert shop.published("prod").version == 2
    assert shop.baskets("prod") == FIRST


def mistype_a_date_and_correct_it(shop: Shop) -> str:
    """Plan for production in two attempts, and return the plan."""
    page, known = shop.page, set(shop.dagster.plans())
    open_launchpad(page, shop.dagster, "vde_new_plan")
    retype(page, "start: '#", "start: 2024-13-01")
    page.get_by_role("button", name="Launch Run").click()
    run_of(page)
    for told in ("the config's start '2024-13-01' is not a time", "write a date or an instant"):
        expect(page.get_by_text(told).first).to_be_visible(timeout=SECONDS)
    keep(page, "wrong-date")
    assert set(shop.dagster.plans()) == known
    page.get_by_role("link", name="Open in Launchpad").click()
    retype(page, "2024-13-01", "start: 2024-01-01")
    launch_run(page, shop.dagster, name="corrected-date")
    (plan,) = set(shop.dagster.plans()) - known
    return plan


def publish_to_production_what_dev_built(shop: Shop, plan: str) -> None:
    approve(shop, plan, "publish")
    assert shop.published("prod").version == 3
    table = ModelName.parse("marts.running")
    assert shop.published("prod").entries[table] == shop.published("dev").entries[table]
    assert shop.baskets("prod") == DOUBLED


def roll_back_to_a_chosen_version(shop: Shop) -> None:
    open_launchpad(shop.page, shop.dagster, "vde_rollback")
    add_below(shop.page, "environment: prod", "version: 1")
    launch_run(shop.page, shop.dagster, name="rollback")
    now = shop.published("prod")
    assert (now.version, now.note) == (4, "rollback to 1")
    with shop.workspace() as workspace:
        first = workspace.store.versions.at("prod", 1)
    assert first is not None
    assert now.entries == first.entries
    assert shop.baskets("prod") == FIRST


def see_the_history(shop: Shop) -> None:
    page = shop.page
    open_partitions(page, shop.dagster, "vde/environment", "Materialized (2)")
    choose(page, "prod")
    expect(page.get_by_text("rollback to 1").first).to_be_visible(timeout=SECONDS)
    changed = page.get_by_role("row").filter(has_text="vde/changes")
    for told in ("marts.running", "changed"):
        expect(changed.get_by_text(told).first).to_be_visible(timeout=SECONDS)
    assert cut_off(page) == []
    page.get_by_role("button", name="View all historical events (4)").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("link", name="vde_rollback")).to_be_visible(timeout=SECONDS)
    keep(page, "history")


def drop_the_development_environment(shop: Shop) -> None:
    page = shop.page
    open_launchpad(page, shop.dagster, "vde_drop_environment")
    scaffold(page)
    retype(page, "environment: ''", "environment: dev")
    launch_run(page, shop.dagster, name="drop")
    open_launchpad(page, shop.dagster, "vde_janitor")
    retype(page, "dry_run: true", "dry_run: false")
    launch_run(page, shop.dagster, name="janitor")
    open_partitions(page, shop.dagster, "vde/environment", "Materialized (1)")
    keep(page, "environments-left")
    with shop.workspace() as workspace:
        assert [environment.name for environment in workspace.store.environments.all()] == ["prod"]
        with pytest.raises(UsageError, match="environment 'dev' does not exist"):
            workspace.query("dev", BASKETS)
