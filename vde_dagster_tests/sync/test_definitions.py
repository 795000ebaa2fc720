"""`syncs.yaml`: what is wrong in it is told with its place, and plans name syncs as readers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from vde_dagster.errors import ProjectError
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.project.loading.loader import load_project
from vde_dagster.reports.reasons import describe_break
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

WHOLE = """
- name: top
  source: marts.customers
  key: [customer]
  mode: mirror
  sink: http
  to:
    prod: {url: "http://127.0.0.1:9/"}
"""
BROKEN = [
    ("mode: mirror", "mode: mirrored", 4, "a sync is invalid: Invalid enum value 'mirrored'"),
    ("mode: mirror", "mod: mirror", 4, "unknown field `mod`.*'mode'"),
    ("name: top", "name: top of", 1, r"`\$\.name`"),
    ("mode: mirror", "mode: append", 3, "the sync 'top' has a key, and its mode is append"),
    ("  key: [customer]\n", "", 1, "the sync 'top' has no key, and its mode is mirror"),
    ("sink: http", "sink: htp", 7, "no sink 'htp' is installed"),
    ("url:", "uri:", 7, "the sink http is invalid: .*`uri`.*'url'"),
    ("prod:", "'p rod':", 7, "p rod"),
    ("marts.customers", "marts.customer", 1, "the sync 'top' reads marts.customer, which is no"),
    ("    prod:", "    dev: {url: 'http://127.0.0.1:9/'}\n    prod:", 8, "two environments send"),
    ("    prod:", "    PROD: {url: 'http://127.0.0.1:8/'}\n    prod:", 8, "'prod' twice"),
    ('9/"}', '9/", attempts: 0}', 7, "the sink http is invalid: .*>= 1"),
    ('9/"}', '9/", timeout: 0}', 7, "the sink http is invalid: .*> 0"),
    ("- name: top", "- &one\n  name: top", 1, None),
]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path, {**SHOP, "syncs.yaml": WHOLE})


@pytest.mark.parametrize(("old", "new", "line", "said"), BROKEN)
def test_a_mistake_is_told_with_its_place(
    folder: ProjectFolder, old: str, new: str, line: int, said: str | None
) -> None:
    folder.edit("syncs.yaml", old, new)
    if said is None:
        assert load_project(folder.root).exposures
        return
    with pytest.raises(ProjectError, match=said) as raised:
        load_project(folder.root)
    (mistake,) = raised.value.mistakes
    assert mistake.location is not None
    assert str(mistake.location.path) == "syncs.yaml"
    assert mistake.location.line == line
    assert mistake.hint


def test_a_file_that_is_not_utf_8_is_told_with_its_place(folder: ProjectFolder) -> None:
    (folder.root / "syncs.yaml").write_bytes(b"# none\n# f\xfcr alle\n")
    with (
        open_fake(folder.root) as workspace,
        pytest.raises(ProjectError, match=r"syncs\.yaml:2: the file is not UTF-8"),
    ):
        read_syncs(workspace)


@pytest.mark.parametrize("mode", ["mirror", "upsert"])
def test_a_mirror_shares_its_table_with_no_other_sync(folder: ProjectFolder, mode: str) -> None:
    both = [
        {"name": name, "source": "marts.customers", "key": ["customer"], "mode": mode}
        | {"sink": "postgresql", "to": {"prod": {"url": "postgresql://h/d", "table": "t"}}}
        for name in ("one", "other")
    ]
    both[1]["mode"] = "upsert"
    folder.write("syncs.yaml", yaml.safe_dump(both))
    if mode == "mirror":
        with pytest.raises(ProjectError, match="'one' and 'other' write the same table"):
            load_project(folder.root)
    else:
        assert len(load_project(folder.root).exposures) == 2


def test_a_plan_that_breaks_its_columns_names_a_sync(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/marts/customers.sql", "AS revenue FROM", "AS money FROM")
    folder.edit("models/marts/top.sql", "SELECT customer, revenue,", "SELECT customer, money,")
    folder.edit("models/marts/top.sql", "revenue DESC", "money DESC")
    with open_fake(folder.root) as workspace:
        breaks = [one for model in workspace.plan("prod").models for one in model.breaks]
    told = [describe_break(one) for one in breaks if str(one.model) == "marts.customers"]
    assert len(told) == 1
    assert told[0].endswith("the sync top")


def test_commands_of_two_words_are_beside_one_of_one(folder: ProjectFolder, vde: Vde) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plan("dev"))
    here = ("--project", folder.root, "--json")
    found = vde("sync", "status", *here).json["syncs"]
    assert [(one["sync"], one["environment"], one["has"], one["current"]) for one in found] == [
        ("top", "prod", 0, 1)
    ]
    assert "Repair Dagster's record" in vde("sync", "--help").out
    assert "would send" in vde("sync", "plan", "--help").out
    ended = vde("sync", "run", "dev", *here)
    assert (ended.code, ended.json["error"]["message"]) == (
        2,
        "no sync sends from the environment 'dev'",
    )
    ended = vde("sync", "run", "prod", "topp", *here)
    assert ended.code == 2
    assert "'top'" in ended.json["error"]["hint"]
    assert vde("sync", "nothing", *here).code == 2


@pytest.fixture
def vde(capsys: pytest.CaptureFixture[str]) -> Vde:
    from vde_dagster.cli.app import call
    from vde_dagster_tests.cli.conftest import Called

    def run(*arguments: object) -> Called:
        capsys.readouterr()
        code = call([str(argument) for argument in arguments])
        return Called(code, *capsys.readouterr())

    return run
