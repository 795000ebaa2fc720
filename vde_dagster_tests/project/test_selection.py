"""Models are selected by names, tags, what changed in git, and sets of these."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.project.files import git_changes
from vde_dagster.project.selection import select
from vde_dagster_tests.project.test_dag import MODELS

ALL = "mart.d mart.e raw.a stg.b stg.c"


def selected(*patterns: str) -> str:
    def changed(branch: str) -> set[str]:
        assert branch == "main"
        return {"models/stg.b.sql", "README.md"}

    return " ".join(sorted(map(str, select(MODELS, patterns, changed))))


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ALL),
        (["stg.b"], "stg.b"),
        (["+stg.b"], "raw.a stg.b"),
        (["stg.b+"], "mart.d stg.b"),
        (["+stg.b+"], "mart.d raw.a stg.b"),
        (["MART.*"], "mart.d mart.e"),
        (["tag:finance"], "mart.d"),
        (["+tag:fin*"], "mart.d raw.a stg.b stg.c"),
        (["stg.*", "-stg.b"], "stg.c"),
        (["-mart.*"], "raw.a stg.b stg.c"),
        (["git:main"], "stg.b"),
        (["git:main+ & tag:finance"], "mart.d"),
        (["git:main+&tag:finance"], "mart.d"),
        (["stg.b | mart.e"], "mart.e stg.b"),
        (["raw.a | stg.* & ^stg.b"], "raw.a stg.c"),
        (["(raw.a | stg.*) & ^stg.b"], "raw.a stg.c"),
        (["^(stg.* | raw.a)"], "mart.d mart.e"),
        (["^tag:finance & ^raw.*"], "mart.e stg.b stg.c"),
        (["(stg.b | stg.c)+"], "mart.d mart.e stg.b stg.c"),
        (["+(stg.b & git:main)"], "raw.a stg.b"),
        (["stg.* & ^git:main", "mart.d"], "mart.d stg.c"),
        (["-(mart.* | raw.a)"], "stg.b stg.c"),
    ],
)
def test_selection(patterns: list[str], expected: str) -> None:
    assert selected(*patterns) == expected


def test_a_pattern_that_matches_nothing_is_a_mistake() -> None:
    with pytest.raises(UsageError) as caught:
        selected("stg.bb")
    assert "did you mean 'stg.b'?" in str(caught.value)
    with pytest.raises(UsageError, match=r"no model matches 'stg\.b & tag:finance'"):
        selected("stg.b & tag:finance")


@pytest.mark.parametrize("text", ["stg.b &", "| stg.b", "(stg.b", "stg.b)", "stg.b stg.c", "^", ""])
def test_an_expression_that_cannot_be_read_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError, match="invalid selection") as caught:
        selected(text)
    assert "git:branch" in (caught.value.hint or "")


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


def test_git_tells_committed_changed_and_new_files_of_the_project_alone(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    (root / "models").mkdir(parents=True)
    for name in ("same", "committed", "edited", "gone"):
        (root / f"models/{name}.sql").write_text("SELECT 1")
    (tmp_path / "outside.txt").write_text("1")
    git(tmp_path, "init", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "checkout", "-b", "feature")
    (root / "models/committed.sql").write_text("SELECT 2")
    (tmp_path / "outside.txt").write_text("2")
    git(tmp_path, "commit", "-am", "second")
    (root / "models/edited.sql").write_text("SELECT 2")
    (root / "models/näw.sql").write_text("SELECT 2")
    assert git_changes(root, "main") == {
        "models/committed.sql",
        "models/edited.sql",
        "models/näw.sql",
    }
    with pytest.raises(UsageError, match="git cannot compare the project with 'mian'"):
        git_changes(root, "mian")
    with pytest.raises(UsageError, match="does not name a branch"):
        git_changes(root, "--output=x")


def test_a_folder_without_git_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git cannot compare"):
        git_changes(tmp_path, "main")
