"""Plans of only some of a project's changes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.unit_testing.run_test import select_tests
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

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


def test_what_git_says_is_asked_wherever_models_are_selected(folder: ProjectFolder) -> None:
    def git(*arguments: str) -> None:
        said = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main")
        subprocess.run(["git", "-C", str(folder.root), *said, *arguments], check=True)

    for name, column in {"raw": "n", "one": "n", "two": "m"}.items():
        audited = f"kind FULL, audits (not_null(columns := ({column})))"
        folder.edit(f"models/{name}.sql", "kind FULL", audited)
        folder.write(
            f"tests/test_{name}.yaml",
            f"""
            test_{name}:
              model: db.{name}
              inputs: {{db.raw: {{rows: [{{n: 1, m: 2}}]}}}}
              outputs: {{query: [{{{column}: 1}}]}}
            """,
        )
    folder.remove("tests/test_raw.yaml")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"), skip_tests=True)
        git("init", "-q")
        git("add", "models", "tests")
        git("commit", "-q", "-m", "x")
        folder.edit("models/two.sql", "SELECT m", "SELECT m  ")
        plan = workspace.plan("prod", restate=["git:main"])
        assert {str(model.name) for model in plan.models if model.builds} == {"db.two"}
        report = workspace.environments.audit("prod", select=["git:main"])
        assert {str(result.model) for result in report.results} == {"db.two"}
        project, changed = workspace.project, workspace.changed_files

        def tests(*patterns: str) -> list[str]:
            chosen = select_tests(project.tests, project.models, patterns, changed)
            return [test.name for test in chosen]

        assert tests() == ["test_one", "test_two"]
        assert tests("git:main") == ["test_two"]
        assert tests("TEST_ONE") == ["test_one"]
        assert tests("db.raw+ & ^db.two", "test_two") == ["test_one", "test_two"]
        with pytest.raises(UsageError, match="no model matches"):
            tests("db.nothing")
