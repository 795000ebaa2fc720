"""`vde format`: files are laid out where the same models come of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from stat import S_IMODE

import pytest

from vde_dagster.execution.project_files import format_files
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

CORNERS = Path(__file__).parents[1] / "fixtures/sqlmesh_project"


def versions(root: Path) -> dict[str, tuple[str, ...]]:
    models = load_project(root, use_cache=False).models
    return {
        str(name): (snapshot.meaning, *(column.version for column in snapshot.columns))
        for name, snapshot in build_snapshots(models, lambda name: None).items()
    }


@pytest.mark.proof
def test_a_project_keeps_its_versions_and_is_laid_out_once(tmp_path: Path, vde: Vde) -> None:
    root = Path(shutil.copytree(CORNERS, tmp_path / "project"))
    before, files = versions(root), {p: p.read_text() for p in root.glob("**/*.sql")}
    looked_at = vde("format", "--check", "--project", root, "--json")
    assert looked_at.code == 1
    assert {path: path.read_text() for path in files} == files
    written = vde("format", "--project", root, "--json")
    assert written.code == 0
    assert written.json == looked_at.json
    assert written.json["left_alone"] == []
    changed = [path for path in files if path.read_text() != files[path]]
    assert sorted(p.relative_to(root).as_posix() for p in changed) == written.json["changed"]
    assert len(changed) > 5
    assert versions(root) == before
    again = vde("format", "--project", root)
    assert (again.code, again.out) == (0, f"{len(files) - 1} files: nothing to format\n")


@pytest.fixture
def two(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(
        tmp_path / "two",
        {
            "models/a.sql": "MODEL (name x.a); select 1 as a",
            "models/b.sql": "MODEL (name x.b); select a from x.a",
        },
    )


def test_files_and_models_are_chosen_by_path_and_pattern(two: ProjectFolder, vde: Vde) -> None:
    call = "format", "--check", "--project", two.root, "--json"
    assert vde(*call, "models/a.sql").json["changed"] == ["models/a.sql"]
    assert vde(*call, two.root / "models/b.sql").json["changed"] == ["models/b.sql"]
    assert vde(*call, "x.a+").json["changed"] == ["models/a.sql", "models/b.sql"]
    assert "models/c.sql" in vde(*call, "models/c.sql").json["error"]["message"]


@pytest.mark.parametrize("command", ["format", "lint"])
def test_a_file_keeps_its_line_ends_permissions_and_link(
    command: str, two: ProjectFolder, vde: Vde
) -> None:
    file, target = two.root / "models/b.sql", two.root / "shared/b.sql"
    target.parent.mkdir()
    target.write_bytes(b"MODEL (name x.b);\r\nselect aa from x.a\r\n")
    target.chmod(0o664)
    file.unlink()
    file.symlink_to(target)
    if command == "format":
        target.write_bytes(target.read_bytes().replace(b"aa", b"a"))
    call = ("format",) if command == "format" else ("lint", "--fix")
    assert vde(*call, "--project", two.root).code == 0
    assert file.is_symlink()
    assert S_IMODE(target.stat().st_mode) == 0o664
    content = target.read_bytes()
    assert b"aa" not in content
    assert content.count(b"\r\n") == content.count(b"\n") > 1


def test_words_of_statements_that_have_a_version_stay_as_they_are(
    two: ProjectFolder, vde: Vde
) -> None:
    two.write("models/a.sql", "MODEL (name x.a); insert into t select 1 as n; SELECT 1 AS a")
    before = versions(two.root)
    assert vde("format", "--project", two.root).code == 0
    assert "insert into t\nselect\n  1 as n;\n" in (two.root / "models/a.sql").read_text()
    assert versions(two.root) == before


def test_a_file_of_which_another_model_would_come_is_left_alone_and_named(
    two: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(path: Path, text: str, *_: object) -> str:
        return text.replace("1 as a", "2 as a").replace("select a", "SELECT a")

    monkeypatch.setattr(format_files, "format_text", other)
    done = vde("format", "--project", two.root, "--json")
    assert done.code == 1
    assert done.json["changed"] == ["models/b.sql"]
    [left] = done.json["left_alone"]
    assert left == {
        "file": "models/a.sql",
        "line": 1,
        "reason": "formatting would change the version of x.a",
    }
    assert "1 as a" in (two.root / "models/a.sql").read_text()


def test_nothing_is_laid_out_in_a_project_with_mistakes(two: ProjectFolder, vde: Vde) -> None:
    two.write("models/b.sql", "MODEL (name x.b); select nothing from x.a")
    done = vde("format", "--project", two.root, "--json")
    assert done.code == 2
    assert done.json["error"]["file"] == "models/b.sql"
    assert "select 1 as a" in (two.root / "models/a.sql").read_text()
