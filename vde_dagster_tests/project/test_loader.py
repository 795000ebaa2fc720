"""Loading, the cache, and hashes of projects."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.kinds import External, Full, View
from vde_dagster.project.loading.loader import (
    Project,
    load_project,
    load_project_isolated,
    project_hash,
)
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster_tests.project.conftest import WriteProject

FILES = {
    "models/x.sql": "MODEL (name a.x, kind FULL, audits (not_null(columns := (n))));\n"
    "SELECT @one() AS n, s.name FROM raw.t JOIN a.s AS s",
    "models/y.sql": "MODEL (name a.y);\nSELECT n FROM a.x WHERE ds = @end_ds",
    "models/p.py": "from vde_dagster import model\nfrom helpers import h\n\n"
    "@model('a.p', columns={'n': 'int'})\ndef p(context):\n    return context.table('a.x')\n",
    "models/s.sql": "MODEL (name a.s, kind SEED (path '../seeds/s.csv'));",
    "seeds/s.csv": "name,day\nann,2020-01-01\n",
    "macros/m.py": "from vde_dagster import macro\n\n@macro()\n"
    "def one(evaluator):\n    return '1'\n",
    "helpers/h.py": "X = 1\n",
    "tests/test_x.yaml": "t:\n  model: a.y\n  outputs:\n    query: [{n: 2020-01-01}]\n",
    "external_models.yaml": "- name: raw.t\n  columns: {ds: date}\n",
}


@pytest.fixture
def root(write_project: WriteProject) -> Path:
    return write_project(FILES)


def same(a: Project, b: Project) -> bool:
    return (a.models, a.tests, a.settings, a.files_hash) == (
        b.models,
        b.tests,
        b.settings,
        b.files_hash,
    )


def test_models_come_parents_first(root: Path) -> None:
    project = load_project(root)

    assert [str(name) for name in project.models] == ["a.s", "raw.t", "a.x", "a.p", "a.y"]
    assert [test.name for test in project.tests] == ["t"]
    assert project.problems == ()


def test_a_second_load_reads_the_same_from_the_cache(root: Path) -> None:
    first = load_project(root)

    assert same(load_project(root), first)
    assert same(load_project(root, use_cache=False), first)


def test_a_second_load_parses_nothing(root: Path) -> None:
    load_project(root)
    code = (
        "import sys; from pathlib import Path\n"
        "from vde_dagster.project.loading.loader import load_project\n"
        f"print(len(load_project(Path({str(root)!r})).models))\n"
        "heavy = {'sqlglot', 'pydantic', 'yaml', 'pyarrow', 'pandas', 'croniter'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "5\n[]\n"


@pytest.mark.parametrize(
    ("path", "text", "changed"),
    [
        ("models/y.sql", "MODEL (name a.y);\nSELECT 2 AS n", {"a.y"}),
        ("macros/m.py", FILES["macros/m.py"].replace("'1'", "'2'"), {"a.x"}),
        ("seeds/s.csv", "name,day\nbob,2020-01-01\n", {"a.s"}),
        ("helpers/h.py", "X = 2\n", {"a.p"}),
        ("external_models.yaml", "- name: raw.t\n  columns: {ds: string}\n", {"raw.t"}),
        ("pyproject.toml", "[tool.vde]\nowner = 'me'\n", {"a.x", "a.y", "a.p", "a.s"}),
    ],
)
def test_a_changed_file_changes_its_models_and_the_hash(
    root: Path, path: str, text: str, changed: set[str]
) -> None:
    before = load_project(root)
    (root / path).write_text(text)

    after = load_project(root)

    different = {str(n) for n in after.models if after.models[n] != before.models.get(n)}
    if path == "external_models.yaml":
        different &= {"raw.t"}
    assert different == changed
    assert after.files_hash != before.files_hash
    assert project_hash(root) == after.files_hash
    assert same(load_project(root, use_cache=False), after)


def test_a_new_and_a_deleted_file_are_noticed(root: Path) -> None:
    load_project(root)
    (root / "models/y.sql").unlink()
    (root / "tests/test_x.yaml").unlink()
    (root / "models/z.sql").write_text("MODEL (name a.z);\nSELECT 1 AS n")

    names = [str(name) for name in load_project(root).models]

    assert "a.z" in names
    assert "a.y" not in names


def test_an_edit_that_keeps_size_and_time_is_noticed(root: Path) -> None:
    path = root / "models/y.sql"
    stat = path.stat()
    load_project(root)
    path.write_text(FILES["models/y.sql"].replace("SELECT n", "SELECT m"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    model = load_project(root).models[ModelName("a", "y")]

    assert model.query is not None
    assert model.query.startswith("SELECT m")


@pytest.mark.parametrize("damage", [b"", b"{}", b"x" * 1000, b'{"files": 1}'])
@pytest.mark.parametrize("name", ["index.json", "files.bin"])
def test_a_damaged_cache_is_not_trusted(root: Path, name: str, damage: bytes) -> None:
    first = load_project(root)
    path = root / ".vde/cache" / name
    content = path.read_bytes()
    for bad in (damage, content[: len(content) // 2], content.replace(b"a.x", b"a.X")):
        path.write_bytes(bad)
        assert same(load_project(root), first)


def test_a_cache_of_other_code_is_not_trusted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vde_dagster.project.loading import cache

    load_project(root)
    monkeypatch.setattr(cache, "code_stamp", lambda: "another")
    opened = cache.ProjectCache.open(root)
    opened.load_records()

    assert opened.records == {}


@pytest.mark.parametrize("path", ["project/reading/a.py", "sql/a.py", "base/a.py"])
def test_a_change_of_any_code_that_reads_projects_is_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    from vde_dagster.project.loading import cache

    stamp = cache.code_stamp.__wrapped__
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "project/loading/cache.py"))
    before = stamp()
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("a = 1\n")
    new = stamp()
    (tmp_path / path).write_text("a = 10\n")

    assert len({before, new, stamp()}) == 3


@pytest.mark.proof
def test_concurrent_loads_agree(root: Path) -> None:
    (root / "models/s.sql").write_text("MODEL (name a.s);\nSELECT 'ann' AS name")
    code = (
        "import sys; from pathlib import Path\n"
        "from vde_dagster.project.loading.loader import load_project\n"
        f"root = Path({str(root)!r})\n"
        "print({load_project(root).files_hash for _ in range(3)})\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in running]

    hashes = {text for text, _ in outputs}
    assert len(hashes) == 1, outputs
    assert "}" in hashes.pop(), outputs
    # In a new process: what this one has imported for other tests is not the project's.
    compare = (
        "from pathlib import Path\n"
        "from vde_dagster_tests.project.test_loader import load_project, same\n"
        f"root = Path({str(root)!r})\n"
        "print(same(load_project(root), load_project(root, use_cache=False)))\n"
    )
    command = [sys.executable, "-c", compare]
    compared = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compared.stdout == "True\n", compared.stderr
    assert not [p for p in (root / ".vde/cache").iterdir() if p.suffix not in (".json", ".bin")]


def test_several_mistakes_are_one_message_a_line_each(root: Path) -> None:
    (root / "models/x.sql").write_text("MODEL (name a.x, kind FUL);\nSELECT 1")
    (root / "models/y.sql").write_text("MODEL (name a.y);\nSELECT FROM WHERE")

    with pytest.raises(ProjectError) as caught:
        load_project(root)

    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "models/x.sql:1:23" in lines[1]
    assert "models/y.sql:2" in lines[2]


def test_the_rest_of_a_broken_project_loads(root: Path) -> None:
    (root / "models/x.sql").write_text("MODEL (name a.x, kind FUL);\nSELECT 1")

    project = load_project(root, strict=False)

    assert [problem.message for problem in project.problems] == ["unknown kind 'FUL'"]
    assert {str(name) for name in project.models} == {"a.p", "a.s", "a.x", "a.y", "raw.t"}
    assert isinstance(project.models[ModelName("a", "y")].kind, View)
    assert isinstance(project.models[ModelName("a", "x")].kind, External)


def test_duplicates_and_circles_leave_the_rest_standing(
    write_project: WriteProject,
) -> None:
    root = write_project(
        {
            "models/1.sql": "MODEL (name a.one, kind FULL); SELECT 1 AS n",
            "models/2.sql": "MODEL (name a.one); SELECT 2 AS n",
            "models/3.sql": "MODEL (name a.c1); SELECT * FROM a.c2",
            "models/4.sql": "MODEL (name a.c2); SELECT * FROM a.c1",
        }
    )
    project = load_project(root, strict=False)

    assert len(project.problems) == 2
    assert {str(name): model.kind for name, model in project.models.items()} == {"a.one": Full()}


@pytest.mark.proof
def test_an_isolated_load_is_the_same(root: Path) -> None:
    fresh = load_project_isolated(root)

    assert same(fresh, load_project(root))
    assert "helpers" not in sys.modules


@pytest.mark.proof
def test_an_isolated_load_reports_the_same_problems(root: Path) -> None:
    (root / "models/x.sql").write_text("MODEL (name a.x, kind FUL);\nSELECT 1")
    (root / "models/q.sql").write_text("MODEL (name a.q);\nSELECT 1 AS n FROM a.q2")

    isolated = load_project_isolated(root, strict=False)

    assert [(str(p), p.fixes) for p in isolated.problems] == [
        (str(p), p.fixes) for p in load_project(root, strict=False).problems
    ]
    with pytest.raises(ProjectError, match="unknown kind"):
        load_project_isolated(root)


def test_models_survive_json(root: Path) -> None:
    for model in load_project(root).models.values():
        assert from_bytes(Model, to_bytes(model)) == model


def test_an_undeclared_table_of_another_namespace_is_external(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    project = load({"models/m.sql": "MODEL (name a.m); SELECT * FROM raw.x"})

    external = project.models[ModelName("raw", "x")]
    assert isinstance(external.kind, External)
    assert (external.columns, str(external.location)) == ((), "models/m.sql:1:33")


def test_loading_leaves_no_trace_in_the_working_copy_but_the_cache(root: Path) -> None:
    before = {p for p in root.rglob("*") if p.is_file()}

    load_project(root)

    assert {p for p in root.rglob("*") if p.is_file()} - before == {
        root / ".vde/.gitignore",
        root / ".vde/cache/files.bin",
        root / ".vde/cache/index.json",
    }


def test_a_read_only_project_loads(root: Path) -> None:
    (root / ".vde").write_text("not a folder")

    assert len(load_project(root).models) == 5


@pytest.mark.proof
def test_five_hundred_models_load_fast_from_the_cache(write_project: WriteProject) -> None:
    root = write_project(
        {
            f"models/m{i}.sql": f"MODEL (name a.m{i});\nSELECT n + {i} AS n FROM a.m{max(i - 1, 0)}"
            for i in range(1, 500)
        }
        | {"models/m0.sql": "MODEL (name a.m0);\nSELECT 1 AS n"}
    )
    load_project(root)
    started = time.process_time()

    assert len(load_project(root).models) == 500

    assert time.process_time() - started < 0.5
