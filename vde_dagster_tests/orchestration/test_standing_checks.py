"""Status of checks: it belongs to the published model, whatever else runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.conftest import run_job, version_of
from vde_dagster_tests.orchestration.graphql import open_location
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.dagster

DAILY = dg.AssetKey(["db", "daily"])
CHECK = dg.AssetCheckKey(DAILY, "not_null_columns_n")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03', audits (not_null(columns := (n))));
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "models/last.sql": "MODEL (name db.last, kind FULL); SELECT max(n) AS n FROM db.daily",
}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    return ProjectFolder(tmp_path_factory.mktemp("checks") / "project", FILES)


@pytest.fixture
def outside(folder: ProjectFolder) -> Iterator[Workspace]:
    """The project as the command line has it open."""
    workspace = open_fake(folder.root, FakeSpark())
    yield workspace
    workspace.close()


def shown_by(instance: dg.DagsterInstance) -> tuple[str, str]:
    """Return the status and the version that the check's page shows."""
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([CHECK])[CHECK]
    if not isinstance(latest.evaluation, dg.AssetCheckEvaluation):
        return latest.status.value, ""
    return latest.status.value, str(latest.evaluation.metadata["vde/version"].value)


def broken(*_: object) -> None:
    raise UsageError("a parent has no data")


def fill(
    folder: ProjectFolder, instance: dg.DagsterInstance, version: str
) -> dg.ExecuteInProcessResult:
    """Fill partitions of a version from the asset's page."""
    job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
    ends = {
        "dagster/asset_partition_range_start": f"{version}|2024-01-01",
        "dagster/asset_partition_range_end": f"{version}|2024-01-03",
    }
    return job.execute_in_process(
        instance=instance,
        asset_selection=[DAILY],
        tags=ends,
        run_config=QUIET,
        raise_on_error=False,
    )


def test_work_on_a_version_of_dev_keeps_the_status_of_productions_checks_on_every_path(
    folder: ProjectFolder,
    outside: Workspace,
    synchronous: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = synchronous
    outside.apply(outside.plan("prod"))
    published = version_of(folder, "db.daily")
    folder.edit("models/daily.sql", "1 AS n", "2 AS n")
    outside.reload()
    outside.apply(outside.plan("dev"))
    sync(outside, instance)
    expected = ("SUCCEEDED", published)
    assert shown_by(instance) == expected
    version = version_of(folder, "db.daily")
    assert version != published

    assert fill(folder, instance, version).success
    assert shown_by(instance) == expected, "asset page"
    with monkeypatch.context() as patched:
        patched.setattr("vde_dagster.orchestration.assets.model_assets._check_parents", broken)
        assert not fill(folder, instance, version).success
    assert shown_by(instance) == expected, "a fill that failed"
    with open_location(folder.root, instance, monkeypatch) as location:
        location.run_backfill({"db/daily": [f"{version}|2024-01-01", f"{version}|2024-01-02"]})
    assert shown_by(instance) == expected, "backfill"
    for job, op in (("vde_plan_and_apply", "plan_and_apply"), ("vde_run", "run")):
        run_job(folder, instance, job, {"environment": "dev"}, op=op)
        assert shown_by(instance) == expected, job
    restate = {"environment": "dev", "restate": ["db.daily"]}
    run_job(folder, instance, "vde_plan_and_apply", restate, op="plan_and_apply")
    assert shown_by(instance) == expected, "restatement"
    sync(outside, instance)
    assert shown_by(instance) == expected, "sync"

    folder.edit("models/daily.sql", "2 AS n", "3 AS n")
    outside.reload()
    proposed = outside.plan("dev", author="anna")
    Reporter(outside, instance).add_plan(proposed.id)
    run_job(folder, instance, "vde_apply_job", partition=proposed.id)
    assert shown_by(instance) == expected, "approval"
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    cursor = forward_outbox(folder.root, instance, None, looks, log)
    outside.apply(outside.plan("dev", restate=["db.daily"]))
    assert isinstance(forward_outbox(folder.root, instance, str(cursor), looks, log), str)
    assert shown_by(instance) == expected, "the sensor, after the command line's work"


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
def test_a_check_of_a_run_that_ended_before_its_step_gets_its_status_back(
    folder: ProjectFolder,
    outside: Workspace,
    instance: dg.DagsterInstance,
    status: dg.DagsterRunStatus,
) -> None:
    outside.apply(outside.plan("prod"))
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    cursor = forward_outbox(folder.root, instance, None, looks, log)
    assert isinstance(cursor, str)
    job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job.get_subset(asset_selection={DAILY}), status=dg.DagsterRunStatus.STARTED
    )
    assert shown_by(instance) == ("PLANNED", "")
    forward_outbox(folder.root, instance, cursor, looks, log)
    assert shown_by(instance) == ("PLANNED", ""), "the run may still evaluate it"
    if status is dg.DagsterRunStatus.FAILURE:
        instance.report_run_failed(run)
    else:
        instance.report_run_canceled(run)
    read: list[str] = []
    all_logs = instance.all_logs

    def counted(run_id: str, **options: Any) -> Any:
        read.append(run_id)
        return all_logs(run_id, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(instance, "all_logs", counted)
        forward_outbox(folder.root, instance, cursor, looks, log)
        assert shown_by(instance) == ("SUCCEEDED", version_of(folder, "db.daily"))
        forward_outbox(folder.root, instance, cursor, looks, log)
    assert read == [run.run_id], "each ended run is read once"


def test_an_audit_of_productions_restatement_is_recorded_in_production(
    folder: ProjectFolder, outside: Workspace, instance: dg.DagsterInstance
) -> None:
    outside.apply(outside.plan("dev"))
    outside.apply(outside.plan("prod"))
    again = outside.plan("prod", PlanOptions(restate=("db.daily",)))
    outside.apply(again)
    sync(outside, instance)
    history = instance.event_log_storage.get_asset_check_execution_history(CHECK, limit=9)
    (evaluation,) = [record.evaluation for record in history]
    assert isinstance(evaluation, dg.AssetCheckEvaluation)
    assert evaluation.metadata["vde/plan"].value == again.id
    assert evaluation.metadata["vde/environment"].value == "prod"
