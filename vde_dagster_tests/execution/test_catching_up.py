"""A FULL model that a plan made before its parents' run is made again: stored, told, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.plans.due_work import pending_work
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.test_rollback_of_data import DAILY, FILES, TOTALS, WEEK, at, days
from vde_dagster_tests.execution.valued import Valued, shown
from vde_dagster_tests.projects import Prepared, ProjectFolder

pytestmark = pytest.mark.long


class Dying(Valued):
    """An engine that fails to fill one model as often as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = 0

    def fill(self, task: FillTask) -> FillResult:
        result = super().fill(task)
        if self.fails and task.snapshot.name == WEEK:
            self.fails -= 1
            raise ExecutionError("killed behind its commit")
        return result


@pytest.fixture
def engine() -> Dying:
    return Dying()


def publish(root: Path) -> None:
    """Edit and publish the week's model while the fourth of January is due."""
    folder = ProjectFolder(root, FILES)
    with open_fake(folder.root, Dying()) as opened:
        opened.apply(opened.plan("prod", now=at(4)))
        folder.edit("models/week.sql", "sum(n)", "max(n)")
        opened.reload()
        plan = opened.plan("prod", now=at(5))
        assert [model.name for model in plan.builds] == [WEEK]
        opened.apply(plan)


@pytest.fixture
def workspace(prepared: Prepared, engine: Dying) -> Iterator[Workspace]:
    with open_fake(prepared(publish).root, engine) as opened:
        yield opened


def week_of(workspace: Workspace) -> object:
    """What the week was made of."""
    (rows,) = [rows for slot, rows in shown(workspace)["week"].items() if "01-05" in slot]
    return json.loads(rows[1])


def test_what_it_lacks_is_stored_with_the_fill(workspace: Workspace) -> None:
    current = workspace.store.environments.get("prod")
    assert current is not None
    table_id = current.entries[WEEK].table_id
    assert table_id is not None
    for table in (
        workspace.store.tables.get(table_id),
        workspace.store.tables.load([table_id])[table_id],
    ):
        assert table.lacks == {TOTALS: days(4, 4)}
        assert table.intervals == days(4, 4)


def test_it_is_told_as_missing_before_and_not_after_the_run(workspace: Workspace) -> None:
    missing = pending_work(workspace, workspace.plan("prod", now=at(5)))
    assert missing.by_environment["prod"].keys() == {DAILY, TOTALS, WEEK}
    run = workspace.plans.due("prod", now=at(5))
    assert [str(model.name) for model in run.builds if model.catches_up] == ["db.week"]
    assert workspace.apply(run).published
    assert week_of(workspace) == shown(workspace)["totals"]
    assert not pending_work(workspace, workspace.plan("prod", now=at(5)))
    assert not workspace.plans.due("prod", now=at(5)).builds


@pytest.mark.proof
@pytest.mark.parametrize("same_plan", [True, False])
def test_a_run_that_dies_behind_its_commit_is_finished_by_the_next(
    workspace: Workspace, engine: Dying, same_plan: bool
) -> None:
    before = shown(workspace)
    run = workspace.plans.due("prod", now=at(5))
    engine.fails = 1
    with pytest.raises(ExecutionError):
        workspace.apply(run)
    assert shown(workspace) == before
    again = (
        workspace.store.plans.load(run.id) if same_plan else workspace.plans.due("prod", now=at(5))
    )
    assert workspace.apply(again).published
    assert week_of(workspace) == shown(workspace)["totals"]
    assert not workspace.plans.due("prod", now=at(5)).builds


def test_going_back_to_the_older_rows_brings_back_what_they_lack(workspace: Workspace) -> None:
    published = workspace.store.environments.get("prod")
    assert published is not None
    workspace.apply(workspace.plans.due("prod", now=at(5)))
    workspace.environments.rollback("prod", published.version)
    run = workspace.plans.due("prod", now=at(5))
    assert {model.name for model in run.builds} == {DAILY, TOTALS, WEEK}
    workspace.apply(run)
    assert week_of(workspace) == shown(workspace)["totals"]
    assert not workspace.plans.due("prod", now=at(5)).builds
