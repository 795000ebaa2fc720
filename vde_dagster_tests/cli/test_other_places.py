"""A folder without models, and one with another warehouse, change nothing by any command."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.cli.test_every_command import COMMANDS, SLOW, _examples, _is_bounded
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

ID = '[tool.vde]\nid = "shop"\nname = "shop"\n'
CHANGERS = {"rollback", "freeze", "drop", "token create", "plan"}
"""Commands that change something in this shop; each that turns out to is checked, listed or not."""
MORE = {"freeze": [["freeze", "prod", "kept"]]}
"""Calls beside the examples of the help."""
ON_PURPOSE = "state use-warehouse"
"""The command that is for another warehouse."""
EMPTY = {
    "no files": {},
    "an empty folder of models": {"models/.keep": ""},
    "an empty file": {"models/a.sql": ""},
    "a file of Python without models": {"models/__init__.py": "", "models/b.py": "x = 1\n"},
    "external tables": {"external_models.yaml": "- {name: raw.x, columns: {a: INT}}\n"},
    "macros and tests": {"macros/a.py": "x = 1\n", "tests/test_a.yaml": "{}\n"},
    "an audit": {"audits/a.sql": "AUDIT (name a);\nSELECT 1\n"},
    "data": {"models/a.csv": "a\n1\n", "seeds/b.csv": "a\n1\n"},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A shop in production twice and in development, with an edit that waits."""
    made = ProjectFolder(tmp_path_factory.mktemp("places") / "shop", SHOP)
    made.write("pyproject.toml", ID)
    with open_fake(made.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        made.edit("models/marts/top.sql", "revenue DESC", "revenue")
    with open_fake(made.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plan("dev"))
        workspace.maintenance.export_state(made.root / "state.jsonl.gz")
    made.edit("models/marts/top.sql", "BY revenue", "BY revenue + 1")
    return made


@pytest.fixture(autouse=True)
def _fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(self: Workspace) -> FakeSpark:
        fake = FakeSpark()
        fake.attach(self.lakehouse)
        return fake

    monkeypatch.setattr(Workspace, "engine", engine)
    monkeypatch.setattr(Workspace, "require_engine", lambda self: None)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    # Spark's scripts read it, so `engine prepare` has nothing to keep: an archive takes minutes.
    monkeypatch.setenv("SPARK_CONF_DIR", "/nowhere")


def _contents(shop: ProjectFolder) -> tuple[list[str], list[str]]:
    """Return all rows of the state, and all files of the warehouse."""
    with sqlite3.connect(f"file:{shop.root}/.vde/vde.db?mode=ro", uri=True) as connection:
        rows = list(connection.iterdump())
    warehouse = shop.root / ".vde" / "warehouse"
    return rows, sorted(str(path) for path in warehouse.rglob("*"))


def _elsewhere(shop: ProjectFolder, folder: Path, files: dict[str, str], more: str = "") -> Path:
    """Make a folder of the same project that has the shop's state."""
    state = f'state_url = "sqlite:///{shop.root}/.vde/vde.db"\n'
    made = ProjectFolder(folder, files)
    made.write("pyproject.toml", ID + state + more)
    shutil.copy(shop.root / "state.jsonl.gz", folder)
    return folder


@pytest.mark.proof
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=SLOW.get(command, ()))
        for command in COMMANDS
        if _is_bounded(command)
    ],
)
def test_no_command_changes_the_state_from_another_place(
    command: str, shop: ProjectFolder, tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _contents(shop)
    models = {name: text for name, text in SHOP.items() if name.startswith(("models", "seeds"))}
    places = {
        "no models": _elsewhere(shop, tmp_path / "empty", {}),
        "the default warehouse of another folder": _elsewhere(shop, tmp_path / "copy", models),
        "a warehouse of its own": _elsewhere(
            shop, tmp_path / "own", models, f'warehouse = "{tmp_path}/elsewhere"\n'
        ),
    }
    if command == ON_PURPOSE:
        places = {"no models": places["no models"]}
    calls = [*_examples(command), *MORE.get(command, ())]
    codes: dict[str, list[int]] = {}
    for name, root in places.items():
        monkeypatch.chdir(root)
        codes[name] = [vde(*words).code for words in calls]
        assert _contents(shop) == before, name
        assert not list(tmp_path.rglob("*.metadata.json")), name
        assert not (tmp_path / "elsewhere").exists(), name
    kept = tmp_path / "kept"
    shutil.copytree(shop.root, kept)
    monkeypatch.chdir(shop.root)
    changes = []
    try:
        for words in calls:
            vde(*words)
            changes.append(_contents(shop)[0] != before[0])
    finally:
        shutil.rmtree(shop.root)
        shutil.copytree(kept, shop.root)
    for name, ended in codes.items():
        for words, code, changed in zip(calls, ended, changes, strict=True):
            assert code == 2 or not changed, (name, words)
    assert any(changes) or command not in CHANGERS


@pytest.mark.parametrize("files", EMPTY.values(), ids=EMPTY)
def test_a_folder_without_models_runs_nothing(
    shop: ProjectFolder, tmp_path: Path, vde: Vde, files: dict[str, str]
) -> None:
    before = _contents(shop)
    root = _elsewhere(
        shop, tmp_path / "empty", files, f'warehouse = "{shop.root}/.vde/warehouse"\n'
    )
    for words in (["run", "prod"], ["rollback", "prod"], ["janitor"], ["freeze", "prod", "kept"]):
        ended = vde(*words, "--project", root)
        assert ended.code == 2, words
        assert "there are no models in" in ended.err
    assert _contents(shop) == before


SAME = ["{0}", "{0}/", "file://{0}", "file:{0}", "{0}/../warehouse", "file:///{0}//"]


@pytest.mark.parametrize("spelling", SAME)
def test_another_spelling_of_the_same_warehouse_is_the_same(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch, spelling: str, vde: Vde
) -> None:
    monkeypatch.setenv("VDE_WAREHOUSE", spelling.format(shop.root / ".vde" / "warehouse"))
    assert vde("janitor", "--dry-run", "--project", shop.root).code == 0


def test_a_warehouse_is_changed_by_one_command(tmp_path: Path, vde: Vde) -> None:
    shop = ProjectFolder(tmp_path / "shop", SHOP)
    shop.write("pyproject.toml", ID)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    shop.write("pyproject.toml", f'{ID}warehouse = "{tmp_path}/moved"\n')
    refused = vde("rollback", "prod", "--project", shop.root)
    assert refused.code == 2
    assert f"are in the warehouse file://{shop.root}/.vde/warehouse" in refused.err
    assert f"this project's warehouse is file://{tmp_path}/moved" in refused.err
    assert "vde state use-warehouse" in refused.err
    done = vde("state", "use-warehouse", "--project", shop.root, "--json")
    assert done.json["now"] == f"file://{tmp_path}/moved"
    assert vde("janitor", "--project", shop.root).code == 0
    with open_fake(shop.root) as workspace:
        assert workspace.store.project.recorded_warehouse() == f"file://{tmp_path}/moved"
