"""From an edited file to a published environment, with the real webserver and daemon."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.orchestration.servers import Dagster, running_dagster, wait_for
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.server]

SETTINGS = """
    [tool.vde.dagster]
    sensor_interval_seconds = 2
    check_queries = false

    [tool.vde.spark]
    master = "local[2]"

    [tool.vde.spark.config]
    "spark.driver.memory" = "1g"
    "spark.sql.shuffle.partitions" = "2"
"""


@pytest.mark.turns(5, "Dagster's servers")
def test_edit_sensor_plan_approve_apply_undo_and_the_pages_follow(
    built: ProjectFolder, tmp_path: Path
) -> None:
    """Nobody reloads anything by hand, and the code location has a name of its own."""
    built.write("pyproject.toml", SETTINGS)
    with running_dagster(built.root, tmp_path / "home", location="warehouse") as dagster:
        # The sensor sees a project that was never applied.
        (first,) = wait_for(dagster.plans, "the first plan")
        wait_for(lambda: first in dagster.filled("vde/plan"), "the plan's page")
        dagster.succeed(dagster.launch("vde_apply_job", first))
        assert dagster.filled("vde/apply") == {first}
        version = version_of(built, "marts.daily")
        days = {f"{version}|2024-01-0{n}" for n in range(1, 6)}
        assert dagster.filled("marts/daily") == days

        # An edit: a plan that reads like a pull request.
        built.edit("models/marts/daily.sql", "sum(amount)", "sum(amount * 2)")
        (second,) = wait_for(lambda: set(dagster.plans()) - {first}, "the second plan")
        wait_for(lambda: second in dagster.filled("vde/plan"), "the second plan's page")
        event = next(
            e
            for e in dagster.asset("vde/plan")["assetMaterializations"]
            if e["partition"] == second
        )
        (page,) = [e["mdStr"] for e in event["metadataEntries"] if e["label"] == "plan"]
        assert "```diff" in page
        assert "marts.daily.revenue changed → marts.running.basket" in page
        assert page.index("### Computes") < page.index("### Why")

        # What waits for its approval does not make production look half filled.
        assert production(dagster) == (5, {version})

        # Approval, by materialising the same partition.
        dagster.succeed(dagster.launch("vde_apply_job", second))
        version = version_of(built, "marts.daily")
        # A run ends before its process has reloaded the code location.
        wait_for(lambda: production(dagster) == (5, {version}), "the new version alone")

        # An edit and a new model are undone before anybody approves them.
        daily = built.root / "models/marts/daily.sql"
        text = daily.read_text()
        built.edit("models/marts/daily.sql", "amount * 2", "amount * 3")
        built.write("models/marts/one.sql", "MODEL (name marts.one, kind FULL); SELECT 1 AS n")
        wait_for(lambda: "marts/one" in dagster.assets(), "the new model's page")
        daily.write_text(text)
        built.remove("models/marts/one.sql")
        wait_for(lambda: "marts/one" not in dagster.assets(), "the page's end")
        dagster.succeed(dagster.materialize("marts/daily", f"{version}|2024-01-02"))
        assert production(dagster) == (5, {version})


def production(dagster: Dagster) -> tuple[int, set[str]]:
    """Return how many partitions of `marts.daily` are filled of those listed, by version."""
    node = dagster.asset("marts/daily")
    assert node["partitionStats"]["numPartitions"] == node["partitionStats"]["numMaterialized"]
    found = {key.split("|")[0] for key in node["partitionKeys"]}
    return node["partitionStats"]["numMaterialized"], found


@pytest.mark.turns(5, "Dagster's servers")
def test_killed_run_is_started_again_and_goes_on(built: ProjectFolder, tmp_path: Path) -> None:
    built.write("pyproject.toml", SETTINGS)
    with running_dagster(built.root, tmp_path / "home") as dagster:
        (plan,) = wait_for(dagster.plans, "the plan")
        run = dagster.launch("vde_apply_job", plan)
        wait_for(lambda: dagster.filled("raw/orders"), "the first table")
        dagster.kill_spark_worker()
        dagster.succeed(dagster.retry_of(run))
        assert dagster.filled("vde/apply") == {plan}
        version = version_of(built, "marts.daily")
        assert dagster.filled("marts/daily") == {f"{version}|2024-01-0{n}" for n in range(1, 6)}
    with Workspace.open(built.root) as workspace:
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        assert (environment.version, environment.plan_id) == (1, plan)
        for entry in environment.entries.values():
            fills = workspace.store.fills.log(entry.table_id) if entry.table_id else []
            ranges = sorted((fill.interval.start, fill.interval.end) for fill in fills)
            for (_, end), (start, _) in pairwise(ranges):
                assert end <= start, f"{entry.name}: a range was filled twice"
        assert workspace.plan("prod").is_empty
