"""What a plan without a change leaves undone, without Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.execution.plans.due_work import pending_work
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

NOW = datetime(2024, 1, 5, 1, tzinfo=timezone.utc)
FILES = {
    "models/raw.sql": """
        MODEL (name db.raw, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(@start_ds AS STRING) AS day, 1 AS n
    """,
    "models/daily.sql": """
        MODEL (name db.daily, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT day, n + 1 AS n FROM db.raw WHERE day BETWEEN @start_ds AND @end_ds
    """,
    "models/once.sql": "MODEL (name db.once, kind FULL, cron '@yearly'); SELECT 'a' AS a",
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def workspace(tmp_path: Path, clock: FakeClock) -> Workspace:
    return open_fake(ProjectFolder(tmp_path / "shop", FILES).root, clock=clock)


def test_what_is_up_to_date_misses_nothing(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod"))
    plan = workspace.plan("prod")
    assert plan.is_empty
    assert not pending_work(workspace, plan)


def test_what_fell_due_is_counted_with_the_command_that_computes_it(
    workspace: Workspace, clock: FakeClock
) -> None:
    workspace.apply(workspace.plan("prod"))
    clock.advance(days=2)
    plan = workspace.plan("prod")
    assert plan.is_empty
    missing = pending_work(workspace, plan)
    assert missing.sentence() == (
        "missing or due: 2 models with 4 intervals, computed by: vde run prod"
    )
    days = [{"start": "2024-01-05T00:00:00Z", "end": "2024-01-07T00:00:00Z"}]
    assert missing.to_json() == {
        "models": {"db.raw": days, "db.daily": days},
        "commands": ["vde run prod"],
    }
    due = workspace.plans.due("prod", save=False)
    assert {model.name: model.intervals for model in due.builds} == missing.by_environment["prod"]

    workspace.apply(workspace.plans.due("prod"))
    assert not pending_work(workspace, workspace.plan("prod"))


def test_what_was_published_without_computing_is_missing(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod", skip_backfill=True))
    missing = pending_work(workspace, workspace.plan("prod"))
    assert missing.sentence() == (
        "missing or due: 3 models with 9 intervals, computed by: vde run prod"
    )


def test_tables_that_production_shows_are_productions_to_fill(
    workspace: Workspace, clock: FakeClock
) -> None:
    workspace.apply(workspace.plan("prod"))
    workspace.apply(workspace.plan("dev"))
    clock.advance(days=1)
    for plan in (workspace.plan("dev"), workspace.plans.due("dev", save=False)):
        assert plan.is_empty
        assert pending_work(workspace, plan).sentence() == (
            "missing or due: 2 models with 2 intervals, computed by: vde run prod"
        )
