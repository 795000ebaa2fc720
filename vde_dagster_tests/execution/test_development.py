"""What development does never moves what production reads, whoever is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

DAILY, WEEK = ModelName("db", "daily"), ModelName("db", "week")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01');
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n, 2 AS other
    """,
    "models/week.sql": "MODEL (name db.week, kind FULL); SELECT sum(n) AS n FROM db.daily",
}
THIRD = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
FIFTH = THIRD + timedelta(days=2)


class Interrupting(FakeSpark):
    """An engine that lets something happen before the commit of a fill, once."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def fill(self, task: FillTask) -> FillResult:
        """Commit a range, after what was to happen first."""
        happens, self.meanwhile = self.meanwhile, None
        if happens is not None:
            happens()
        return super().fill(task)


@pytest.fixture
def engine() -> Interrupting:
    return Interrupting()


def publish(root: Path) -> None:
    """Let development show a version of `db.daily` up to the third; production does not."""
    folder = ProjectFolder(root, FILES)
    with open_fake(folder.root, Interrupting()) as opened:
        opened.apply(opened.plan("prod", now=THIRD))
        folder.edit("models/daily.sql", "1 AS n", "3 AS n")
        opened.reload()
        opened.apply(opened.plan("dev", now=THIRD))


@pytest.fixture
def workspace(prepared: Prepared, engine: Interrupting) -> Iterator[Workspace]:
    with open_fake(prepared(publish).root, engine) as opened:
        yield opened


def table_of(workspace: Workspace, environment: str, name: ModelName = DAILY) -> PhysicalTable:
    shown = workspace.store.environments.get(environment)
    assert shown is not None
    table_id = shown.entries[name].table_id
    assert table_id is not None
    return workspace.store.tables.get(table_id)


def head(workspace: Workspace, table: PhysicalTable) -> int | None:
    return workspace.lakehouse.main_snapshot(table.ref)


def promote(workspace: Workspace) -> None:
    """Let production show what development does, and compute nothing."""
    with open_fake(workspace.root) as other:
        plan = other.plan("prod", now=THIRD, skip_backfill=True)
        assert other.apply(plan).published
        assert not plan.builds


def run_of(workspace: Workspace) -> Plan:
    run = workspace.plans.due("dev", now=FIFTH)
    assert {model.name for model in run.builds} == {DAILY, WEEK}
    return run


def test_run_of_development_fills_no_table_that_production_shows(workspace: Workspace) -> None:
    promote(workspace)
    assert workspace.plans.due("dev", now=FIFTH).is_empty
    run = workspace.plans.due("prod", now=FIFTH)
    assert workspace.apply(run).published
    assert table_of(workspace, "dev").intervals == table_of(workspace, "prod").intervals


def test_run_that_was_planned_before_production_showed_its_table_writes_nothing(
    workspace: Workspace,
) -> None:
    run = run_of(workspace)
    promote(workspace)
    table = table_of(workspace, "prod")
    before = head(workspace, table)
    with pytest.raises(ConflictError, match="production reads it"):
        workspace.apply(run)
    assert head(workspace, table) == before
    assert workspace.store.tables.get(table.id).intervals == table.intervals


def test_table_that_production_shows_during_a_run_of_development_does_not_move(
    workspace: Workspace, engine: Interrupting
) -> None:
    run = run_of(workspace)
    table = table_of(workspace, "dev")
    before = head(workspace, table)
    engine.meanwhile = lambda: promote(workspace)
    with pytest.raises(ConflictError, match=r"production published .*: vde plan dev"):
        workspace.apply(run)
    assert table_of(workspace, "prod").id == table.id
    assert head(workspace, table) == before
    assert workspace.store.tables.get(table.id).intervals == table.intervals
    version = workspace.store.environments.get("dev")
    assert version is not None
    assert version.version == 1
    assert workspace.apply(workspace.plans.due("prod", now=FIFTH)).published
    assert head(workspace, table) != before


def test_new_table_that_production_shows_while_development_fills_it_does_not_move(
    workspace: Workspace, engine: Interrupting
) -> None:
    ProjectFolder(workspace.root).edit("models/daily.sql", "3 AS n", "4 AS n")
    workspace.reload()
    plan = workspace.plan("dev", now=FIFTH)
    filled: list[int | None] = []

    def second_batch() -> None:
        promote(workspace)
        filled.append(head(workspace, table_of(workspace, "prod")))

    def first_batch() -> None:
        engine.meanwhile = second_batch

    engine.meanwhile = first_batch
    with pytest.raises(ConflictError, match="production published"):
        workspace.apply(plan)
    table = table_of(workspace, "prod")
    first_day = Interval(THIRD.replace(day=1, hour=0), THIRD.replace(day=2, hour=0))
    assert table.intervals == IntervalSet((first_day,))
    assert [head(workspace, table)] == filled


def test_computing_again_in_development_leaves_out_what_production_shows(
    workspace: Workspace,
) -> None:
    promote(workspace)
    # Another column, which `db.week` does not read: its table stays production's.
    ProjectFolder(workspace.root).edit("models/daily.sql", "2 AS other", "5 AS other")
    workspace.reload()
    workspace.apply(workspace.plan("dev", now=THIRD))
    dev = workspace.store.environments.get("dev")
    assert dev is not None
    week = table_of(workspace, "prod", WEEK)
    assert dev.entries[WEEK].table_id == week.id
    assert dev.entries[DAILY].table_id != table_of(workspace, "prod").id
    before = head(workspace, week)
    days = table_of(workspace, "dev").intervals
    result = workspace.apply(
        workspace.plans.backfill(dev.entries[DAILY].snapshot_id, days, restate=True)
    )
    assert [model.name for model in result.plan.builds] == [DAILY]
    assert head(workspace, week) == before


def test_an_environment_of_a_past_execution_time_expires_after_days_from_now(
    tmp_path: Path,
) -> None:
    settings = '[tool.vde]\npinned_environments = ["staging"]\n'
    folder = ProjectFolder(tmp_path / "project", {**FILES, "pyproject.toml": settings})
    with open_fake(folder.root) as workspace:
        began = workspace.store.database.clock.now()
        for name in ("prod", "staging", "dev"):
            workspace.apply(workspace.plan(name, now=THIRD))
        assert workspace.store.environments.expired() == []
        ends = {one.name: one.expires_at for one in workspace.store.environments.all()}
    assert (ends["prod"], ends["staging"]) == (None, None)
    assert ends["dev"] is not None
    assert timedelta(0) <= ends["dev"] - began - timedelta(days=7) < timedelta(minutes=5)


def test_a_rollback_renews_the_time_until_an_environment_expires(tmp_path: Path) -> None:
    folder, clock = ProjectFolder(tmp_path / "project", FILES), FakeClock(THIRD)
    with open_fake(folder.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("dev"))
        clock.advance(days=1)
        workspace.apply(workspace.plans.due("dev"))
        clock.advance(days=6)
        workspace.environments.rollback("dev", 1)
        (dev,) = workspace.store.environments.all()
    assert (dev.version, dev.expires_at) == (3, clock.now() + timedelta(days=7))


def test_an_apply_without_changes_keeps_an_expired_environment_and_a_run_does_not(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev", now=THIRD))
        workspace.environments.drop("dev")
        workspace.apply(workspace.plans.due("dev", now=THIRD))
        assert workspace.store.environments.expired() == ["dev"]
        plan = workspace.plan("dev", now=THIRD)
        assert plan.is_empty
        assert not workspace.apply(plan).published
        assert workspace.store.environments.expired() == []
        (dev,) = workspace.store.environments.all()
    assert (dev.version, dev.expires_at) == (1, plan.expires_at)
