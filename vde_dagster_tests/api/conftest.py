"""A project of one model, and its workspace over a Spark that only pretends to compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.api.workspace import Workspace
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "models/daily.sql": "MODEL (name marts.daily, kind FULL, "
    "audits (not_null(columns := (day))));\n"
    "SELECT DATE '2024-01-01' AS day, 3 AS orders",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """The workspace of a project with the model `marts.daily`."""
    with open_fake(ProjectFolder(tmp_path / "shop", FILES).root) as opened:
        yield opened
