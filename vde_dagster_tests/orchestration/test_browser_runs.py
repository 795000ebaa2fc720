"""What a person does with runs: cancels one by a click, and fills from the lineage's graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster_tests.orchestration.browser import SECONDS, keep
from vde_dagster_tests.orchestration.clicks import (
    choose,
    choose_only_missing,
    launch,
    looking_away,
    materialize,
    materialize_in_lineage,
    open_partitions,
    run_of,
    terminate,
    watch_run,
)
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.orchestration.servers import (
    Dagster,
    open_home,
    running_dagster,
    wait_for,
)
from vde_dagster_tests.orchestration.test_server import SETTINGS
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server]

DAYS = {"2024-01-01", "2024-01-02", "2024-01-03"}
SLOW = "models/marts/slow.sql"
FILES = {
    "pyproject.toml": SETTINGS,
    "models/marts/days.sql": """
        MODEL (name marts.days, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03');
        SELECT day, 1 AS n
        FROM VALUES (DATE '2024-01-01'), (DATE '2024-01-02'), (DATE '2024-01-03') AS d (day)
        WHERE day BETWEEN @start_date AND @end_date
    """,
    SLOW: """
        MODEL (name marts.slow, kind FULL);
        SELECT max(day) AS last, count(*) AS n
        FROM marts.days CROSS JOIN range(6)
        WHERE concat('', java_method('java.lang.Thread', 'sleep', 600000L)) IS DISTINCT FROM 'no'
    """,
}


@pytest.mark.turns(5, "Dagster's servers")
def test_a_person_cancels_an_apply_and_fills_the_rest_from_the_lineage(
    tmp_path: Path, page: Page
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with running_dagster(folder.root, tmp_path / "home") as dagster:
        cancelled = cancel_an_apply_that_takes_too_long(folder, dagster, page)
        approve_the_plan_of_the_mended_model(folder, dagster, page, cancelled)
        fill_what_is_missing_from_the_lineage(folder, dagster, page)


def cancel_an_apply_that_takes_too_long(folder: ProjectFolder, dagster: Dagster, page: Page) -> str:
    (plan,) = wait_for(dagster.plans, "the sensor's plan")
    wait_for(lambda: plan in dagster.filled("vde/plan"), "the plan's page")
    open_partitions(page, dagster, "vde/apply", plan)
    choose(page, plan)
    launch(page, materialize(page), "Launch 1 run", name="cancel-approve")
    run = run_of(page)
    with looking_away(page):
        wait_for(lambda: dagster.filled("marts/days"), "the first model")
    assert dagster.spark_workers()
    terminate(page, name="cancel")
    assert dagster.end(run) == "CANCELED"
    expect(page.get_by_text("Canceled").first).to_be_visible(timeout=SECONDS)
    keep(page, "cancelled")
    wait_for(lambda: not dagster.spark_workers(), "the end of the JVM")
    with Workspace.open(folder.root) as workspace:
        assert workspace.store.environments.get("prod") is None
        record = workspace.store.plans.record(plan)
    assert record is not None
    assert record.status == "failed"
    assert record.message is not None
    return plan


def approve_the_plan_of_the_mended_model(
    folder: ProjectFolder, dagster: Dagster, page: Page, cancelled: str
) -> None:
    folder.edit(SLOW, "600000L", "6L")
    (plan,) = wait_for(lambda: set(dagster.plans()) - {cancelled}, "the next plan")
    wait_for(lambda: plan in dagster.filled("vde/plan"), "its page")
    open_partitions(page, dagster, "vde/apply", plan)
    choose(page, plan)
    launch(page, materialize(page), "Launch 1 run", name="cancel-mended")
    watch_run(page, dagster)
    keep(page, "cancel-mended-run")
    assert dagster.plans() == [plan], "nobody can approve the other one any more"
    events = dagster.asset("marts/days")["assetMaterializations"]
    assert len(events) == len(DAYS), "what the cancelled run had filled is not filled again"
    with Workspace.open(folder.root) as workspace:
        assert workspace.query("prod", "SELECT n FROM marts.slow").rows == ((18,),)


def fill_what_is_missing_from_the_lineage(
    folder: ProjectFolder, dagster: Dagster, page: Page
) -> None:
    version = version_of(folder, "marts.days")
    lose_the_last_days(folder, dagster)
    open_partitions(page, dagster, "marts/days", "Missing (2)")
    dialog = materialize_in_lineage(page, dagster, "marts/days")
    choose_only_missing(dialog, "Only 2 failed and missing")
    launch(page, dialog, "Launch backfill", name="lineage-backfill")
    with looking_away(page):
        wait_for(lambda: filled_days(dagster, version) == DAYS, "the missing days")
    open_partitions(page, dagster, "marts/days", "Missing (0)")
    keep(page, "lineage-backfill")
    with Workspace.open(folder.root) as workspace:
        assert workspace.plan("prod", save=False).is_empty, "as after `vde apply prod`"
        rows = workspace.query("prod", "SELECT CAST(day AS STRING), n FROM marts.days").rows
    assert set(rows) == {(day, 1) for day in DAYS}


def lose_the_last_days(folder: ProjectFolder, dagster: Dagster) -> None:
    """Record that two days have to be filled again, and let Dagster know."""
    days = Interval(parse_instant("2024-01-02"), parse_instant("2024-01-04"))
    with (
        Workspace.open(folder.root) as workspace,
        open_home(dagster.home) as instance,
    ):
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        entry = environment.entries[ModelName("marts", "days")]
        workspace.store.fills.remove(entry.table_id or "", days)
        assert sync(workspace, instance).wiped == 2


def filled_days(dagster: Dagster, version: str) -> set[str]:
    found = (key.split("|") for key in dagster.filled("marts/days"))
    return {day for key, day in found if key == version}
