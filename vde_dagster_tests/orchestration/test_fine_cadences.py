"""Models of millions of intervals: shown by coarser units, planned and shown as fast as others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.assets.model_assets import model_specs
from vde_dagster.orchestration.events.records import run_origin
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models import catalog as partitions
from vde_dagster.orchestration.models.catalog import build_catalog
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.pages.plan_page import plan_metadata
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster_tests.counted_lines import counted_lines
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import apply_all, partitions_of, run_job
from vde_dagster_tests.orchestration.test_news import events_of, must, tick
from vde_dagster_tests.projects import ProjectFolder

HOURLY = """
    MODEL (name db.hourly, start '2024-01-01', end '2024-01-02T12:00:00', cron '@hourly',
      kind INCREMENTAL_BY_TIME_RANGE (time_column at, batch_size 6));
    SELECT CAST('2024-01-01' AS TIMESTAMP) AS at, 1 AS n
"""
OFTEN = """
    MODEL (name db.often, start '{start}', cron '*/5 * * * *',
      kind INCREMENTAL_BY_TIME_RANGE (time_column at), columns (at TIMESTAMP, n INT));
    SELECT at, n FROM db.source WHERE at BETWEEN @start_ts AND @end_ts
"""
SOURCE = """
    MODEL (name db.source, kind VIEW, columns (at TIMESTAMP, n INT));
    SELECT TIMESTAMP '2024-01-01' AS at, 1 AS n
"""
NAME = ModelName("db", "often")
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def by_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """An hourly model that is shown by days."""
    monkeypatch.setattr(partitions, "MAX_TIMES", 30)
    return ProjectFolder(tmp_path / "project", {"models/hourly.sql": HOURLY})


def apply_until(folder: ProjectFolder, instance: dg.DagsterInstance, end: str) -> None:
    config: dict[str, object] = {"environment": "prod", "end": end}
    run_job(folder, instance, "vde_plan_and_apply", config, op="plan_and_apply")


def days_of(instance: dg.DagsterInstance) -> list[str]:
    return [str(event.partition).split("|")[1] for event in events_of(instance, "db/hourly")]


def test_a_day_is_filled_when_its_last_hour_is(
    by_day: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_until(by_day, instance, "2024-01-01T10:00:00")
    assert days_of(instance) == []
    apply_until(by_day, instance, "2024-01-01T22:00:00")
    assert days_of(instance) == []
    apply_until(by_day, instance, "2024-01-02T12:00:00")
    # Once, however many batches had a part in it; and not the day of which twelve hours are left.
    assert days_of(instance) == ["2024-01-01"]
    assert len(partitions_of(instance, "db/hourly")) == 1
    (event,) = events_of(instance, "db/hourly")
    assert "dagster/partition_row_count" not in event.metadata  # One batch knows its own rows.
    assert "vde/fill_seconds" in event.metadata


def test_a_day_that_others_filled_is_told_once(
    by_day: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with open_fake(by_day.root) as outside:
        outside.apply(outside.plan("prod", end=datetime(2024, 1, 1, 10, tzinfo=timezone.utc)))
        cursor = must(tick(by_day, instance))
        assert days_of(instance) == []
        outside.apply(outside.plans.due("prod"))
    tick(by_day, instance, cursor)
    assert days_of(instance) == ["2024-01-01"]
    with Workspace.open(by_day.root) as workspace:
        assert sync(workspace, instance).materializations == 0


def test_a_sync_shows_days_that_many_fills_made(
    by_day: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with open_fake(by_day.root) as outside:
        outside.apply(outside.plan("prod"))
        assert sync(outside, instance).materializations == 1
        assert sync(outside, instance).materializations == 0
    assert days_of(instance) == ["2024-01-01"]


@pytest.fixture
def often(tmp_path: Path) -> Iterator[Callable[[str], Workspace]]:
    """Makes warehouses of a model of every five minutes since a start, filled until `NOW`."""
    opened: list[Workspace] = []

    def make(start: str) -> Workspace:
        files = {"models/often.sql": OFTEN.format(start=start), "models/source.sql": SOURCE}
        folder = ProjectFolder(tmp_path / start, files)
        opened.append(open_fake(folder.root))
        opened[-1].apply(opened[-1].plan("prod", now=NOW))
        return opened[-1]

    yield make
    for workspace in opened:
        workspace.close()


def test_five_minutes_since_1970_take_the_steps_of_five_minutes_since_yesterday(
    often: Callable[[str], Workspace],
) -> None:
    """Plans, the state store, pages and the asset's partitions: ranges, never a list of units."""

    def work(workspace: Workspace) -> None:
        options = PlanOptions(now=NOW + timedelta(minutes=30))
        plan = workspace.plans.due("prod", options)
        (often,) = (model for model in plan.builds if model.name == NAME)
        assert often.table is not None
        assert len(often.intervals) == 1
        store = workspace.store
        assert len(store.tables.get(often.table.id).intervals) == 1
        store.fills.record(FillRecord(often.table.id, often.intervals.ranges[0], plan.id))
        assert store.plans.load(plan.id) == plan
        live = load_live(workspace, NOW)
        catalog = build_catalog(live, VdeTranslator(workspace.root), NOW)
        assert NAME in model_specs(catalog)
        assert "plan" in plan_metadata(store, plan)

    old, new = often("1970-01-01"), often("2025-12-31")
    for workspace in (old, new):
        workspace.plans.due("prod", now=NOW, save=False)  # What is done once is done.
        load_live(workspace, NOW)
    steps_old, steps_new = counted_lines(lambda: work(old))[1], counted_lines(lambda: work(new))[1]
    # The older one asks for a coarser unit first, some lines for each: not six million.
    assert steps_old < steps_new + 200


