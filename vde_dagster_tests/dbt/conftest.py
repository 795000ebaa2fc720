"""Copies of the projects of fixtures/dbt, and loads that say which units they read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.plugins.dbt.source import DbtProject
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import LoadedFile

PROJECTS = Path(__file__).parents[1] / "fixtures" / "dbt"
MANIFEST = "target/manifest.json"
SETTINGS = """
[tool.vde]
name = "{name}"
start = "2024-01-01"

[tool.vde.dbt]
compile = false
"""
"""Settings by which recorded manifests are read, whether a dbt is installed or not."""


@dataclass
class DbtCopy:
    """A copy of a dbt project.

    Args:
        root: Its folder.
        read: The unique ids of the nodes that the last load had to read.
    """

    root: Path
    read: list[str]

    def load(self, *, strict: bool = True) -> Project:
        self.read.clear()
        return load_project(self.root, strict=strict)

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the manifest as JSON."""
        path = self.root / MANIFEST
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest, indent=1))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], DbtCopy]:
    read: list[str] = []
    original = DbtProject.read

    def noted(self: DbtProject, path: str, text: str) -> LoadedFile:
        read.append(path.partition("#")[2])
        return original(self, path, text)

    monkeypatch.setattr(DbtProject, "read", noted)

    def copy(name: str) -> DbtCopy:
        root = tmp_path / name
        shutil.copytree(PROJECTS / name, root)
        (root / "pyproject.toml").write_text(SETTINGS.format(name=name))
        return DbtCopy(root, read)

    return copy


@pytest.fixture
def shop(copied: Callable[[str], DbtCopy]) -> DbtCopy:
    return copied("shop")
