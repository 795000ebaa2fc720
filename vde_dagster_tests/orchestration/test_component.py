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
    return load_all(tmp_path, monkeypatch, warehouse=attributes)


def load_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **components: dict[str, object]
) -> dg.Definitions:
    """Load a Dagster project of components, each with its attributes, by folder."""
    package = f"location_{tmp_path.name}".replace("-", "_")
    defs = tmp_path / "dagster_project" / package / "defs"
    for name, attributes in components.items():
        (defs / name).mkdir(parents=True)
        told = {"type": "vde_dagster.orchestration.VdeProjectComponent", "attributes": attributes}
        (defs / name / "defs.yaml").write_text(yaml.safe_dump(told))
    for part in (defs, defs.parent):
        (part / "__init__.py").touch()
    (tmp_path / "dagster_project" / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package}"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "dagster_project"))
    try:
        return dg.load_from_defs_folder(path_within_project=defs)
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
    assert "does not exist" in cause.message
    assert "set `project` in defs.yaml" in (cause.hint or "")


def test_two_projects_are_two_components_of_one_location(
    days: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ProjectFolder(
        tmp_path / "other",
        {
            "models/orders.sql": "MODEL (name staging.orders, kind FULL); SELECT 1 AS n",
            "pyproject.toml": '[tool.vde.dagster]\nprefix = "sales"\n',
        },
    )
    defs = load_all(
        tmp_path, monkeypatch, one={"project": str(days.root)}, two={"project": str(other.root)}
    )
    dg.Definitions.validate_loadable(defs)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"staging/orders", "vde/plan", "sales/staging/orders", "sales/vde/plan"} <= keys


def test_two_projects_of_the_same_names_are_told_what_to_write(
    days: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ProjectFolder(tmp_path / "other", {"models/a.sql": "MODEL (name s.a); SELECT 1 AS n"})
    with pytest.raises(Exception, match=r"defs\.yaml") as raised:
        load_all(
            tmp_path, monkeypatch, one={"project": str(days.root)}, two={"project": str(other.root)}
        )
    cause = raised.value.__cause__
    assert isinstance(cause, UsageError)
    assert str(days.root) in cause.message
    assert str(other.root) in cause.message
    assert 'prefix = "a_name"' in (cause.hint or "")
