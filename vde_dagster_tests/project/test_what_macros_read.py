"""Macros and Python models that read files and variables: the cache never hides a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project, load_project_isolated, project_hash
from vde_dagster_tests.project.conftest import WriteProject

HEAD = "from vde_dagster import macro\n"
SQL = "MODEL (name a.m, kind FULL);\nSELECT @rate({}) AS rate"
BODY = "@macro()\ndef rate(evaluator, name: str = 'rate'):\n    return {}\n"


def query(root: Path) -> str:
    """The query of the only model, as two loads agree on it."""
    found = [load(root).models[ModelName("a", "m")].query for load in (load_project,) * 2]
    assert found[0] == found[1]
    return str(found[0])


FILES = {
    "open": HEAD + BODY.format("open('rate.txt').read()"),
    "Path": "from pathlib import Path\n" + HEAD + BODY.format("Path('rate.txt').read_text()"),
    "a path made of the argument": HEAD + BODY.format("open(f'{name}.txt').read()"),
    "when the file of macros is executed": HEAD
    + "RATE = open('rate.txt').read()\n"
    + BODY.format("RATE"),
    "pandas": "import pandas as pd\n"
    + HEAD
    + BODY.format("int(pd.read_csv('rate.txt', header=None)[0].sum())"),
    "where there was none": "import os\n"
    + HEAD
    + "def read():\n    try:\n        return open('more.txt').read()\n"
    + "    except OSError:\n        return open('rate.txt').read()\n"
    + BODY.format("read()"),
    "a folder": "import os\n" + HEAD + BODY.format("len(os.listdir('rates'))"),
    "whether there is one": "import os\n" + HEAD + BODY.format("int(os.path.exists('rates/y'))"),
    "whether a path is one": "from pathlib import Path\n"
    + HEAD
    + BODY.format("int((Path('rates').resolve() / 'y').is_file())"),
    "whether it can be read": "import os\n" + HEAD + BODY.format("int(os.access('rates/y', 4))"),
}


@pytest.mark.parametrize("how", FILES)
@pytest.mark.parametrize("isolated", [False, True])
def test_a_file_that_a_macro_reads(
    how: str, isolated: bool, write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project(
        {"models/m.sql": SQL.format(""), "macros/r.py": FILES[how], "rate.txt": "2", "rates/x": ""}
    )
    monkeypatch.chdir(root)
    before, hash_before = query(root), project_hash(root)
    assert project_hash(root) == hash_before

    (root / "rate.txt").write_text("3")
    (root / "rates" / "y").write_text("")
    if how == "where there was none":
        (root / "more.txt").write_text("4")
    assert project_hash(root) != hash_before
    after = load_project_isolated(root) if isolated else load_project(root)

    assert after.models[ModelName("a", "m")].query != before


VARIABLES = {
    "environ": "import os\n" + HEAD + BODY.format("os.environ['SHOP_RATE']"),
    "get": "import os\n" + HEAD + BODY.format("os.environ.get('SHOP_RATE')"),
    "getenv": "from os import getenv\n" + HEAD + BODY.format("getenv('SHOP_RATE')"),
    "in": "import os\n" + HEAD + BODY.format("int(f'{name.upper()}_RATE' in os.environ)"),
    "all": "import os\n" + HEAD + BODY.format("dict(os.environ).get('SHOP_RATE')"),
    "when the file of macros is executed": "import os\n"
    + HEAD
    + "RATE = os.environ.get('SHOP_RATE')\n"
    + BODY.format("RATE"),
}


@pytest.mark.parametrize("how", VARIABLES)
def test_a_variable_that_a_macro_reads(
    how: str, write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project({"models/m.sql": SQL.format("'shop'"), "macros/r.py": VARIABLES[how]})
    monkeypatch.setenv("SHOP_RATE", "2")
    before, hash_before = query(root), project_hash(root)

    if how == "in":
        monkeypatch.delenv("SHOP_RATE")
    else:
        monkeypatch.setenv("SHOP_RATE", "3")

    assert project_hash(root) != hash_before
    assert query(root) != before


def test_a_macro_that_asks_another_program_is_asked_at_every_load(
    write_project: WriteProject,
) -> None:
    counter = "import subprocess, sys\n" + HEAD
    program = "open('n', 'a').write('x'); print(len(open('n').read()))"
    counter += BODY.format(f"subprocess.check_output([sys.executable, '-c', {program!r}]).decode()")
    root = write_project({"models/m.sql": SQL.format(""), "macros/r.py": counter})
    (root / "macros" / "r.py").write_text(counter.replace("'n'", f"'{root}/n'"))
    name = ModelName("a", "m")

    loads = [load_project(root), load_project(root), load_project_isolated(root)]

    assert len({project.models[name].query for project in loads}) == 3


def test_other_files_are_read_from_the_cache(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project(
        {
            "models/m.sql": SQL.format(""),
            "macros/r.py": "import os\n" + HEAD + BODY.format("open('rate.txt').read()"),
            "rate.txt": "2",
        }
    )
    monkeypatch.chdir(root)
    load_project(root)

    def fail(*_: object) -> None:
        raise AssertionError("an unchanged file was read again")

    monkeypatch.setattr("vde_dagster.project.reading.sql_models.load_sql_file", fail)
    load_project(root)


PYTHON = """
import os
from pathlib import Path
from vde_dagster import model

@model("a.m", columns={"x": "string"})
def m(context):
    return Path("config", "rate.txt").read_text() + os.environ.get("SHOP_RATE", "")
"""


def test_what_a_python_model_reads_is_in_its_version(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project({"models/m.py": PYTHON})

    def version() -> str:
        models = load_project(root).models
        snapshots = build_snapshots(models, lambda name: None)
        return snapshots[ModelName("a", "m")].version.rows

    found = [version()]
    (root / "config").mkdir()
    for text in ("2", "3"):
        (root / "config" / "rate.txt").write_text(text)
        found.append(version())
    monkeypatch.setenv("SHOP_RATE", "4")
    found.append(version())
    monkeypatch.delenv("SHOP_RATE")

    assert len(set(found)) == 4
    assert version() == found[2]
