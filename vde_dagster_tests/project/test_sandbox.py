"""Jinja in a project's files is data: it reaches no Python, and ends in time and memory."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.notebook.workspace import NotebookWorkspace
from vde_dagster.project import sandbox
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.project.conftest import WriteProject
from vde_dagster_tests.project.escape_search import BLOCK, CASES, project_files, search

__all__ = ["vde"]

POPEN = "{{ cycler.__init__.__globals__.os.popen('touch MARK').read() }}"


@pytest.mark.proof
@pytest.mark.parametrize("group", ["escapes", "limits"])
def test_each_template_that_reaches_too_far_is_one_mistake_at_its_place(
    write_project: WriteProject, tmp_path: Path, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "MOST_UNITS", 500_000)  # So many cases take seconds together.
    monkeypatch.setattr(sandbox, "MOST_SIZE", 100_000)
    mark = tmp_path / "mark"
    templates = {name: text.replace("MARK", str(mark)) for name, text in CASES[group].items()}
    before = time.thread_time()
    project = load_project(write_project(project_files(templates)), strict=False, use_cache=False)
    assert not mark.exists()
    found = {str(m.location.path): m for p in project.problems for m in p.mistakes if m.location}
    for n, name in enumerate(templates):
        mistake = found.pop(f"models/m{n}.sql", None)
        assert mistake is not None, f"{name} is rendered"
        assert mistake.location is not None
        assert mistake.location.line in (2, 3), f"{name}: {mistake}"
        assert "root:" not in mistake.message
        assert len(mistake.message) < 300, name
    assert not found
    assert time.thread_time() - before < 60


def test_no_respelled_template_is_rendered(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    found = search(random.Random(seed), 60, tmp_path)
    assert found.templates == 60
    assert not found.rendered


def test_harmless_templates_are_rendered(write_project: WriteProject) -> None:
    templates = {name: text for name, (text, _) in CASES["harmless"].items()}
    project = load_project(write_project(project_files(templates)), use_cache=False)
    queries = {str(name): model.query for name, model in project.models.items()}
    for n, (name, (_, made)) in enumerate(CASES["harmless"].items()):
        query = queries[f"a.m{n}"]
        assert query is not None
        if made is not None:
            assert query.split() == f"SELECT {made} AS a".split(), name


def test_a_template_changes_no_variable_of_other_files(write_project: WriteProject) -> None:
    one = "{% set x = var('some') %}{% do x.append(3) %}{{ x|sum }}"
    files = project_files({"one": one, "two": one})
    files["pyproject.toml"] = "[tool.vde.variables]\nsome = [1, 2]\n"
    project = load_project(write_project(files), use_cache=False)
    assert [m.query for m in project.models.values() if m.query] == ["SELECT 6 AS a"] * 2


PLACES: dict[str, dict[str, str]] = {
    "a query": {"models/m.sql": BLOCK.format("m", POPEN)},
    "a statement": {
        "models/m.sql": "MODEL (name a.m, kind FULL);\nJINJA_STATEMENT_BEGIN;\nSET a = "
        f"{POPEN}\nJINJA_END;\nSELECT 1 AS a"
    },
    "an audit": {
        "audits/x.sql": f"AUDIT (name x);\nJINJA_QUERY_BEGIN;\nSELECT {POPEN}\nJINJA_END;",
        "models/m.sql": "MODEL (name a.m, kind FULL, audits (x));\nSELECT 1 AS a",
    },
    "a file of macros": {
        "macros/m.sql": f"{{% set x = cycler %}}{POPEN}",
        "models/m.sql": BLOCK.format("m", "1"),
    },
    "a unit test": {
        "tests/test_m.yaml": f'test_m:\n  model: a.m\n  inputs: {{}}\n  outputs: "{POPEN}"\n',
        "models/m.sql": "MODEL (name a.m, kind FULL);\nSELECT 1 AS a",
    },
    "external models": {
        "external_models.yaml": f'- name: "{POPEN}"\n',
        "models/m.sql": "MODEL (name a.m, kind FULL);\nSELECT 1 AS a",
    },
    "SQLMesh's configuration": {
        "config.yaml": f'model_defaults:\n  dialect: spark\n  owner: "{POPEN}"\n',
        "models/m.sql": "MODEL (name a.m, kind FULL);\nSELECT 1 AS a",
    },
    "statements before all": {
        "pyproject.toml": '[tool.vde]\nbefore_all = ["""JINJA_STATEMENT_BEGIN;\nSET a = '
        f'{POPEN}\nJINJA_END;"""]\n',
        "models/m.sql": "MODEL (name a.m, kind FULL);\nSELECT 1 AS a",
    },
}


def _load(root: Path, _: Vde) -> None:
    with suppress(ProjectError):
        load_project(root, use_cache=False)


def _open_in_editor(root: Path, _: Vde) -> None:
    session = EditorSession(root)
    try:
        for path in root.rglob("*.sql"):
            session.set_text(path.relative_to(root).as_posix(), path.read_text() + "\n")
        with suppress(ProjectError):
            session.read()
    finally:
        session.close()


def _notebook(root: Path, _: Vde) -> None:
    with suppress(ProjectError), NotebookWorkspace.open(root) as workspace:
        workspace.plan("dev")


def _command(*words: str) -> Callable[[Path, Vde], None]:
    def run(root: Path, vde: Vde) -> None:
        vde(*words, "--project", root)

    return run


DOORS: dict[str, Callable[[Path, Vde], None]] = {
    "load": _load,
    "editor": _open_in_editor,
    "notebook": _notebook,
    "vde plan": _command("plan", "dev"),
    "vde lint": _command("lint"),
    "vde format": _command("format"),
    "vde info": _command("info"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_door_runs_code_of_a_template(
    write_project: WriteProject, tmp_path: Path, vde: Vde, place: str
) -> None:
    mark = tmp_path / "mark"
    files = {path: text.replace("MARK", str(mark)) for path, text in PLACES[place].items()}
    root = write_project(files)
    for name, enter in DOORS.items():
        enter(root, vde)
        assert not mark.exists(), name
