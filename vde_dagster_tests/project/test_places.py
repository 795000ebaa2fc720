"""Names that become places, and symbolic links: nothing of a project leads out of its folders."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.errors import ExecutionError, ProjectError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.io.files import MetadataFiles
from vde_dagster.lakehouse.io.locations import table_location
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.plugins.policies.rules import read_rules
from vde_dagster.programs.editor.lenses import lenses
from vde_dagster.programs.editor.session import EditorSession
from vde_dagster.programs.notebook.magics import _write_model
from vde_dagster.programs.notebook.workspace import NotebookWorkspace
from vde_dagster.project.kinds import Seed
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.reading.seeds import read_seed
from vde_dagster.state.db.effects import NoEffects
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.project.conftest import WriteProject

__all__ = ["vde"]

GOOD = "MODEL (name a.good, kind FULL);\nSELECT 1 AS a"
MODEL = "MODEL (name {}, kind FULL);\nSELECT 1 AS a"
SEED = "MODEL (name a.seed, kind SEED (path '{}'));\n"
NAMES = {
    "a folder above": ("`x/../../ns`.`../escaped`", "contains '/'"),
    "an absolute path": ("`/tmp`.`m`", "contains '/'"),
    "a slash in the name": ("a.`b/c`", "contains '/'"),
    "a backslash": (r"a.`..\\..\\x`", "contains '\\'"),
    "two dots": ("a.`..`", "contains '..'"),
    "two dots within": ("a.`b..c`", "contains '..'"),
    "two dots as the schema": ("`..`.m", "contains '..'"),
    "a dot": ("a.`.`", "begins or ends with a dot"),
    "a hidden folder": ("`.vde`.m", "begins or ends with a dot"),
    "a dot at the end": ("a.`m.`", "begins or ends with a dot"),
    "a NUL": ("a.`m\0n`", "control character U+0000"),
    "a line's end": ("a.`m\nn`", "control character U+000A"),
    "an escape": ("a.`m\x1b[2Jn`", "control character U+001B"),
    "a deletion": ("a.`m\x7fn`", "control character U+007F"),
    "a line separator": ("a.`m\u2028n`", "control character U+2028"),
    "a reordering mark": ("a.`m\u202egnp.n`", "control character U+202E"),
    "too many bytes": (f"a.`{'é' * 100}`", "200 bytes"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_cannot_be_a_folder_is_refused_with_its_place(
    write_project: WriteProject, case: str, vde: Vde
) -> None:
    name, flaw = NAMES[case]
    root = write_project({"models/m.sql": MODEL.format(name)})
    with pytest.raises(ProjectError) as caught:
        load_project(root, use_cache=False)
    assert str(caught.value.location).startswith("models/m.sql:1")
    assert flaw in caught.value.message
    assert caught.value.message.isprintable()
    done = vde("plan", "dev", "--project", root)
    assert done.code == 2
    assert "models/m.sql:1" in done.err
    assert not (root / ".vde" / "warehouse").exists()


@pytest.mark.parametrize(
    "files",
    [
        {
            "models/m.py": "from vde_dagster import model\n"
            "@model('a.`../m`', columns={'a': 'int'})\n"
            "def execute(context, start, end, execution_time):\n    return None\n"
        },
        {
            "models/m.sql": "MODEL (name a.@name, kind FULL, blueprints ((name := '`../x`')));\n"
            "SELECT 1 AS a"
        },
        {
            "models/m.sql": "MODEL (name a.`@{place}`, kind FULL);\nSELECT 1 AS a",
            "pyproject.toml": "[tool.vde.variables]\nplace = '../x'\n",
        },
        {
            "models/m.sql": SEED.replace("a.seed", "a.`../seed`").format("../c.csv"),
            "c.csv": "a\n1\n",
        },
        {"models/m.sql": "MODEL (name a.`../v`, kind VIEW);\nSELECT 1 AS a"},
    ],
)
def test_names_of_every_kind_of_file_are_checked(
    write_project: WriteProject, files: dict[str, str]
) -> None:
    with pytest.raises(
        ProjectError, match=r"models/m.(sql|py):\d.*in the name of a model contains"
    ):
        load_project(write_project(files), use_cache=False)


def test_tables_of_others_have_any_name(write_project: WriteProject) -> None:
    root = write_project({"models/m.sql": "MODEL (name a.m, kind FULL);\nSELECT x FROM r.`b/c d`"})
    assert len(load_project(root, use_cache=False).models) == 2


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("../x", "y"),
        ("a", "../../y"),
        ("..", ".."),
        ("/etc", "passwd"),
        ("a", "b#c"),
        ("a?", "b%2e"),
    ],
)
def test_a_location_lies_in_the_warehouse_whatever_the_name(namespace: str, name: str) -> None:
    found = table_location("file:///w", TableRef(namespace, name), "id1")
    parts = found.removeprefix("file:///w/").split("/")
    assert len(parts) == 2
    assert not {"", ".", ".."} & set(parts)
    assert not set("#?%\\") & set(found)


def test_no_metadata_is_written_or_deleted_by_a_path_that_climbs(tmp_path: Path) -> None:
    inside, outside = tmp_path / "w" / "x", tmp_path / "victim"
    inside.mkdir(parents=True)
    outside.write_text("kept")
    files = MetadataFiles(NoEffects(), f"file://{tmp_path}/w")
    climbing = f"file://{inside}/../../victim"
    for attempt in (
        lambda: files.write_all([(f"{climbing}.json", b"")], "some point"),
        lambda: files.delete_all([climbing], "some point"),
        lambda: files.delete_tree(climbing, "some point"),
    ):
        with pytest.raises(ExecutionError, match=r"contains .\.\."):
            attempt()
    assert sorted(os.listdir(tmp_path)) == ["victim", "w"]


def _link(root: Path, path: str, target: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)


LINKS = {
    "a dangling model": ("models/m.sql", "nowhere.sql", "is broken"),
    "a dangling folder": ("models/more", "../nowhere", "is broken"),
    "a model outside": ("models/m.sql", "../../outside/m.sql", "leads out of the project"),
    "a folder outside": ("models/more", "../../outside", "leads out of the project"),
    "an absolute target": ("models/m.sql", "/etc/passwd", "leads out of the project"),
    "a device": ("models/m.sql", "/dev/zero", "leads out of the project"),
    "a chain outside": ("models/m.sql", "../chain.sql", "leads out of the project"),
    "a loop of one": ("models/m.sql", "m.sql", "points to itself"),
    "a loop of folders": ("models/more", ".", "points to a folder that contains it"),
    "a loop above": ("models/more/again", "../..", "points to a folder that contains it"),
    "macros outside": ("macros/m.py", "../../outside/m.py", "leads out of the project"),
    "a folder of macros outside": ("macros", "../outside", "leads out of the project"),
    "templates outside": ("macros/t.sql", "../../outside/m.sql", "leads out of the project"),
    "an audit outside": ("audits/m.sql", "../../outside/m.sql", "leads out of the project"),
    "a test outside": ("tests/test_m.yaml", "../../outside/t.yaml", "leads out of the project"),
    "external models outside": ("external_models.yaml", "../outside/t.yaml", "leads out"),
    "exposures outside": ("exposures.yaml", "../outside/t.yaml", "leads out of the project"),
    "a dangling exposure": ("exposures.yaml", "nowhere.yaml", "is broken"),
    "a rule of the linter outside": ("linter/m.py", "../../outside/m.py", "leads out"),
    "metrics outside": ("metrics/m.yaml", "../../outside/t.yaml", "leads out of the project"),
}


@pytest.mark.parametrize("case", LINKS)
@pytest.mark.timeout(60)
def test_a_link_that_leads_astray_is_one_mistake_and_the_rest_is_read(
    write_project: WriteProject, case: str, tmp_path: Path
) -> None:
    path, target, flaw = LINKS[case]
    root = write_project({"models/good.sql": GOOD})
    for name in ("m.sql", "m.py", "t.yaml"):
        (tmp_path / "outside").mkdir(exist_ok=True)
        (tmp_path / "outside" / name).write_text(MODEL.format("a.m") if name == "m.sql" else "")
    if case == "a chain outside":
        _link(root, "chain.sql", "../outside/m.sql")
    load_project(root)  # The next one finds a cache.
    _link(root, path, target)
    for use_cache in (True, False):
        project = load_project(root, strict=False, use_cache=use_cache)
        assert [str(name) for name in project.models] == ["a.good"]
        (problem,) = project.problems
        assert problem.location is not None
        assert problem.location.path.as_posix() == path
        assert flaw in problem.message
    session = EditorSession(root)
    try:
        assert lenses(session.read(), session.preview_plan(), "models/good.sql")
    finally:
        session.close()


@pytest.mark.parametrize("file", ["pyproject.toml", "config.yaml", ".env"])
def test_settings_are_not_read_through_a_link_that_leaves(
    write_project: WriteProject, tmp_path: Path, file: str
) -> None:
    root = write_project({"models/good.sql": GOOD})
    (tmp_path / "theirs").write_text("")
    _link(root, file, "../theirs")
    with pytest.raises(ProjectError, match=f"symbolic link {file} leads out of the project"):
        load_project(root)


@pytest.mark.parametrize("written", ["../../outside/c.csv", "{outside}/c.csv", "../c.csv"])
def test_a_seed_reads_no_file_outside_of_the_project(
    write_project: WriteProject, tmp_path: Path, written: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.csv").write_text("a\n1\n")
    root = write_project({"models/m.sql": SEED.format(written.format(outside=outside))})
    if written == "../c.csv":
        _link(root, "c.csv", str(outside / "c.csv"))
    with pytest.raises(ProjectError, match=r"models/m.sql:1: .* is outside the project"):
        load_project(root, use_cache=False)


def test_links_within_the_project_are_read(write_project: WriteProject) -> None:
    root = write_project({"shared/good.sql": GOOD, "models/x.sql": MODEL.format("a.x")})
    _link(root, "models/good.sql", "../shared/good.sql")
    assert {str(name) for name in load_project(root).models} == {"a.good", "a.x"}


@pytest.mark.parametrize(
    "key", ["models_dir", "macros_dir", "audits_dir", "seeds_dir", "tests_dir"]
)
@pytest.mark.parametrize("folder", ["..", "../other", "a/../../b", "/etc", "C:/a", "a/..", "\\\\a"])
def test_folders_of_settings_lie_in_the_project(
    write_project: WriteProject, key: str, folder: str
) -> None:
    root = write_project({"pyproject.toml": f"[tool.vde]\n{key} = {folder!r}\n"})
    with pytest.raises(ProjectError, match=rf"pyproject.toml:2.*'{key}' is .* outside of the"):
        load_project(root, use_cache=False)


@pytest.mark.parametrize(
    "file", ["../rules.yaml", "{outside}", "linked.yaml", "a/../../rules.yaml"]
)
def test_rules_are_read_in_the_project_alone(tmp_path: Path, file: str) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (tmp_path / "rules.yaml").write_text("secret: text\n")
    _link(root, "linked.yaml", "../rules.yaml")
    with pytest.raises(UsageError, match="is outside the project's folder") as caught:
        read_rules(Workspace.open(root), (file.format(outside=tmp_path / "rules.yaml"),))
    assert "secret" not in str(caught.value)


def test_a_stored_seed_names_no_file_outside_of_the_project(
    write_project: WriteProject, tmp_path: Path
) -> None:
    root = write_project({"models/m.sql": SEED.format("../c.csv"), "c.csv": "a\n1\n"})
    (model,) = load_project(root, use_cache=False).models.values()
    assert isinstance(model.kind, Seed)
    for path in ("../c.csv", str(tmp_path / "c.csv")):
        moved = replace(model, kind=replace(model.kind, path=path))
        (tmp_path / "c.csv").write_text("a\n1\n")
        with pytest.raises(UsageError, match="is outside the project's folder"):
            read_seed(root, moved)


@pytest.mark.parametrize("path", ["../../x.yaml", "/tmp/x.yaml", "a/../../../x.yaml"])
def test_a_test_is_written_in_the_project_alone(
    write_project: WriteProject, tmp_path: Path, vde: Vde, path: str
) -> None:
    root = write_project({"models/good.sql": GOOD})
    done = vde("test", "--create", "a.good", "--path", path, "--project", root)
    assert done.code == 2
    assert "is outside the project's folder" in done.err
    assert not list(tmp_path.rglob("x.yaml"))


@pytest.mark.parametrize("name", ["`../x`.m", "a.`../../x`", "`/tmp`.`m`", "a.`m\0`"])
def test_a_notebook_writes_models_in_the_project_alone(
    write_project: WriteProject, tmp_path: Path, name: str
) -> None:
    root = write_project({"models/good.sql": GOOD})
    before = sorted(tmp_path.rglob("*"))
    with (
        NotebookWorkspace.open(root) as workspace,
        pytest.raises(UsageError, match="in the name of a model contains"),
    ):
        _write_model(workspace, name, "FULL", "SELECT 1 AS a", "dev")
    assert [path for path in sorted(tmp_path.rglob("*")) if path.suffix == ".sql"] == [
        path for path in before if path.suffix == ".sql"
    ]
