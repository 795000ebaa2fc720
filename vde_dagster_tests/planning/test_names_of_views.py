"""An environment's views never take the names of production's, nor of tables that others write."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder


@pytest.mark.parametrize(
    ("other", "environment"),
    [
        ("MODEL (name gold__sales.a, kind FULL); SELECT 2 AS x", "sales"),
        ("MODEL (name other.b, kind FULL); SELECT x FROM gold__raw.a", "raw"),
    ],
)
def test_an_environment_whose_views_have_taken_names_is_refused(
    tmp_path: Path, other: str, environment: str
) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    folder.write("models/a.sql", "MODEL (name gold.a, kind FULL); SELECT 1 AS x")
    folder.write("models/b.sql", other)
    folder.write("external_models.yaml", "- {name: gold__raw.a, columns: {x: int}}")
    with open_fake(folder.root) as workspace:
        assert workspace.plan("dev").models
        assert workspace.plan("prod").models
        with pytest.raises(
            UsageError, match=f"the view of gold.a in an environment '{environment}'"
        ):
            workspace.plan(environment)
