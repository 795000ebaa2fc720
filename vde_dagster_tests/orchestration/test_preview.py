"""A fill's page shows its newest rows, as the views name their columns."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.applying import watch_events
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.conftest import apply_all, version_of
from vde_dagster_tests.orchestration.test_fill import materialize
from vde_dagster_tests.projects import ProjectFolder


def previews(instance: dg.DagsterInstance, asset: str) -> list[tuple[str, str]]:
    """Return partition (its last part) and rows of every event that shows some, oldest first."""
    records = instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=99).records
    found = []
    for record in reversed(records):
        event = record.asset_materialization
        assert event is not None
        value = event.metadata.get("vde/preview")
        if value is not None:
            assert isinstance(value, dg.MarkdownMetadataValue)
            found.append((str(event.partition).split("|")[-1], str(value.md_str)))
    return found


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_the_newest_partition_of_a_fill_shows_its_rows(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_all(built, instance)
    assert previews(instance, "marts/daily") == [
        (
            "2024-01-05",
            "| day | orders | revenue |\n|---|---|---|\n| 2024-01-05 | 1 | 1.0 |",
        )
    ]
    ((partition, rows),) = previews(instance, "marts/top")
    assert partition == version_of(built, "marts.top")
    assert rows.count("\n") >= 2

    # A view's rows are computed by the engine that has just computed others.
    ((partition, rows),) = previews(instance, "staging/orders")
    assert partition == version_of(built, "staging.orders")
    assert rows.startswith("| id | customer | amount | day |")
    assert rows.count("\n") == 5, "four orders were not cancelled"

    version = version_of(built, "marts.daily")
    assert materialize(built, instance, "marts/daily", f"{version}|2024-01-03").success
    (day, rows) = previews(instance, "marts/daily")[-1]
    assert day == "2024-01-03"
    assert "| 2024-01-03 |" in rows
    assert "2024-01-05" not in rows


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_a_project_can_keep_its_rows_out_of_dagster(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    built.write("pyproject.toml", "[tool.vde.dagster]\npreview_rows = 0\n")
    apply_all(built, instance)
    assert previews(instance, "marts/daily") == previews(instance, "marts/top") == []
    assert previews(instance, "staging/orders") == []


def test_a_view_shows_rows_if_its_publication_is_recorded_before_an_earlier_event_is_handled(
    built: ProjectFolder, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_publication(event: Event) -> None:
        # The thread that writes Dagster's events may be far behind the work.
        if isinstance(event, IntervalFilled):
            with Workspace.open(built.root) as workspace:
                deadline = time.monotonic() + 60
                while workspace.store.environments.get("prod") is None:
                    assert time.monotonic() < deadline, "the plan is not published"
                    time.sleep(0.01)

    monkeypatch.setattr(FakeSpark, "query", lambda *_: ((("id", "bigint"),), ((7,),)))
    with watch_events(wait_for_publication):
        apply_all(built, instance)
    assert previews(instance, "staging/orders") == [
        (version_of(built, "staging.orders"), "| id |\n|---|\n| 7 |")
    ]


def test_rows_that_cannot_be_read_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {"models/a.sql": "MODEL (name db.a, kind FULL); SELECT 1 AS n"}
    with open_fake(ProjectFolder(tmp_path / "project", files).root) as workspace:
        plan = workspace.apply(workspace.plan("prod")).plan
        (model,) = plan.models
        assert model.table is not None
        assert model.snapshot_id is not None
        table = workspace.store.tables.load([model.table.id])[model.table.id]
        snapshot = plan.snapshots[model.snapshot_id]
        with caplog.at_level(logging.WARNING):
            log, day = logging.getLogger("vde"), Interval.parse("2024-01-01/2024-01-02")
            assert preview(workspace, log, snapshot, table, 17, day) == {}
    assert "db.a: no rows to show" in caplog.text
