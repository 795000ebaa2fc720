"""Versions of before an environment was dropped are history: what they pinned is not kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.environments.versions import VersionStore
from vde_dagster_tests.execution.environment_histories import BEGIN, FILES, SETTINGS, Kept
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """`dev` was run once, dropped with what it pinned, and made again: its version 4."""
    files = {**FILES, "pyproject.toml": SETTINGS.format(mode="full", days=30)}
    folder, clock = ProjectFolder(tmp_path / "project", files), FakeClock(BEGIN)
    with open_fake(folder.root, Kept(), clock=clock) as opened:
        opened.apply(opened.plan("dev"))
        clock.advance(days=1)
        opened.apply(opened.plans.due("dev"))
        opened.apply(opened.plan("prod"))
        opened.environments.drop("dev")
        clock.advance(days=5)
        opened.apply(opened.plans.due("prod"))
        clock.advance(days=5)
        assert opened.maintenance.janitor().failures == ()
        opened.apply(opened.plan("dev"))
        yield opened


def test_they_are_not_said_to_be_damaged(workspace: Workspace) -> None:
    assert "pin_gone" not in {one.problem for one in workspace.maintenance.fsck()}


def test_their_data_are_not_restored(workspace: Workspace) -> None:
    why = "the environment was dropped, and its data is being deleted"
    with pytest.raises(UsageError, match=why):
        workspace.environments.rollback("dev", 2)
    with pytest.raises(UsageError, match="has no earlier version that differs"):
        workspace.environments.rollback("dev")
    done = workspace.environments.rollback("dev", 2, definitions_only=True)
    assert done.environment.version == 5


@pytest.mark.parametrize("how", [{}, {"dry_run": True}, {"definitions_only": True}])
def test_the_version_that_dropped_it_is_not_restored(
    workspace: Workspace, how: dict[str, bool]
) -> None:
    with pytest.raises(UsageError, match="version 3 of 'dev' is empty, because"):
        workspace.environments.rollback("dev", 3, **how)


def test_reading_them_says_why_they_are_gone(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="is gone: the environment was dropped since"):
        workspace.query("dev@1", "SELECT n FROM db.daily")


def test_they_are_not_frozen(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="the environment was dropped since"):
        workspace.environments.freeze("dev@2", "close")
    # Who has looked before it was dropped is told by the transaction.
    kept = VersionStore.is_before_end
    monkeypatch.setattr(
        VersionStore,
        "is_before_end",
        lambda self, name, version, conn=None: conn is not None and kept(self, name, version, conn),
    )
    with pytest.raises((ConflictError, UsageError), match=r"no longer kept|is gone"):
        workspace.environments.freeze("dev@2", "close")
