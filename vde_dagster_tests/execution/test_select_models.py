"""Plans of only some of a project's changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/raw.sql": "MODEL (name db.raw, kind FULL); SELECT 1 AS n, 2 AS m",
    "models/one.sql": "MODEL (name db.one, kind FULL); SELECT n FROM db.raw",
    "models/two.sql": "MODEL (name db.two, kind FULL); SELECT m FROM db.raw",
    "models/gone.sql": "MODEL (name db.gone, kind VIEW); SELECT m FROM db.two",
}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


def changes(workspace: Workspace, select: Sequence[str]) -> dict[str, str]:
    """Plan, apply, and return what changed in production."""
    workspace.reload()
    plan = workspace.plan("prod", select=select)
    workspace.apply(plan)
    return {str(m.name): m.change.value for m in plan.models if m.change.value != "unchanged"}


def test_only_what_is_selected_is_published(folder: ProjectFolder) -> None:
    with open_fake(folder.root, FakeSpark()) as workspace:
        changes(workspace, [])
        folder.edit("models/one.sql", "n FROM", "n + 1 AS n FROM")
        folder.edit("models/two.sql", "m FROM", "m + 1 AS m FROM")
        folder.remove("models/gone.sql")
        folder.write("models/new.sql", "MODEL (name db.new, kind VIEW); SELECT m FROM db.two")
        assert changes(workspace, ["db.one"]) == {"db.one": "modified"}
        assert changes(workspace, ["db.gone"]) == {"db.gone": "removed"}
        assert changes(workspace, ["db.new"]) == {"db.new": "added"}
        assert changes(workspace, []) == {"db.two": "modified", "db.new": "affected"}
        with pytest.raises(UsageError, match="nothing"):
            workspace.plan("prod", select=["db.nothing"])


def test_what_a_selected_new_model_reads_comes_with_it(folder: ProjectFolder) -> None:
    with open_fake(folder.root, FakeSpark()) as workspace:
        assert changes(workspace, ["db.gone"]) == {
            "db.raw": "added",
            "db.two": "added",
            "db.gone": "added",
        }
