"""Restatement, applied: what readers see, what others lose, and what happens when it dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, ExecutionError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import Prepared, ProjectFolder

pytestmark = pytest.mark.long

DAILY, TOTALS, WEEK = ModelName("db", "daily"), ModelName("db", "totals"), ModelName("db", "week")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01');
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
    """,
    "models/totals.sql": """
        MODEL (name db.totals, kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1),
          start '2024-01-01');
        SELECT day, sum(n) AS n FROM db.daily
        WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/week.sql": "MODEL (name db.week, kind FULL); SELECT sum(n) AS n FROM db.totals",
}
FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)
NOW = FIRST + timedelta(days=3, hours=12)


def days(first: int, last: int) -> IntervalSet:
    """Days of January, both included."""
    return IntervalSet((Interval(FIRST.replace(day=first), FIRST.replace(day=last + 1)),))


class Interrupting(FakeSpark):
    """An engine that lets something happen before the commit of its n-th fill, or dies there."""

    def __init__(self) -> None:
        super().__init__()
        self.filled: list[tuple[ModelName, IntervalSet]] = []
        self.meanwhile: dict[int, Callable[[], None]] = {}

    def fill(self, task: FillTask) -> FillResult:
        """Commit a range, after what was to happen first."""
        happens = self.meanwhile.pop(len(self.filled) + 1, None)
        if happens is not None:
            happens()
        self.filled.append((task.snapshot.name, IntervalSet((task.interval,))))
        return super().fill(task)


@pytest.fixture
def engine() -> Interrupting:
    return Interrupting()


def publish(root: Path) -> None:
    """Publish production up to the third, and a development of `db.totals` beside it."""
    folder = ProjectFolder(root, FILES)
    with open_fake(root) as opened:
        opened.apply(opened.plan("prod", now=NOW))
        folder.edit("models/totals.sql", "sum(n)", "max(n)")
        opened.reload()
        opened.apply(opened.plan("dev", now=NOW))


@pytest.fixture
def folder(prepared: Prepared) -> ProjectFolder:
    return prepared(publish)


@pytest.fixture
def workspace(folder: ProjectFolder, engine: Interrupting) -> Iterator[Workspace]:
    with open_fake(folder.root, engine) as opened:
        yield opened


def table_of(workspace: Workspace, environment: str, name: ModelName) -> PhysicalTable:
    shown = workspace.store.environments.get(environment)
    assert shown is not None
    table_id = shown.entries[name].table_id
    assert table_id is not None
    return workspace.store.tables.get(table_id)


def heads(workspace: Workspace) -> dict[str, int | None]:
    """What readers of production see."""
    shown = workspace.store.environments.get("prod")
    assert shown is not None
    tables = workspace.store.tables.load(sorted(shown.tables)).values()
    return {str(table.ref): workspace.lakehouse.main_snapshot(table.ref) for table in tables}


def second(workspace: Workspace, environment: str = "prod") -> Plan:
    """A plan that computes the second day of `db.daily` again."""
    return workspace.plan(
        environment,
        restate=["db.daily"],
        start=FIRST + timedelta(days=1),
        end=FIRST + timedelta(days=2),
        now=NOW,
    )


def die() -> None:
    raise ExecutionError("killed")


def test_what_is_restated_is_published_at_once_and_others_lose_what_they_made_of_it(
    workspace: Workspace, engine: Interrupting
) -> None:
    plan = second(workspace)
    assert [(str(f.name), f.environments) for f in plan.outdates] == [
        ("db.totals", ("dev",)),
        ("db.week", ("dev",)),
    ]
    assert not any(model.skippable for model in plan.builds)
    stored = workspace.store.plans.load(plan.id)
    assert (stored.outdates, stored.restates) == (plan.outdates, plan.restates)
    before = heads(workspace)
    assert workspace.apply(plan).published
    assert engine.filled == [(DAILY, days(2, 2)), (TOTALS, days(2, 2)), (WEEK, days(3, 3))]
    after = heads(workspace)
    assert all(after[table] != before[table] for table in before)
    for name in (DAILY, TOTALS):
        assert table_of(workspace, "prod", name).intervals == days(1, 3)
    assert table_of(workspace, "dev", TOTALS).intervals == days(1, 3) - days(2, 2)
    assert not table_of(workspace, "dev", WEEK).intervals
    assert workspace.plans.due("prod", now=NOW).is_empty
    run = workspace.plans.due("dev", now=NOW)
    assert {model.name: model.intervals for model in run.builds} == {
        TOTALS: days(2, 2),
        WEEK: days(3, 3),
    }
    assert workspace.apply(run).published
    assert workspace.plans.due("dev", now=NOW).is_empty
    assert table_of(workspace, "dev", TOTALS).intervals == days(1, 3)


@pytest.mark.proof
@pytest.mark.parametrize("fill", [1, 2, 3])
def test_a_restatement_that_dies_leaves_everything_as_it_was_and_is_applied_again(
    workspace: Workspace, engine: Interrupting, fill: int
) -> None:
    plan = second(workspace)
    before = heads(workspace)
    engine.meanwhile[fill] = die
    with pytest.raises(ExecutionError):
        workspace.apply(plan)
    assert heads(workspace) == before
    assert table_of(workspace, "dev", TOTALS).intervals == days(1, 3)
    assert workspace.plans.due("prod", now=NOW).is_empty
    assert workspace.apply(workspace.store.plans.load(plan.id)).published
    assert [name for name, _ in engine.filled] == [DAILY, TOTALS, WEEK]
    assert table_of(workspace, "dev", TOTALS).intervals == days(1, 3) - days(2, 2)


def test_a_version_that_was_deployed_since_the_plan_was_made_stays_untouched(
    workspace: Workspace, engine: Interrupting
) -> None:
    plan = second(workspace)
    assert workspace.apply(workspace.plan("prod", now=NOW)).published
    before = heads(workspace)
    engine.filled.clear()
    with pytest.raises(ConflictError, match="from version 1 to 2"):
        workspace.apply(plan)
    assert heads(workspace) == before
    assert not engine.filled
    assert table_of(workspace, "prod", TOTALS).intervals == days(1, 3)


def test_nobody_deploys_while_a_restatement_is_applied(
    workspace: Workspace, engine: Interrupting
) -> None:
    refused: list[str] = []

    def deploy() -> None:
        with open_fake(workspace.root) as other:
            with pytest.raises(ConflictError, match="is in use") as error:
                other.apply(other.plan("prod", now=NOW))
            refused.append(error.value.message)

    engine.meanwhile[2] = deploy
    assert workspace.apply(second(workspace)).published
    assert len(refused) == 1


def test_an_environment_that_was_made_since_the_plan_was_loses_its_intervals_too(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    plan = second(workspace)
    folder.edit("models/totals.sql", "max(n)", "min(n)")
    workspace.reload()
    assert workspace.apply(workspace.plan("late", now=NOW)).published
    assert workspace.apply(plan).published
    assert table_of(workspace, "late", TOTALS).intervals == days(1, 3) - days(2, 2)


def test_what_a_plan_computed_that_nobody_applied_to_its_end_is_computed_again(
    workspace: Workspace, folder: ProjectFolder, engine: Interrupting
) -> None:
    folder.edit("models/totals.sql", "max(n)", "min(n)")
    workspace.reload()
    plan = workspace.plan("late", now=NOW)
    engine.meanwhile[3] = die
    with pytest.raises(ExecutionError):
        workspace.apply(plan)
    assert [ranges for _, ranges in engine.filled] == [days(1, 1), days(2, 2)]
    assert workspace.apply(second(workspace)).published
    engine.filled.clear()
    assert workspace.apply(workspace.store.plans.load(plan.id)).published
    ranges = [ranges for name, ranges in engine.filled if name == TOTALS]
    assert IntervalSet.of(r for found in ranges for r in found) == days(2, 3)
    assert table_of(workspace, "late", TOTALS).intervals == days(1, 3)


def test_rows_that_were_computed_from_old_ones_while_they_were_restated_do_not_count(
    workspace: Workspace, folder: ProjectFolder, engine: Interrupting
) -> None:
    folder.edit("models/totals.sql", "max(n)", "min(n)")
    workspace.reload()
    plan = workspace.plan("late", now=NOW)

    def restate() -> None:
        with open_fake(workspace.root) as other:
            assert other.apply(second(other)).published

    engine.meanwhile[2] = restate
    assert workspace.apply(plan).published
    assert table_of(workspace, "late", TOTALS).intervals == days(1, 3) - days(2, 2)
    run = workspace.plans.due("late", now=NOW)
    assert {m.name: m.intervals for m in run.builds}[TOTALS] == days(2, 2)
    assert workspace.apply(run).published
    assert workspace.plans.due("late", now=NOW).is_empty


def test_a_second_restatement_of_an_environment_waits_for_the_first(
    workspace: Workspace, engine: Interrupting
) -> None:
    first, other_plan = second(workspace), second(workspace)

    def other() -> None:
        with open_fake(workspace.root) as another, pytest.raises(ConflictError, match="is in use"):
            another.apply(another.store.plans.load(other_plan.id))

    engine.meanwhile[1] = other
    assert workspace.apply(first).published
    assert workspace.apply(other_plan).published


def test_a_restatement_needs_no_file_that_can_be_read(
    workspace: Workspace, folder: ProjectFolder
) -> None:
    folder.write("models/daily.sql", "this is no model")
    workspace.reload()
    assert workspace.apply(second(workspace)).published


def test_an_environment_that_does_not_exist_cannot_be_restated(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="environment 'stage' does not exist"):
        second(workspace, "stage")
    with pytest.raises(UsageError, match="--restate cannot be combined with --select"):
        workspace.plan("prod", restate=["db.daily"], select=["db.week"])


def test_a_development_restatement_computes_its_own_tables(
    workspace: Workspace, engine: Interrupting
) -> None:
    plan = workspace.plan("dev", restate=["db.totals"], start=FIRST, now=NOW)
    assert {model.name for model in plan.builds} == {TOTALS, WEEK}
    before = heads(workspace)
    assert workspace.apply(plan).published
    assert heads(workspace) == before
    with pytest.raises(UsageError, match="production shows its table"):
        second(workspace, "dev")
