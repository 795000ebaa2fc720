"""A project of SQLMesh with the forms of its language loads as it is; the fuzzer spoils it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parents[1] / "fixtures/sqlmesh_project"


def test_every_file_loads_and_every_model_has_a_version(tmp_path: Path) -> None:
    root = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    project = load_project(root, use_cache=False)
    assert {str(name) for name, model in project.models.items() if not model.kind.is_external} == {
        "sales.orders",
        *(
            f"{customer}.{model}"
            for customer, model in (("acme", "orders_a"), ("zeta", "orders_b"))
        ),
        "default.shops_have_days",
        *(f"{customer}.code" for customer in ("acme", "zeta")),
        *(f"listed.list_{which}" for which in ("one", "two")),
        *(f"marts.{name}" for name in ("days", "history", "kept", "spine", "templated")),
        *(f"marts.{name}" for name in ("united", "written")),
    }
    assert len(project.tests) == 4
    assert set(build_snapshots(project.models, lambda name: None)) >= set(project.models)
