"""A state belongs to one project: a folder of another one, or of none, changes nothing in it.

The search runs random commands in random wrong folders; its seeds are in the test's names.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.project.identity import ProjectIdentity
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.execution.folder_search import attack
from vde_dagster_tests.projects import ProjectFolder


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(3))
def test_commands_in_wrong_folders_change_nothing(tmp_path: Path, seed: int) -> None:
    assert attack(tmp_path, seed, 5)


def files(count: int, prefix: str = "m") -> dict[str, str]:
    return {
        f"models/{prefix}{n}.sql": f"MODEL (name db.{prefix}{n}, kind FULL); SELECT {n} AS n"
        for n in range(count)
    }


def settings(tmp_path: Path, own: str) -> str:
    return (
        f'[tool.vde]\n{own}\nstate_url = "sqlite:///{tmp_path / "state.db"}"\n'
        f'warehouse = "{tmp_path / "warehouse"}"\n'
    )


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., ProjectFolder]:
    """Make projects that share a state and a warehouse."""

    def make(name: str, own: str, count: int = 3, prefix: str = "m") -> ProjectFolder:
        return ProjectFolder(
            tmp_path / name,
            {**files(count, prefix), "pyproject.toml": settings(tmp_path, own)},
        )

    return make


def publish(folder: ProjectFolder, environment: str = "prod") -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan(environment))


def shown(folder: ProjectFolder) -> tuple[int, set[str]]:
    with open_fake(folder.root) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        return current.version, {str(name) for name in current.entries}


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "plan": lambda w: w.plan("prod"),
    "run": lambda w: w.plans.due("prod", full=True),
    "restatement": lambda w: w.plan("prod", restate=("db.m0",)),
    "rollback": lambda w: w.environments.rollback("prod", 1),
    "freeze": lambda w: w.environments.freeze("prod", "kept"),
    "drop": lambda w: w.environments.drop("dev"),
    "janitor": lambda w: w.maintenance.janitor(),
    "reject": lambda w: w.plans.reject("prod-0123456789"),
    "cursor": lambda w: w.changes.move("prod", ModelName.parse("db.m0"), "reader", 0, 1),
    "forgotten cursor": lambda w: w.changes.forget("prod", ModelName.parse("db.m0"), "reader"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_projects_folder_is_refused_with_both_names_and_what_to_do(
    change: str, project: Callable[..., ProjectFolder]
) -> None:
    own = project("shop", 'id = "aaaa"')
    publish(own)
    publish(own, "dev")
    with (
        open_fake(project("other", 'id = "bbbb"').root) as workspace,
        pytest.raises(UsageError) as refused,
    ):
        CHANGES[change](workspace)
    text = str(refused.value)
    assert "belongs to the project 'shop' (id aaaa), and this is the project 'other'" in text
    assert "nothing was changed" in text
    assert "VDE_STATE_URL" in text
    assert 'write id = "aaaa"' in text
    assert refused.value.exit_code == 2
    assert shown(own) == (1, {"db.m0", "db.m1", "db.m2"})


def test_a_plan_of_another_project_is_refused_when_it_is_applied(
    project: Callable[..., ProjectFolder],
) -> None:
    own, other = project("shop", 'id = "aaaa"'), project("other", 'id = "bbbb"')
    with open_fake(other.root) as workspace:
        plan = workspace.plan("prod")  # nobody's yet
        publish(own)
        with pytest.raises(UsageError, match="belongs to the project 'shop'"):
            workspace.apply(plan)


@pytest.mark.parametrize(
    ("own", "again"),
    [
        ('id = "aaaa"', 'id = "aaaa"'),
        ('name = "shop"', 'name = "shop"'),
        ('name = "shop"', 'name = "shop"\nid = "aaaa"'),  # it gets its id later
        ('name = "shop"\nid = "aaaa"', 'name = "shop"'),  # a branch of before
        ('id = "aaaa"', 'name = "renamed"\nid = "aaaa"'),
        ("", 'id = "aaaa"'),  # known by its folder until then
        ("", ""),
    ],
)
def test_the_same_project_in_another_folder_goes_on(
    own: str, again: str, project: Callable[..., ProjectFolder]
) -> None:
    publish(project("shop", own))
    checkout = project("build-4711", again, count=4)
    publish(checkout)
    assert shown(checkout)[0] == 2


def test_a_project_keeps_what_is_known_of_it_when_an_older_branch_publishes(
    project: Callable[..., ProjectFolder],
) -> None:
    publish(project("shop", 'name = "shop"'))
    publish(project("two", 'name = "shop"\nid = "aaaa"', count=4))
    publish(project("three", 'name = "shop"', count=5))
    with open_fake(project("four", 'name = "shop"').root) as workspace:
        assert workspace.store.project.owner() == ProjectIdentity("aaaa", "shop", True)


def test_a_project_that_only_its_folder_names_is_warned_of_a_shared_state(
    project: Callable[..., ProjectFolder],
) -> None:
    publish(project("shop", ""))
    with open_fake(project("copy", "").root) as workspace:
        (warning,) = workspace.plan("prod", save=False).warnings
    assert "written by a project in a folder 'shop', but this is 'copy'" in warning
    assert "same id (or name) under [tool.vde]" in warning


def test_a_state_of_today_is_adopted_by_the_first_publication(
    project: Callable[..., ProjectFolder],
) -> None:
    from vde_dagster.state.db.schema import project as rows

    own = project("shop", 'id = "aaaa"')
    publish(own)
    with open_fake(own.root) as workspace:
        store = workspace.store
        store.database.run_transaction(lambda conn: conn.execute(rows.delete()))
        assert workspace.plan("prod").is_empty
        assert store.project.owner() is None
    own.write("models/more.sql", "MODEL (name db.more, kind FULL); SELECT 1 AS n")
    publish(own)
    with open_fake(own.root) as workspace:
        assert workspace.store.project.owner() == ProjectIdentity("aaaa", "shop", False)


# -- plans that empty an environment --------------------------------------------------------------


@pytest.mark.parametrize(
    ("had", "left", "refused"),
    [
        (1, 0, "the only model of 'prod'"),
        (2, 0, "all 2 models of 'prod'"),
        (3, 1, None),  # two of three: a small project
        (9, 6, None),  # a third
        (9, 5, "4 of the 9 models of 'prod'"),
        (9, 0, "all 9 models of 'prod'"),
    ],
)
def test_a_plan_that_removes_many_models_has_to_be_meant(
    had: int, left: int, refused: str | None, project: Callable[..., ProjectFolder]
) -> None:
    own = project("shop", 'id = "aaaa"', had)
    publish(own)
    for n in range(left, had):
        own.remove(f"models/m{n}.sql")
    own.write("models/new.sql", "MODEL (name db.new, kind FULL); SELECT 1 AS n")
    gone = [f"db.m{n}" for n in range(left, had)]
    with open_fake(own.root) as workspace:
        before = len(workspace.store.plans.recent())
        if refused is not None:
            with pytest.raises(UsageError) as error:
                workspace.plan("prod")
            assert refused in error.value.message
            assert error.value.message.splitlines()[1:] == [f"  - {name}" for name in gone]
            assert "--remove-models" in str(error.value)
            assert "remove_models: true" in str(error.value)
            assert len(workspace.store.plans.recent()) == before
        plan = workspace.plan("prod", PlanOptions(remove_models=refused is not None))
        workspace.apply(plan)
    assert not shown(own)[1] & set(gone)


def test_the_share_is_a_setting(project: Callable[..., ProjectFolder]) -> None:
    own = project("shop", 'id = "aaaa"\nmax_removed = 0.1', 10)
    publish(own)
    for n in range(3):
        own.remove(f"models/m{n}.sql")
    with open_fake(own.root) as workspace, pytest.raises(UsageError, match="3 of the 10 models"):
        workspace.plan("prod")
    own.edit("pyproject.toml", "max_removed = 0.1", "max_removed = 1.0")
    publish(own)
    assert len(shown(own)[1]) == 7


def test_a_new_environment_of_few_models_removes_nothing(
    project: Callable[..., ProjectFolder],
) -> None:
    own = project("shop", 'id = "aaaa"', 9)
    publish(own)
    for n in range(8):
        own.remove(f"models/m{n}.sql")
    publish(own, "dev")
    with open_fake(own.root) as workspace:
        dev = workspace.store.environments.get("dev")
        assert dev is not None
        assert len(dev.entries) == 1


# -- a new state beside an old warehouse ----------------------------------------------------------


def test_a_new_state_beside_a_warehouse_with_tables_is_a_warning(
    project: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    own = project("shop", 'id = "aaaa"')
    with open_fake(own.root) as workspace:
        assert workspace.plan("prod", save=False).warnings == ()
    publish(own)
    shutil.move(tmp_path / "state.db", tmp_path / "lost.db")
    with open_fake(own.root) as workspace:
        (warning,) = workspace.plan("prod", save=False).warnings
        assert "is new, but the warehouse" in warning
        assert "vde__db" in warning
        assert "VDE_STATE_URL" in warning
        assert workspace.plan("prod", save=False).warnings == (warning,)
        workspace.apply(workspace.plan("prod"))
        assert workspace.plan("prod", save=False).warnings == ()
