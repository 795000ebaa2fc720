"""Restatement on Spark: tables equal those that are computed from scratch, whatever is killed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

NOW = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)
FILES = {
    "external_models.yaml": """
        - name: lake.events
          columns: {at: timestamp, customer: int, amount: int}
    """,
    "models/hourly.sql": """
        MODEL (name m.hourly, cron '@hourly', start '2024-01-30',
          kind INCREMENTAL_BY_TIME_RANGE (time_column hour));
        SELECT date_trunc('HOUR', at) AS hour, customer, sum(amount) AS amount FROM lake.events
        WHERE at BETWEEN @start_ts AND @end_ts GROUP BY date_trunc('HOUR', at), customer
    """,
    "models/daily.sql": """
        MODEL (name m.daily, start '2024-01-30',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(hour AS DATE) AS day, sum(amount) AS amount FROM m.hourly
        WHERE hour BETWEEN @start_ts AND @end_ts GROUP BY CAST(hour AS DATE)
    """,
    "models/monthly.sql": """
        MODEL (name m.monthly, cron '@monthly', start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column month));
        SELECT CAST(trunc(day, 'MM') AS DATE) AS month, sum(amount) AS amount FROM m.daily
        WHERE day BETWEEN @start_date AND @end_date GROUP BY trunc(day, 'MM')
    """,
    "models/newest.sql": """
        MODEL (name m.newest, start '2024-01-30',
          kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer, batch_size 1));
        SELECT customer, max(hour) AS seen FROM m.hourly
        WHERE hour BETWEEN @start_ts AND @end_ts GROUP BY customer
    """,
    "models/best.sql": "MODEL (name m.best, kind FULL); SELECT max(amount) AS most FROM m.daily",
}
MODELS = ("hourly", "daily", "monthly", "newest", "best")
EVENTS = """
    (TIMESTAMP '2024-01-30 10:00:00', 1, 5), (TIMESTAMP '2024-01-31 22:30:00', 2, 7),
    (TIMESTAMP '2024-01-31 23:10:00', 1, 1), (TIMESTAMP '2024-02-01 08:00:00', 3, 4),
    (TIMESTAMP '2024-02-02 09:00:00', 1, 9)
"""


@pytest.fixture
def workspace(tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]) -> Workspace:
    """Production, and a development with another daily model; then an event was wrong."""
    folder = ProjectFolder(tmp_path / "project", FILES)
    opened = open_workspace(folder)
    session = spark(opened).guest_session
    session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.lake")
    session.sql("CREATE TABLE lakehouse.lake.events (at TIMESTAMP, customer INT, amount INT)")
    session.sql(f"INSERT INTO lakehouse.lake.events VALUES {EVENTS}")
    opened.apply(opened.plan("prod", now=NOW))
    folder.edit("models/daily.sql", "sum(amount)", "2 * sum(amount)")
    dev = open_workspace(folder)
    dev.apply(dev.plan("dev", now=NOW))
    session.sql("DELETE FROM lakehouse.lake.events WHERE customer = 2")
    session.sql("INSERT INTO lakehouse.lake.events VALUES (TIMESTAMP '2024-01-31 22:45:00', 4, 11)")
    return dev


def spark(workspace: Workspace) -> SparkEngine:
    engine = workspace.engine()
    assert isinstance(engine, SparkEngine)
    return engine


def rows(workspace: Workspace, environment: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        model: sorted(workspace.query(environment, f"SELECT * FROM m.{model}").rows)
        for model in MODELS
    }


def restatement(workspace: Workspace) -> Plan:
    """An hour and a day of the hourly model: the hour in which the wrong event was."""
    return workspace.plan(
        "prod",
        restate=["m.hourly"],
        start=datetime(2024, 1, 31, 22, tzinfo=timezone.utc),
        end=datetime(2024, 1, 31, 23, tzinfo=timezone.utc),
        now=NOW,
    )


def from_scratch(workspace: Workspace) -> dict[str, list[Any]]:
    """What production's models make of today's events in tables that were never restated."""
    for path, text in FILES.items():
        anew = text.replace("MODEL (", "MODEL (stamp 'anew', ")
        (workspace.root / path).write_text(textwrap.dedent(anew))
    with Workspace.open(workspace.root, engine=workspace.engine()) as fresh:
        plan = fresh.plan("fresh", now=NOW)
        assert len(plan.builds) == len(MODELS)
        fresh.apply(plan)
        return rows(fresh, "fresh")


def test_a_restatement_that_dies_half_way_shows_nothing_and_ends_as_if_computed_from_scratch(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, before_dev = rows(workspace, "prod"), rows(workspace, "dev")
    plan = restatement(workspace)
    assert {str(m.name): len(m.intervals) for m in plan.builds} == {
        f"m.{name}": 1 for name in MODELS
    }
    engine = spark(workspace)
    fill = engine.fill

    def dying(task: FillTask) -> FillResult:
        if task.snapshot.name == ModelName("m", "newest") and task.interval.start.day == 1:
            raise ExecutionError("killed")
        return fill(task)

    with monkeypatch.context() as patched:
        patched.setattr(engine, "fill", dying)
        with pytest.raises(ExecutionError):
            workspace.apply(plan)
    assert rows(workspace, "prod") == before
    assert workspace.apply(workspace.store.plans.load(plan.id)).published
    after = rows(workspace, "prod")
    assert after["daily"] != before["daily"]
    assert after["monthly"] == [(datetime(2024, 1, 1).date(), 17)]
    assert [customer for customer, _ in after["newest"]] == [1, 3, 4]
    # Development shares the hourly table, and misses what it made of the hour.
    seen = rows(workspace, "dev")
    assert seen["hourly"] == after["hourly"]
    assert seen["daily"] == before_dev["daily"]
    assert workspace.apply(workspace.plans.due("dev", now=NOW)).published
    assert workspace.plans.due("dev", now=NOW).is_empty
    dev = rows(workspace, "dev")
    assert after == from_scratch(workspace)
    assert [amount for _, amount in dev["daily"]] == [2 * amount for _, amount in after["daily"]]
    assert dev["monthly"] == [(datetime(2024, 1, 1).date(), 34)]
