"""A project as a Dagster component, from a `defs.yaml` in a folder of definitions."""

from __future__ import annotations

import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from vde_dagster.errors import UsageError
from vde_dagster_tests.projects import ProjectFolder


def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **attributes: object) -> dg.Definitions:
    """Load a Dagster project whose only definitions are one component."""
    package = f"location_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / "dagster_project" / package / "defs" / "warehouse"
    folder.mkdir(parents=True)
    for part in (folder.parent, folder.parent.parent):
        (part / "__init__.py").touch()
    (tmp_path / "dagster_project" / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package}"\n'
    )
    told = {"type": "vde_dagster.orchestration.VdeProjectComponent", "attributes": attributes}
    (folder / "defs.yaml").write_text(yaml.safe_dump(told))
    monkeypatch.syspath_prepend(str(tmp_path / "dagster_project"))
    try:
        return dg.load_from_defs_folder(path_within_project=folder)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


def test_a_yaml_file_holds_the_whole_code_location(
    days: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dagster_project" / "x" / "defs" / "warehouse"
    relative = Path("../" * len(folder.relative_to(tmp_path).parts)) / days.root.relative_to(
        tmp_path
    )
    defs = load(tmp_path, monkeypatch, project=str(relative))
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert {"marts/daily", "staging/orders", "vde/plan", "vde/apply", "vde/environment"} <= keys
    assert defs.resolve_job_def("vde_apply_job")
    assert defs.resolve_sensor_def("vde_code_changes")


def test_its_translation_decides_how_models_look(
    days: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defs = load(
        tmp_path,
        monkeypatch,
        project=str(days.root),
        translation={
            "group_name": "{{ model.name.namespace }}_models",
            "tags": {"kind": "{{ kind }}"},
            "key_prefix": "lake",
        },
    )
    spec = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}["lake/marts/daily"]
    assert spec.group_name == "marts_models"
    assert spec.tags["kind"] == "INCREMENTAL_BY_TIME_RANGE"
    assert dg.AssetKey(["lake", "staging", "orders"]) in {dep.asset_key for dep in spec.deps}


def test_a_wrong_folder_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception, match=r"defs\.yaml") as raised:
        load(tmp_path, monkeypatch, project="nowhere")
    cause = raised.value.__cause__
    assert isinstance(cause, UsageError)
    assert "there is no folder" in cause.message
    assert "set `project` in defs.yaml" in (cause.hint or "")
