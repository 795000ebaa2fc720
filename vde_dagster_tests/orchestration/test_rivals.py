"""Two projects in different locations of one instance that have the same names: both are told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.jobs.sensors import FORGOTTEN, find_name_conflict
from vde_dagster_tests.orchestration.test_shown import FILES, tick
from vde_dagster_tests.projects import ProjectFolder, copied_project

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def one(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "one", FILES)


@pytest.fixture
def other(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "other", FILES)


@pytest.fixture
def workspace(one: ProjectFolder) -> Iterator[Workspace]:
    with Workspace.open(one.root) as opened:
        yield opened


@pytest.fixture
def rival(other: ProjectFolder) -> Iterator[Workspace]:
    with Workspace.open(other.root) as opened:
        yield opened


def said(result: dg.SensorResult) -> str:
    assert isinstance(result.skip_reason, dg.SkipReason)
    return str(result.skip_reason.skip_message)


def test_the_sensors_of_both_say_what_to_write(
    one: ProjectFolder, other: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    cursor = tick(one, instance, "team_a", None).cursor
    tick(other, instance, "team_b", None)
    again = tick(one, instance, "team_a", cursor)
    text = again.skip_message if isinstance(again, dg.SkipReason) else said(again)
    assert f"{one.root} (code location team_a) and {other.root} (code location team_b)" in text
    assert 'prefix = "sales" under [tool.vde.dagster]' in text


def test_a_prefix_settles_it(
    other: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    other.write("pyproject.toml", '[tool.vde.dagster]\nprefix = "sales"\n')
    with Workspace.open(other.root) as rival:
        for _ in range(2):
            assert find_name_conflict(instance, "a", workspace, NOW) is None
            assert find_name_conflict(instance, "b", rival, NOW) is None


def test_two_projects_of_one_prefix_are_told_too(
    one: ProjectFolder, other: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    for folder in (one, other):
        folder.write("pyproject.toml", '[tool.vde.dagster]\nprefix = "sales"\n')
    with Workspace.open(one.root) as first, Workspace.open(other.root) as second:
        assert find_name_conflict(instance, "a", first, NOW) is None
        assert "the prefix 'sales'" in str(find_name_conflict(instance, "b", second, NOW))


def test_locations_that_show_one_state_are_no_rivals(
    one: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    assert find_name_conflict(instance, "a", workspace, NOW) is None
    copied_project(one.root, tmp_path / "copy")
    with Workspace.open(tmp_path / "copy") as copy:
        assert find_name_conflict(instance, "b", copy, NOW) is None


def test_a_location_that_shows_another_state_now_is_not_its_own_rival(
    workspace: Workspace, rival: Workspace, instance: dg.DagsterInstance
) -> None:
    assert find_name_conflict(instance, "a", workspace, NOW) is None
    assert find_name_conflict(instance, "a", rival, NOW) is None
    assert find_name_conflict(instance, "a", rival, NOW + FORGOTTEN) is None


def test_a_location_that_says_nothing_any_more_is_forgotten(
    workspace: Workspace, rival: Workspace, instance: dg.DagsterInstance
) -> None:
    assert find_name_conflict(instance, "a", workspace, NOW) is None
    just = NOW + FORGOTTEN - timedelta(seconds=1)
    assert find_name_conflict(instance, "b", rival, just) is not None
    assert find_name_conflict(instance, "b", rival, NOW + FORGOTTEN) is None


def test_what_a_location_said_long_ago_is_said_again(
    workspace: Workspace, rival: Workspace, instance: dg.DagsterInstance
) -> None:
    for minute in range(40):
        find_name_conflict(instance, "a", workspace, NOW + timedelta(minutes=minute))
    assert find_name_conflict(instance, "b", rival, NOW + timedelta(minutes=41)) is not None


@pytest.mark.parametrize("kept", ["", "nonsense", "[]"])
def test_what_cannot_be_read_is_written_anew(
    workspace: Workspace, rival: Workspace, instance: dg.DagsterInstance, kept: str
) -> None:
    instance.daemon_cursor_storage.set_cursor_values({"vde/named/": kept})
    assert find_name_conflict(instance, "a", workspace, NOW) is None
    assert find_name_conflict(instance, "b", rival, NOW) is not None
