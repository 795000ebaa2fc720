"""`vde state export`, `vde state import` and `vde fsck`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vde_dagster.cli.commands.project import new_project
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark


def test_an_export_read_into_another_database_shows_the_same(
    unchanged: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    file = tmp_path / "state.gz"
    told = vde("state", "export", file, "--project", unchanged.root, "--json")
    assert told.code == 0, told.err
    assert told.json["rows"]["iceberg_tables"] == 5

    other = tmp_path / "other"
    new_project(other)
    warehouse = unchanged.root / ".vde" / "warehouse"
    settings = other / "pyproject.toml"
    settings.write_text(settings.read_text() + f'warehouse = "{warehouse}"\n')
    read = vde("state", "import", file, "--project", other, "--json")
    assert read.code == 0, read.err
    assert read.json["rows"] == told.json["rows"]
    for command in (("environments",), ("history", "prod"), ("fsck",)):
        first = vde(*command, "--project", unchanged.root, "--json").json
        assert vde(*command, "--project", other, "--json").json == first
    refused = vde("plan", "prod", "--project", other)
    assert refused.code == 2
    (line,) = re.findall(r'write (\w+ = "[^"]+") below', " ".join(refused.err.split()))
    ours = re.sub(r"(?m)^(id|name) = .*\n", "", settings.read_text())
    settings.write_text(ours.replace("[tool.vde]", f"[tool.vde]\n{line}", 1))
    assert vde("plan", "prod", "--project", other, "--json").json["empty"] is True


def test_an_export_replaces_a_file_only_when_told_to(
    unchanged: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    file = tmp_path / "state.gz"
    file.write_text("mine")
    refused = vde("state", "export", file, "--project", unchanged.root)
    assert refused.code == 2
    assert "--force" in refused.err
    assert file.read_text() == "mine"
    assert vde("state", "export", file, "--force", "--project", unchanged.root).code == 0
    assert file.read_bytes() != b"mine"


def test_an_import_needs_an_export_and_an_empty_database(
    unchanged: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    file = tmp_path / "state.gz"
    assert vde("state", "import", file, "--project", unchanged.root).code == 2
    vde("state", "export", file, "--project", unchanged.root)
    full = vde("state", "import", file, "--project", unchanged.root)
    assert full.code == 2
    assert "not empty" in full.err
    file.write_text("something else")
    assert "is not an export" in vde("state", "import", file, "--project", unchanged.root).err


def test_fsck_names_a_lost_file_and_says_what_to_do(published: ProjectFolder, vde: Vde) -> None:
    whole = vde("fsck", "--project", published.root, "--json")
    assert (whole.code, whole.json) == (0, {"findings": []})
    with Workspace.open(published.root) as workspace:
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        shown = [entry.table_id for entry in environment.entries.values() if entry.table_id]
        lost = workspace.store.tables.load(shown[:1])[shown[0]]
        location = workspace.lakehouse.metadata_location(lost.ref)
    assert location is not None
    Path(location.removeprefix("file:")).unlink()
    ended = vde("fsck", "--project", published.root, "--json")
    assert ended.code == 1
    (finding,) = ended.json["findings"]
    assert finding["problem"] == "missing_metadata_file"
    assert finding["advice"]
    assert "missing metadata file" in vde("fsck", "--project", published.root).out