def test_recording_a_fill_among_many_ranges_looks_at_its_neighbours_alone(
    often: Callable[[str], Workspace],
) -> None:
    workspace = often("1970-01-01")
    entry = workspace.store.environments.get("prod").entries[NAME]  # type: ignore[union-attr]
    table = str(entry.table_id)
    store, step = workspace.store, timedelta(minutes=5)
    after = NOW + timedelta(days=1)

    def fill(number: int) -> None:
        start = after + 2 * number * step
        store.fills.record(FillRecord(table, Interval(start, start + step), "p"))

    def machine_steps(number: int) -> int:
        """Count what SQLite's virtual machine does, in tens."""
        count = 0

        def progress() -> int:
            nonlocal count
            count += 1
            return 0

        with store.database.engine.connect() as connection:
            raw: Any = connection.connection.driver_connection
            raw.set_progress_handler(progress, 10)
        try:
            fill(number)
        finally:
            raw.set_progress_handler(None, 10)
        return count

    for number in range(10):
        fill(number)
    few = machine_steps(10)
    for number in range(11, 500):
        fill(number)
    many = machine_steps(500)
    assert few > 0
    assert many <= few * 1.5
    assert len(store.tables.get(table).intervals) == 502


def look(folder: ProjectFolder, instance: dg.DagsterInstance, cursor: str | None) -> str | None:
    """Load the location again, let its sensor look, and return the cursor."""
    sensor = vde_definitions(folder.root).resolve_sensor_def("vde_state_news")
    with dg.build_sensor_context(instance, cursor=cursor) as context:
        result = sensor(context)
    return result.cursor if isinstance(result, dg.SensorResult) else cursor


def missing(folder: ProjectFolder, instance: dg.DagsterInstance, asset: str) -> set[str]:
    """Return the partitions that the asset's page shows as missing."""
    key = dg.AssetKey(asset.split("/"))
    graph = vde_definitions(folder.root).resolve_asset_graph()
    partitions = graph.get(key).partitions_def
    assert partitions is not None
    return {*partitions.get_partition_keys()} - partitions_of(instance, asset)


def test_what_was_filled_stays_filled_when_time_makes_the_unit_coarser(
    tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = HOURLY.replace("2024-01-02T12:00:00", "2024-01-03T00:00:00")
    folder = ProjectFolder(tmp_path / "project", {"models/hourly.sql": edited})
    apply_all(folder, instance)
    cursor = look(folder, instance, None)
    assert missing(folder, instance, "db/hourly") == set()
    before = len(events_of(instance, "db/hourly"))
    monkeypatch.setattr(partitions, "MAX_TIMES", 30)
    monkeypatch.setattr(partitions, "_RECENT", {})
    assert len(missing(folder, instance, "db/hourly")) == 2
    cursor = look(folder, instance, cursor)
    assert missing(folder, instance, "db/hourly") == set()
    look(folder, instance, cursor)
    assert len(events_of(instance, "db/hourly")) == before + 2


@pytest.mark.parametrize("working", [False, True])
def test_what_was_filled_stays_filled_when_a_run_publishes_another_cron(
    tmp_path: Path, instance: dg.DagsterInstance, working: bool
) -> None:
    text = HOURLY.replace("T12:00:00", "").replace("@hourly", "@daily")
    folder = ProjectFolder(tmp_path / "project", {"models/hourly.sql": text})
    apply_all(folder, instance)
    cursor = look(folder, instance, None)
    folder.edit("models/hourly.sql", "@daily", "@hourly")
    apply_all(folder, instance)
    assert len(missing(folder, instance, "db/hourly")) == 48
    if working:  # a run of another plan, whose events may have the earlier unit
        run = dg.DagsterRun(job_name="vde_apply_job", status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        with open_fake(folder.root) as workspace:
            workspace.work_for(run_origin(instance, run.run_id))
            workspace.apply(workspace.plan("dev"))
        look(folder, instance, cursor)
        instance.report_run_failed(run)
    look(folder, instance, cursor)
    assert missing(folder, instance, "db/hourly") == set()
