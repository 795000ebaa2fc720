"""A plan that waits for its approval holds while data moves, and not when models do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.errors import ConflictError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

DAILY = ModelName("db", "daily")
FILES = {
    "models/daily.sql": """
        MODEL (name db.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          start '2024-01-01', end '2024-01-03');
        SELECT 1 AS n, CAST('2024-01-01' AS DATE) AS day
    """,
    "models/last.sql": "MODEL (name db.last, kind FULL); SELECT max(n) AS n FROM db.daily",
}
FIRST_DAY = IntervalSet.of([Interval(parse_instant("2024-01-01"), parse_instant("2024-01-02"))])
ALL_DAYS = IntervalSet.of([Interval(parse_instant("2024-01-01"), parse_instant("2024-01-04"))])


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder) -> Iterator[Workspace]:
    """The project, with one of its three days published."""
    with open_fake(folder.root) as opened:
        opened.apply(opened.plan("prod", end=parse_instant("2024-01-02")))
        yield opened


def edited(folder: ProjectFolder, workspace: Workspace, before: str, after: str) -> None:
    folder.edit("models/last.sql", before, after)
    workspace.reload()


def held(workspace: Workspace, name: ModelName) -> IntervalSet:
    environment = workspace.store.environments.get("prod")
    assert environment is not None
    table_id = environment.entries[name].table_id
    assert table_id is not None
    return workspace.store.tables.load([table_id])[table_id].intervals


def run(workspace: Workspace) -> None:
    assert workspace.apply(workspace.plans.due("prod")).published


def compute_again(workspace: Workspace) -> None:
    environment = workspace.store.environments.get("prod")
    assert environment is not None
    snapshot_id = environment.entries[DAILY].snapshot_id
    for _ in range(2):
        assert workspace.apply(
            workspace.plans.backfill(snapshot_id, FIRST_DAY, restate=True)
        ).published


@pytest.mark.parametrize(("meanwhile", "days"), [(run, ALL_DAYS), (compute_again, FIRST_DAY)])
def test_data_that_arrives_while_a_plan_waits_does_not_outdate_it(
    folder: ProjectFolder,
    workspace: Workspace,
    meanwhile: Callable[[Workspace], None],
    days: IntervalSet,
) -> None:
    edited(folder, workspace, "max", "min")
    plan = workspace.plan("prod", end=parse_instant("2024-01-02"))
    meanwhile(workspace)
    assert workspace.store.plans.find_dead([plan.id]) == set()
    moved = workspace.store.environments.get("prod")
    assert moved is not None
    assert moved.version > plan.base_version
    result = workspace.apply(plan)
    assert result.environment is not None
    assert result.environment.version == moved.version + 1
    assert result.environment.entries == plan.entries
    assert held(workspace, DAILY) == days
    assert workspace.plan("prod", end=parse_instant("2024-01-02"), save=False).is_empty


def publish_something_else(folder: ProjectFolder, workspace: Workspace) -> None:
    edited(folder, workspace, "min", "sum")
    workspace.apply(workspace.plan("prod", end=parse_instant("2024-01-02")))


def publish_and_roll_back(folder: ProjectFolder, workspace: Workspace) -> None:
    publish_something_else(folder, workspace)
    workspace.environments.rollback("prod")


@pytest.mark.parametrize("meanwhile", [publish_something_else, publish_and_roll_back])
def test_a_plan_is_outdated_when_other_models_were_shown_meanwhile(
    folder: ProjectFolder,
    workspace: Workspace,
    meanwhile: Callable[[ProjectFolder, Workspace], None],
) -> None:
    edited(folder, workspace, "max", "min")
    plan = workspace.plan("prod", end=parse_instant("2024-01-02"))
    meanwhile(folder, workspace)
    before = workspace.store.environments.get("prod")
    assert workspace.store.plans.find_dead([plan.id]) == {plan.id}
    with pytest.raises(ConflictError, match="from version 1 to") as error:
        workspace.apply(plan)
    assert error.value.hint == "plan again: vde plan prod"
    assert workspace.store.environments.get("prod") == before
