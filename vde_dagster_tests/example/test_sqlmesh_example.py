"""The folder `examples/`: its README lists each example; the SQLMesh project needs no change."""

from __future__ import annotations

import re
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import open_fake

EXAMPLES = Path(__file__).parents[2] / "examples"
LISTED = re.compile(r"^\| \[(\w+)\]\(\1\) \|.* \| `(?:vde|python) .*examples/\1\b.*`", re.M)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the SQLMesh project, whose files are all SQLMesh's."""
    root = tmp_path / "sqlmesh"
    shutil.copytree(EXAMPLES / "sqlmesh", root, ignore=shutil.ignore_patterns(".vde", "*.db"))
    assert not (root / "pyproject.toml").exists()
    return root


def test_the_readme_lists_every_example_with_a_command() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    text = (EXAMPLES / "README.md").read_text("utf-8")
    assert set(LISTED.findall(text)) == folders - {"__pycache__"}


def test_the_sqlmesh_project_is_planned_as_it_is(copied: Path) -> None:
    with open_fake(copied) as workspace:
        plan = workspace.plan("prod")
    kinds = {str(name): one.model.kind.name for name, one in workspace.snapshots().items()}
    assert kinds == {
        "raw.orders": "SEED",
        "staging.orders": "VIEW",
        "marts.customers": "FULL",
        "marts.daily_revenue": "INCREMENTAL_BY_TIME_RANGE",
    }
    assert len(plan.builds) == 3
    (warning,) = plan.warnings
    assert "gateways.*.connection has no effect" in str(warning)


@pytest.mark.spark
def test_the_sqlmesh_project_is_tested_published_and_queried(copied: Path) -> None:
    with Workspace.open(copied) as workspace:
        assert workspace.apply(workspace.plan("prod")).published
        revenue = "SELECT customer_id, revenue FROM marts.customers ORDER BY 1"
        assert workspace.query("prod", revenue).rows == (
            ("ada", Decimal("19.70")),
            ("ben", Decimal("23.30")),
            ("cleo", Decimal("29.99")),
        )
