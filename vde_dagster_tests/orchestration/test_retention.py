"""Old runs leave Dagster, and the pages keep the facts that the runs wrote."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.resource import lend
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import partitions_of, run_job
from vde_dagster_tests.orchestration.test_news import ASSETS, FILES, events_of
from vde_dagster_tests.orchestration.test_news import evaluations as evaluated
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.dagster


def facts(instance: dg.DagsterInstance) -> dict[str, object]:
    """What the pages show of partitions, checks and environments."""
    shown: dict[str, object] = {}
    for asset in ASSETS:
        for event in events_of(instance, asset):  # the latest event of a partition wins
            rows = event.metadata.get("dagster/partition_row_count")
            version = (event.tags or {}).get("dagster/data_version")
            shown[f"{asset} {event.partition}"] = version, rows and rows.value
    check = evaluated(instance)[-1]
    return {**shown, "check": (check.passed, check.metadata["vde/environment"].value)}


def test_deleted_runs_leave_the_facts_of_partitions_behind(
    tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root) as workspace, lend(workspace):
        config = {"environment": "prod"}
        run_job(folder, instance, "vde_plan_and_apply", config, op="plan_and_apply")
        restate = {**config, "restate": ["db.daily"]}
        run_job(folder, instance, "vde_plan_and_apply", restate, op="plan_and_apply")
        before, runs = facts(instance), {run.run_id for run in instance.get_runs()}
        events = len(events_of(instance, "db/daily"))

        for keep, is_dry, left in ((None, False, 2), (1, False, 3), (0, True, 4)):
            options = {"dry_run": is_dry, "keep_runs_days": keep}
            run_job(folder, instance, "vde_janitor", options, op="janitor")
            assert runs <= {run.run_id for run in instance.get_runs()}, f"{keep}: {left}"

        options = {"dry_run": False, "keep_runs_days": 0}
        done = run_job(folder, instance, "vde_janitor", options, op="janitor")
        (shown,) = (
            event.step_output_data.metadata["vde/old_runs"].value
            for event in done.all_events
            if event.is_successful_output
        )
    assert shown == 5
    assert [run.run_id for run in instance.get_runs()] == [done.run_id]
    plans = set(instance.get_dynamic_partitions(str(SHORT.plans.name)))
    assert plans == partitions_of(instance, "vde/plan") == partitions_of(instance, "vde/apply")
    after = facts(instance)
    assert after == {key: found for key, found in before.items() if key in after}
    assert {key.split()[0] for key in before.keys() - after.keys()} == {"vde/plan", "vde/apply"}
    assert len(events_of(instance, "db/daily")) == len(partitions_of(instance, "db/daily")) < events
    assert set(instance.get_dynamic_partitions(str(SHORT.environments.name))) == {"prod"}


def test_runs_of_others_are_kept(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    @dg.op
    def nothing() -> None: ...

    @dg.job
    def somebodys() -> None:
        nothing()

    other = somebodys.execute_in_process(instance=instance).run_id
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root) as workspace, lend(workspace):
        workspace.apply(workspace.plan("prod"))
        options = {"dry_run": False, "keep_runs_days": 0}
        run_job(folder, instance, "vde_janitor", options, op="janitor")
    assert other in {run.run_id for run in instance.get_runs()}
