"""The command line called in this process, and the template's project to call it on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.cli.app import call
from vde_dagster.cli.commands.project import new_project
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.warm import WarmEngine
from vde_dagster_tests.projects import Prepared, ProjectFolder


@dataclass(frozen=True)
class Called:
    """How a call ended.

    Args:
        code: The exit code.
        out: What was written to stdout.
        err: What was written to stderr.
    """

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


Vde = Callable[..., Called]


@pytest.fixture
def vde(capsys: pytest.CaptureFixture[str], engines: list[WarmEngine]) -> Vde:
    """Call `vde` with arguments, and return how that ended."""

    def run(*arguments: object) -> Called:
        capsys.readouterr()
        code = call([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Called(code, out, err)

    return run


@pytest.fixture
def template(tmp_path: Path) -> ProjectFolder:
    """A project as `vde init` makes it."""
    root = tmp_path / "shop"
    new_project(root)
    return ProjectFolder(root)


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine) -> ProjectFolder:
    """The template's project, published to production; for tests that change nothing."""
    root = tmp_path_factory.mktemp("unchanged") / "shop"
    publish_template(root)
    return ProjectFolder(root)


@pytest.fixture
def published(prepared: Prepared, spark_engine: SparkEngine) -> ProjectFolder:
    """The same, for tests that change it."""
    return prepared(publish_template)


def publish_template(root: Path) -> None:
    """Publish the template's project."""
    new_project(root)
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
