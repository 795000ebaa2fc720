"""Environments are named by branches: what names become, and that no two branches share one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    branch_name,
    environment_name,
)
from vde_dagster.reports.plan_json import plan_json
from vde_dagster_tests.cli.conftest import Vde, vde  # noqa: F401
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(
        tmp_path / "shop", {"models/m.sql": "MODEL (name db.m, kind FULL); SELECT 1 AS n"}
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pr-12", "pr_12"),
        ("feature/x", "feature_x"),
        ("Feature/ABC-12_fix", "feature_abc_12_fix"),
        ("dependabot/pip/foo-1.2.3", "dependabot_pip_foo_1_2_3"),
        ("a--b__/c", "a_b_c"),
        ("fix#12+more", "fix_12_more"),
        (" dev ", "dev"),
    ],
)
def test_a_branch_becomes_a_name(text: str, name: str) -> None:
    assert environment_name(text) == name
    assert environment_name(name) == name


@pytest.mark.parametrize(
    "text",
    [
        "prod-",
        "-prod",
        "prod/",
        "/prod",
        ".prod",
        "prod#",
        "a__b",
        "-",
        "feature/größe",
        "a b",
        "a;b",
        "",
    ],
)
def test_what_is_no_name_stays_refused(text: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"is not a valid environment name|starts or ends with '_', or contains '__'",
    ):
        environment_name(text)


def test_long_branches_that_begin_alike_stay_two() -> None:
    long = "feature/" + "word-" * 20
    one, other = environment_name(f"{long}1"), environment_name(f"{long}2")
    assert one != other
    assert len(one) <= 60
    assert one.startswith("feature_word_word_")
    with pytest.raises(UsageError):
        environment_name("a" * 61)


@given(st.text(alphabet="prodPROD_-/.#+ 1", max_size=12))
def test_nothing_but_its_own_name_is_production(text: str) -> None:
    try:
        name = environment_name(text)
    except UsageError:
        return
    assert environment_name(name) == name
    assert (name == PRODUCTION) == (text.strip().lower() == PRODUCTION)
    assert not (branch_name(text) and name == PRODUCTION)


def test_two_branches_of_one_name_are_told_apart(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("feature/x")
        assert (plan.environment, plan.branch) == ("feature_x", "feature/x")
        assert plan_json(plan)["branch"] == "feature/x"
        assert workspace.apply(plan).published
        for other in ("feature-x", "feature_x", "Feature/x"):
            with pytest.raises(UsageError, match="belongs to branch 'feature/x'") as raised:
                workspace.plan(other)
            assert "vde plan feature/x" in str(raised.value.hint)
        folder.edit("models/m.sql", "1 AS n", "2 AS n")
        workspace.reload()
        assert workspace.apply(workspace.plan("feature/x")).published
        assert workspace.environments.history("feature/x")[0].version.version == 2
        assert workspace.environments.history("feature_x")[0].version.version == 2
        workspace.environments.drop("feature/x")
        assert workspace.plan("feature-x").branch == "feature-x"


def test_an_environment_with_a_name_of_its_own_is_no_branchs(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("feature_x"))
        with pytest.raises(UsageError, match="created with this exact name, and 'feature/x'"):
            workspace.plan("feature/x")
        assert workspace.plan("feature_x").branch == ""


def test_commands_say_the_name_that_they_made(folder: ProjectFolder, vde: Vde) -> None:  # noqa: F811
    ended = vde("plan", "pr-12", "--project", folder.root)
    assert ended.code == 0
    assert "the environment of branch 'pr-12' is pr_12" in ended.err
    assert "vde apply pr_12 --plan" in ended.err
    found = vde("plan", "pr-12", "--project", folder.root, "--json").json
    assert (found["environment"], found["branch"]) == ("pr_12", "pr-12")


def test_a_branch_is_not_taken_for_another_one_but_for_production(
    folder: ProjectFolder,
    vde: Vde,  # noqa: F811
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("fix/a"))
        workspace.apply(workspace.plan("prod"))
    assert vde("plan", "fix/b", "--project", folder.root).code == 0
    near = vde("plan", "pro-d", "--project", folder.root)
    assert near.code == 2
    assert "did you mean 'prod'?" in near.err
