"""`dg scaffold defs` of a project: the file it writes, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster.components.component_scaffolding import scaffold_object

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster_tests.projects import ProjectFolder

TYPE = "vde_dagster.orchestration.VdeProjectComponent"


@pytest.fixture
def defs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of definitions of a new project of `dg`, which is the working directory."""
    package = f"scaffolded_{tmp_path.name}".replace("-", "_")
    root = tmp_path / "dagster_project"
    folder = root / package / "defs"
    folder.mkdir(parents=True)
    for part in (folder, folder.parent):
        (part / "__init__.py").touch()
    (root / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package}"\n'
    )
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.chdir(root)
    return folder


def scaffold(defs: Path, project: str, format: str = "yaml") -> Path:
    """Do what `dg scaffold defs TYPE warehouse --project PROJECT` does."""
    target = defs / "warehouse"
    scaffold_object(target, TYPE, json.dumps({"project": project}), format, Path.cwd())
    return target


@pytest.mark.parametrize("format", ["yaml", "python"])
def test_what_it_writes_is_the_projects_code_location(
    format: str, days: ProjectFolder, defs: Path
) -> None:
    target = scaffold(defs, "../days", format)
    (written,) = [path for path in target.iterdir() if path.name != "__pycache__"]
    if format == "yaml":
        assert yaml.safe_load(written.read_text()) == {
            "type": TYPE,
            "attributes": {"project": "../../../../days"},
        }
    try:
        found = dg.load_from_defs_folder(path_within_project=target)
    finally:
        for name in [name for name in sys.modules if name.startswith("scaffolded_")]:
            del sys.modules[name]
    keys = {key.to_user_string() for key in found.resolve_asset_graph().get_all_asset_keys()}
    assert {"marts/daily", "vde/plan"} <= keys


@pytest.mark.parametrize(
    ("project", "said"),
    [("..", "there are no models in"), ("../nowhere", "nowhere does not exist")],
)
def test_a_folder_without_models_is_refused_and_nothing_is_written(
    project: str, said: str, defs: Path
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        scaffold(defs, project)
    assert "vde init" in (refused.value.hint or "")
    assert not (defs / "warehouse").exists()


def test_wrong_settings_are_told_with_their_place(days: ProjectFolder, defs: Path) -> None:
    days.write("pyproject.toml", "[tool.vde]\nconcurency = 3\n")
    with pytest.raises(ProjectError, match="concurency"):
        scaffold(defs, "../days")
    assert not (defs / "warehouse").exists()


def test_the_projects_folder_has_to_be_given(defs: Path) -> None:
    with pytest.raises(ValueError, match="project"):
        scaffold_object(defs / "warehouse", TYPE, "{}", "yaml", Path.cwd())
    assert not (defs / "warehouse").exists()
