"""A folder without models: one message, exit code 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Called, Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

REFUSED = (
    ("plan", "prod"),
    ("apply", "prod", "--yes"),
    ("run", "prod"),
    ("diff", "prod"),
    ("history", "prod"),
    ("environments",),
    ("lint",),
    ("test",),
    ("janitor",),
)


def of_none(called: Called) -> None:
    assert called.code == 2, called.err
    assert called.err.count("there are no models in") == 1
    assert "vde init" in called.err


@pytest.mark.parametrize("command", REFUSED, ids=" ".join)
@pytest.mark.parametrize("there", [(), ("pyproject.toml",), ("notes.txt",), ("models/notes.txt",)])
def test_a_folder_without_models_is_refused_and_left_as_it_is(
    command: tuple[str, ...], there: tuple[str, ...], tmp_path: Path, vde: Vde
) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    for path in there:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("")
    before = sorted(root.rglob("*"))
    of_none(vde(*command, "--project", root))
    assert sorted(root.rglob("*")) == before


def test_an_empty_folder_with_the_shared_state_changes_nothing_in_it(
    tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    own = {"models/m.sql": "MODEL (name db.m, kind FULL); SELECT 1 AS n"}
    with open_fake(ProjectFolder(tmp_path / "shop", own).root, state_url=url) as workspace:
        workspace.apply(workspace.plan("prod"))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("VDE_STATE_URL", url)
    of_none(vde("apply", "prod", "--yes", "--project", empty))
    assert list(empty.iterdir()) == []
    with open_fake(tmp_path / "shop", state_url=url) as workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        assert (current.version, len(current.entries)) == (1, 1)


def test_what_removes_all_models_is_exit_code_2_until_it_is_meant(tmp_path: Path, vde: Vde) -> None:
    own = {f"models/m{n}.sql": f"MODEL (name db.m{n}, kind FULL); SELECT 1 AS n" for n in range(3)}
    folder = ProjectFolder(tmp_path / "shop", own)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    for path in own:
        folder.remove(path)
    folder.write("models/new.sql", "MODEL (name db.new, kind VIEW); SELECT 1 AS n")
    for command in (("plan", "prod"), ("apply", "prod", "--yes")):
        refused = vde(*command, "--project", folder.root)
        assert refused.code == 2
        assert "all 3 models of 'prod'" in refused.err
        assert "--remove-models" in refused.err
    meant = vde("plan", "prod", "--remove-models", "--project", folder.root, "--json")
    assert meant.code == 0, meant.err
    assert len(meant.json["views"]["dropped"]) == 3
