"""Facts of partitions: on every path, each partition's event describes the partition alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus

from vde_dagster.base.times import parse_instant
from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.orchestration.conftest import run_job, version_of
from vde_dagster_tests.orchestration.graphql import open_location
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark_engine"),
    pytest.mark.turns(12, "plays and tours"),
]

DAILY = dg.AssetKey(["marts", "daily"])
RUNNING = dg.AssetKey(["marts", "running"])
CUSTOMERS = dg.AssetKey(["marts", "customers"])


def launch(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    assets: list[dg.AssetKey],
    first: str,
    last: str,
    *,
    only_missing: bool = False,
) -> dg.ExecuteInProcessResult:
    """Launch one run over a range of partitions, as an asset's page and the daemon do."""
    ops = {"__".join(key.path): {"config": {"only_missing": only_missing}} for key in assets}
    job = vde_definitions(folder.root).resolve_implicit_global_asset_job_def()
    ends = {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last,
    }
    return job.execute_in_process(
        instance=instance,
        asset_selection=assets,
        tags=ends,
        run_config={**QUIET, "ops": ops},
    )


def new_events(
    instance: dg.DagsterInstance, asset: dg.AssetKey, after: int
) -> list[dg.AssetMaterialization]:
    """Return an asset's materializations after a record of the event log, oldest first."""
    records = instance.fetch_materializations(asset, limit=99).records
    found = [one.asset_materialization for one in reversed(records) if one.storage_id > after]
    return [event for event in found if event is not None]


def rows_of_day(root: Path, table: str, commit: int, day: str) -> int:
    """Count the rows of a day that PyIceberg reads in a table of prod as of a commit."""
    with Workspace.open(root) as workspace:
        prod = workspace.store.environments.get("prod")
        assert prod is not None
        tables = workspace.store.tables.load(sorted(prod.tables)).values()
        (ref,) = (one.ref for one in tables if str(one.ref) == table)
        rows = workspace.lakehouse.load_table(ref).scan(snapshot_id=commit).to_arrow()
    (column,) = (name for name in rows.column_names if name.startswith("day"))
    return sum(str(value) == day for value in rows[column].to_pylist())


def assert_own_facts(
    folder: ProjectFolder, events: list[dg.AssetMaterialization], days: list[str]
) -> None:
    """Compare the event of each day with the partition, and with what PyIceberg reads."""
    version = version_of(folder, "marts.daily")
    assert [event.partition for event in events] == [f"{version}|{day}" for day in days]
    for event in events:
        day = str(event.partition).partition("|")[2]
        facts = {name: value.value for name, value in event.metadata.items()}
        assert str(facts["vde/interval"]).startswith(f"{day}T00:00:00"), day
        commit = int(str(facts["vde/iceberg_snapshot_id"]))
        assert (event.tags or {})["dagster/data_version"] == f"{version}@{commit}"
        assert (event.tags or {})["dagster/partition/time"] == day
        own = rows_of_day(folder.root, str(facts["vde/table"]), commit, day)
        assert facts["dagster/partition_row_count"] == own, day
        assert facts["vde/environments"] == "prod"
        assert str(facts["vde/plan"]).startswith("prod-")
        assert facts["vde/version"] == version
        shown = str(facts.get("vde/preview", day))
        assert day in shown
        assert all(other not in shown for other in {*days} - {day}), day
    by_plan = {str(event.metadata["vde/plan"].value): event for event in events}
    for event in events:
        newest = by_plan[str(event.metadata["vde/plan"].value)] is event
        if not newest:
            assert "vde/preview" not in event.metadata, event.partition
    assert any("vde/fill_seconds" in event.metadata for event in events)


def test_each_partition_gets_its_own_facts_on_every_path(
    built: ProjectFolder, synchronous: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = synchronous
    days = [f"2024-01-0{day}" for day in range(1, 6)]

    def ran(days: list[str], work: Callable[[], object]) -> None:
        after = instance.event_log_storage.get_maximum_record_id() or 0
        work()
        assert_own_facts(built, new_events(instance, DAILY, after), days)

    def apply_first_days() -> None:
        with Workspace.open(built.root) as workspace:
            options = PlanOptions(end=parse_instant("2024-01-03"))
            workspace.apply(workspace.plan("prod", options))
            sync(workspace, instance)

    ran(days[:2], apply_first_days)
    ran(days[2:], lambda: run_job(built, instance, "vde_run", {"full": True}, op="run"))

    version = version_of(built, "marts.daily")
    keys = [f"{version}|{day}" for day in days]
    ran(days[1:4], lambda: launch(built, instance, [DAILY], keys[1], keys[3]))
    others = [f"{version_of(built, 'marts.running')}|{day}" for day in days]
    chosen = {"marts/daily": keys[2:4], "marts/running": others[2:4]}

    def backfill() -> None:
        with open_location(built.root, instance, monkeypatch) as location:
            assert location.run_backfill(chosen) is BulkActionStatus.COMPLETED_SUCCESS

    ran(days[2:4], backfill)
    ran(days, lambda: launch(built, instance, [DAILY], keys[0], keys[4], only_missing=True))

    restate = {"environment": "prod", "restate": ["marts.daily"], "start": days[1], "end": days[3]}
    ran(
        days[1:4],
        lambda: run_job(built, instance, "vde_plan_and_apply", restate, op="plan_and_apply"),
    )

    def restate_outside() -> None:
        with Workspace.open(built.root) as workspace:
            start, end = parse_instant("2024-01-04"), parse_instant("2024-01-06")
            options = PlanOptions(start=start, end=end, restate=("marts.daily",))
            workspace.apply(workspace.plan("prod", options))
            sync(workspace, instance)

    ran(days[3:], restate_outside)

    looks, log = VdeTranslator(built.root), logging.getLogger("vde")
    cursor = forward_outbox(built.root, instance, None, looks, log)

    def restate_and_tick() -> None:
        with Workspace.open(built.root) as workspace:
            start, end = parse_instant("2024-01-01"), parse_instant("2024-01-04")
            options = PlanOptions(start=start, end=end, restate=("marts.daily",))
            workspace.apply(workspace.plan("prod", options))
        assert isinstance(forward_outbox(built.root, instance, str(cursor), looks, log), str)

    ran(days[:3], restate_and_tick)

    def approve() -> None:
        built.edit("models/marts/daily.sql", "count(*) AS orders", "count(*) + 1 AS orders")
        with Workspace.open(built.root) as workspace:
            plan = workspace.plan("prod", author="anna")
            Reporter(workspace, instance).add_plan(plan.id)
        run_job(built, instance, "vde_apply_job", partition=plan.id)

    ran(days, approve)
