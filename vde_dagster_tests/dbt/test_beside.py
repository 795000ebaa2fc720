"""A dbt project in a folder of a project, whose models and dbt's read each other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.dbt.conftest import MANIFEST, PROJECTS
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "pyproject.toml": "[tool.vde]\nname = 'both'\nsources = ['dbt']\nstart = '2024-01-01'\n",
    # A source of dbt's that the project builds itself, and a reader of dbt's.
    "models/visits.sql": """
        MODEL (name weblog.raw_visits, kind FULL);
        SELECT CAST(1 AS BIGINT) AS visitor, 'home' AS page
    """,
    "models/report.sql": """
        MODEL (name reports.spent, kind FULL);
        SELECT name, total FROM main.customers
    """,
}
"""Files of a project with the dbt project in `transform`."""


def test_models_of_both_make_one_graph(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    shutil.copytree(PROJECTS / "shop", folder.root / "transform")

    models = load_project(folder.root).models

    assert models[ModelName("weblog", "raw_visits")].kind.name == "FULL"
    assert models[ModelName("reports", "spent")].depends_on == (ModelName("main", "customers"),)
    place = models[ModelName("main", "customers")].location
    assert str(place) == "transform/models/marts/customers.sql:1"
    assert len(models) == 18


@pytest.mark.parametrize("same_group", [True, False])
def test_a_private_model_of_dbts_is_read_by_its_group_alone(
    tmp_path: Path, same_group: bool
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    shutil.copytree(PROJECTS / "shop", folder.root / "transform")
    path = folder.root / "transform" / MANIFEST
    manifest = json.loads(path.read_text())
    manifest["nodes"]["model.shop.customers"] |= {"access": "private", "group": "sales"}
    manifest["nodes"]["model.shop.visits"]["group"] = "sales" if same_group else "web"
    path.write_text(json.dumps(manifest))

    mistakes = [str(problem) for problem in load_project(folder.root, strict=False).problems]

    what = "reads main.customers, which is private to the group 'sales'"
    others = [one for one in mistakes if f"visits.sql:3:6: main.visits {what}" in one]
    assert any(one.startswith(f"models/report.sql:2:25: reports.spent {what}") for one in mistakes)
    assert (len(others), len(mistakes)) == ((0, 1) if same_group else (1, 2))


def test_two_dbt_projects_in_one_are_refused(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    for name in ("one", "two"):
        shutil.copytree(PROJECTS / "shop", folder.root / name)

    with pytest.raises(ProjectError, match="there are several dbt projects: one, two"):
        load_project(folder.root)


def test_a_folder_beside_is_left_alone_when_no_setting_names_dbt(tmp_path: Path) -> None:
    files = {**FILES, "pyproject.toml": "[tool.vde]\nname = 'own'\n"}
    folder = ProjectFolder(tmp_path, files)
    shutil.copytree(PROJECTS / "shop", folder.root / "transform")

    kinds = {str(name): model.kind.name for name, model in load_project(folder.root).models.items()}

    assert kinds["main.customers"] == "EXTERNAL"
