"""The quick starts of docs/quickstart.md for existing projects, up to the first computation.

`vde apply` and `vde ui` of such projects are covered with Spark in
`execution/test_sqlmesh_project_on_spark.py` and `dbt/test_life_on_spark.py`.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Vde

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "vde_dagster_tests" / "fixtures"
PROJECTS = {"SQLMesh": FIXTURES / "sqlmesh_project", "dbt": FIXTURES / "dbt" / "shop"}


def _commands(tool: str) -> list[str]:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    row = re.search(rf"^\| {tool} \| (.*?) \|", page, re.MULTILINE)
    assert row is not None
    return re.findall(r"`(.*?)`", row[1])


@pytest.mark.parametrize("tool", PROJECTS)
def test_an_existing_project_is_planned_by_the_commands_of_the_page(
    tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vde: Vde
) -> None:
    commands = _commands(tool)
    assert len(commands) == 3
    root = tmp_path / "project"
    shutil.copytree(PROJECTS[tool], root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    monkeypatch.chdir(root)
    monkeypatch.setenv("VDE_DBT__COMPILE", "false")
    planned = 0
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "vde"
        if words[0] in ("apply", "ui"):
            continue
        called = vde(*words)
        assert called.code == 0, called.err
        if words[0] == "plan":
            planned += 1
            assert re.search(r"^plan for prod: \d+ added, \d+ to compute", called.out)
            assert "run: vde apply prod" in called.err
    assert planned == 1
    assert {path: path.read_bytes() for path in before} == before, "no file of it changed"


def test_the_readme_and_the_start_page_begin_with_the_same_commands() -> None:
    for page in ("README.md", "docs/index.md"):
        text = (ROOT / page).read_text()
        for tool in PROJECTS:
            row = re.search(rf"^\| a {tool} project \| (.*?) \|$", text, re.MULTILINE)
            assert row is not None
            assert re.findall(r"`(vde .*?)`", row[1])[0] == _commands(tool)[0]
