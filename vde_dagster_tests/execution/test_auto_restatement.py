"""Runs fill again what models ask for, once a tick, until it is done."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

DAILY, HOURLY, WHOLE = ModelName("db", "daily"), ModelName("db", "hourly"), ModelName("db", "whole")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, start '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (
          time_column day, auto_restatement_cron '0 6 * * 0', auto_restatement_intervals 3));
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
    """,
    "models/hourly.sql": """
        MODEL (name db.hourly, start '2024-01-01', cron '@hourly',
          kind INCREMENTAL_BY_TIME_RANGE (time_column at));
        SELECT CAST(day AS TIMESTAMP) AS at, n FROM db.daily
        WHERE day BETWEEN @start_date AND @end_date
    """,
}
SUNDAY = datetime(2024, 1, 14, 6, tzinfo=timezone.utc)


def between(first: int, last: int) -> IntervalSet:
    """Days of January, the last one excluded."""
    day = datetime(2024, 1, 1, tzinfo=timezone.utc)
    return IntervalSet((Interval(day.replace(day=first), day.replace(day=last)),))


class Failing(FakeSpark):
    """An engine that fails to fill models while it is told to."""

    failing: ModelName | None = None

    def fill(self, task: FillTask) -> FillResult:
        """Commit a range, or fail."""
        if task.snapshot.name == self.failing:
            raise ExecutionError("no")
        return super().fill(task)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(SUNDAY - timedelta(hours=1))


@pytest.fixture
def engine() -> Failing:
    return Failing()


@pytest.fixture
def workspace(tmp_path: Path, clock: FakeClock, engine: Failing) -> Iterator[Workspace]:
    """Production, filled an hour before the tick."""
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root, engine, clock=clock) as opened:
        opened.apply(opened.plan("prod"))
        yield opened


def builds(plan: Plan) -> dict[ModelName, IntervalSet]:
    return {model.name: model.intervals for model in plan.builds}


def test_the_last_intervals_are_filled_again_once_a_tick_and_descendants_follow(
    workspace: Workspace, clock: FakeClock
) -> None:
    assert workspace.plans.due("prod").is_empty
    clock.advance(hours=1, minutes=5)
    run = workspace.plans.due("prod")
    assert builds(run) == {DAILY: between(11, 14), HOURLY: between(11, 14)}
    assert [model.restate for model in run.builds] == [True, True]
    assert workspace.apply(run).published
    assert workspace.plans.due("prod").is_empty
    clock.advance(days=1)
    run = workspace.plans.due("prod")
    assert builds(run) == {DAILY: between(14, 15), HOURLY: between(14, 15)}
    assert not any(model.restate for model in run.builds)


def test_what_failed_waits_for_the_next_run_whatever_ticks_meanwhile(
    workspace: Workspace, clock: FakeClock, engine: Failing
) -> None:
    clock.advance(hours=2)
    engine.failing = HOURLY
    with pytest.raises(ExecutionError):
        workspace.apply(workspace.plans.due("prod"))
    engine.failing = None
    clock.advance(days=7)
    prod = workspace.store.environments.get("prod")
    assert prod is not None
    assert workspace.apply(
        workspace.plans.backfill(prod.entries[DAILY].snapshot_id, between(14, 20))
    ).published
    run = workspace.plans.due("prod")
    # What the first tick asked for, what is new, and what the second tick asks for: the new one
    # was filled after it.
    assert builds(run)[DAILY] == between(11, 14) | between(20, 21)
    assert workspace.apply(run).published
    assert workspace.plans.due("prod").is_empty


def test_a_plan_that_only_looks_remembers_nothing(workspace: Workspace, clock: FakeClock) -> None:
    clock.advance(hours=2)
    seen = workspace.plans.due("prod", save=False)
    assert builds(seen)[DAILY] == between(11, 14)
    (table_id,) = {m.table.id for m in seen.models if m.table and m.name == DAILY}
    assert workspace.store.outdated.latest_time(table_id) is None


def test_what_was_filled_since_the_tick_is_not_filled_again(
    workspace: Workspace, clock: FakeClock
) -> None:
    clock.advance(hours=2)
    plan = workspace.plan("prod", restate=["db.daily"], start=SUNDAY - timedelta(days=2))
    assert workspace.apply(plan).published
    assert builds(workspace.plans.due("prod"))[DAILY] == between(11, 12)


def test_other_environments_are_left_to_production(workspace: Workspace, clock: FakeClock) -> None:
    assert workspace.apply(workspace.plan("dev")).published
    clock.advance(hours=2)
    assert workspace.plans.due("dev").is_empty


def test_one_without_a_number_of_intervals_is_filled_again_from_its_beginning(
    workspace: Workspace, clock: FakeClock, tmp_path: Path
) -> None:
    ProjectFolder(tmp_path / "project").edit(
        "models/daily.sql", ", auto_restatement_intervals 3", ""
    )
    workspace.reload()
    plan = workspace.plan("prod")
    assert not plan.builds
    assert workspace.apply(plan).published
    clock.advance(hours=2)
    assert builds(workspace.plans.due("prod"))[DAILY] == between(1, 14)


LOOKING_BACK = """
    MODEL (name db.daily, start '2024-01-01', end '2024-01-13',
      kind {kind}); SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
"""


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 2)", [(12, 14), (13, 14), None]),
        ("INCREMENTAL_BY_TIME_RANGE (time_column day)", [None, None, None]),
        (
            "INCREMENTAL_BY_TIME_RANGE (time_column day, lookback 2, disable_restatement true)",
            [None, None, None],
        ),
        ("INCREMENTAL_BY_UNIQUE_KEY (unique_key n, lookback 2)", [None, None, None]),
    ],
)
def test_after_the_end_a_lookback_fills_the_last_intervals_again_while_it_has_them(
    tmp_path: Path, clock: FakeClock, kind: str, again: list[tuple[int, int] | None]
) -> None:
    folder = ProjectFolder(tmp_path / "ended", {"models/daily.sql": LOOKING_BACK.format(kind=kind)})
    with open_fake(folder.root, clock=clock) as opened:
        opened.apply(opened.plan("prod"))
        opened.apply(opened.plan("dev"))
        for expected in again:
            clock.advance(days=1)
            run = opened.plans.due("prod")
            assert builds(run) == ({DAILY: between(*expected)} if expected else {})
            assert opened.plans.due("dev").is_empty
            if expected:
                assert opened.apply(run).published
                assert opened.plans.due("prod").is_empty, "once a tick"
