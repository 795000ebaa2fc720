"""Workspaces over small projects, on the shared JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder
from vde_dagster_tests.state.conftest import empty_database, empty_postgres, postgres

__all__ = ["empty_database", "empty_postgres", "postgres"]


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """A project of five models over a seed of five orders."""
    return ProjectFolder(tmp_path / "shop", SHOP)


@pytest.fixture
def published(prepared: Prepared, spark_engine: SparkEngine) -> ProjectFolder:
    """The shop, published to production by Spark."""
    return prepared(publish_shop)


def publish_shop(root: Path) -> None:
    """Publish the shop."""
    with Workspace.open(ProjectFolder(root, SHOP).root) as workspace:
        workspace.apply(workspace.plan("prod"))


@pytest.fixture
def open_workspace(spark_engine: SparkEngine) -> Iterator[Callable[[ProjectFolder], Workspace]]:
    """Open a project as a new process would: nothing is remembered but what is on disk.

    The workspaces' engines share the JVM that `spark_engine` keeps alive.
    """
    opened: list[Workspace] = []

    def open_(folder: ProjectFolder) -> Workspace:
        workspace = Workspace.open(folder.root)
        opened.append(workspace)
        return workspace

    yield open_
    for workspace in opened:
        workspace.close()
