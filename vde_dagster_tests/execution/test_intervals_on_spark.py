"""Intervals that stand on each other, filled on Spark: unaligned crons, and own earlier rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]

MODELS = {
    "models/hours.sql": """
        MODEL (name m.hours, start '2024-01-30', cron '@hourly',
          kind INCREMENTAL_BY_TIME_RANGE (time_column at));
        SELECT EXPLODE(SEQUENCE(CAST(@start_ts AS TIMESTAMP), CAST(@end_ts AS TIMESTAMP),
          INTERVAL 1 HOUR)) AS at, CAST(1 AS BIGINT) AS amount
    """,
    "models/days.sql": """
        MODEL (name m.days, start '2024-01-30', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT DATE(at) AS day, SUM(amount) AS amount FROM m.hours
        WHERE at BETWEEN @start_ts AND @end_ts GROUP BY DATE(at)
    """,
    "models/months.sql": """
        MODEL (name m.months, start '2024-01-01', cron '@monthly',
          kind INCREMENTAL_BY_TIME_RANGE (time_column month));
        SELECT TRUNC(day, 'MM') AS month, SUM(amount) AS amount FROM m.days
        WHERE day BETWEEN @start_date AND @end_date GROUP BY TRUNC(day, 'MM')
    """,
    "models/running.sql": """
        MODEL (name m.running, start '2024-01-30', columns (day DATE, total BIGINT),
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT d.day, d.amount + COALESCE(r.total, 0) AS total FROM m.days AS d
        LEFT JOIN m.running AS r ON r.day = d.day - INTERVAL 1 DAY
        WHERE d.day BETWEEN @start_date AND @end_date
    """,
}


@pytest.fixture
def clocks(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "clocks", MODELS)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def rows(workspace: Workspace, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(map(str, row)) for row in workspace.query("prod", sql).rows]


def test_hours_days_and_months_fill_each_other_and_a_running_total_sees_its_own_rows(
    clocks: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(clocks)
    seen: list[Event] = []
    plan = workspace.plan("prod", now=at("2024-02-02T05:30"))
    workspace.apply(plan, on_event=seen.append)
    order = [
        str(event.interval.start.date())
        for event in seen
        if isinstance(event, IntervalFilled) and event.snapshot.name.name == "running"
    ]
    assert order == ["2024-01-30", "2024-01-31", "2024-02-01"]
    assert rows(workspace, "SELECT COUNT(*) FROM m.hours") == [("77",)]
    assert rows(workspace, "SELECT * FROM m.days ORDER BY day") == [
        ("2024-01-30", "24"),
        ("2024-01-31", "24"),
        ("2024-02-01", "24"),
    ]
    assert rows(workspace, "SELECT * FROM m.months") == [("2024-01-01", "48")]
    assert rows(workspace, "SELECT * FROM m.running ORDER BY day") == [
        ("2024-01-30", "24"),
        ("2024-01-31", "48"),
        ("2024-02-01", "72"),
    ]
    # A run's rows wait on a branch for the publication: the next day reads those of the one before.
    workspace.apply(workspace.plans.due("prod", now=at("2024-02-04T00:00")))
    assert rows(workspace, "SELECT total FROM m.running WHERE day > '2024-02-01' ORDER BY day") == [
        ("96",),
        ("120",),
    ]


def test_an_empty_backfill_makes_tables_without_rows_that_no_run_fills(
    clocks: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(clocks)
    now = at("2024-02-02T05:30")
    plan = workspace.plan("prod", now=now, empty_backfill=True)
    assert all(model.records_only for model in plan.builds)
    workspace.apply(workspace.store.plans.load(plan.id))
    for name in ("hours", "days", "months", "running"):
        assert rows(workspace, f"SELECT * FROM m.{name}") == []
    assert workspace.plans.due("prod", now=now).is_empty
    run = workspace.plans.due("prod", now=at("2024-02-03T00:00"))
    workspace.apply(run)
    assert rows(workspace, "SELECT * FROM m.running") == [("2024-02-02", "19")]


PARTS = "cron '@hourly', interval_unit day, allow_partials true, start '2024-01-01'"
COUNTED = """
    SELECT CAST(at AS DATE) AS day, CAST(date_trunc('DAY', at) AS TIMESTAMP) AS since,
      CAST(COUNT(*) AS BIGINT) AS n
    FROM raw.hours WHERE at BETWEEN @start_ts AND @end_ts GROUP BY ALL
"""
IN_PARTS = {
    "instants": f"{PARTS}, kind INCREMENTAL_BY_TIME_RANGE (time_column since)",
    "dates": f"{PARTS}, kind INCREMENTAL_BY_TIME_RANGE (time_column day)",
    "looks_back": f"{PARTS}, kind INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 1)",
    "keys": f"{PARTS}, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key day)",
    "parts": f"{PARTS}, kind INCREMENTAL_BY_PARTITION, partitioned_by (day)",
}


def test_days_that_are_filled_in_parts_have_all_their_hours_and_so_have_their_children(
    tmp_path: Path, open_workspace: Open
) -> None:
    """Each run once left the rows of the last hours alone: 10 and 12 where 24 is right."""
    hours = [at("2024-01-01") + timedelta(hours=number) for number in range(96)]
    folder = ProjectFolder(
        tmp_path / "parts",
        {
            "seeds/hours.csv": "\n".join(["at", *(f"{hour:%Y-%m-%d %H:%M:%S}" for hour in hours)]),
            "models/hours.sql": """
                MODEL (name raw.hours, kind SEED (path '../seeds/hours.csv'),
                  columns (at TIMESTAMP));
            """,
        },
    )
    for name, header in IN_PARTS.items():
        child = f"SELECT day, since, n FROM m.{name} WHERE since BETWEEN @start_ts AND @end_ts"
        folder.write(f"models/{name}.sql", f"MODEL (name m.{name}, {header});{COUNTED}")
        folder.write(f"models/of_{name}.sql", f"MODEL (name m.of_{name}, {header});\n{child}")
    workspace = open_workspace(folder)
    workspace.apply(workspace.plan("prod", now=at("2024-01-02T10:30")))
    expected = {10: [24, 10], 12: [24, 12], 24: [24, 24]}
    for hour, counts in expected.items():
        if hour != 10:
            now = at("2024-01-02") + timedelta(hours=hour, minutes=30)
            workspace.apply(workspace.plans.due("prod", now=now))
        for name in IN_PARTS:
            for model in (name, f"of_{name}"):
                found = rows(workspace, f"SELECT n FROM m.{model} ORDER BY day")
                assert found == [(str(count),) for count in counts], (model, hour)
