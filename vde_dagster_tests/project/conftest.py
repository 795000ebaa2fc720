"""Projects on disk, written from texts."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Model

WriteProject = Callable[[Mapping[str, str]], Path]
LoadModel = Callable[..., Model]


@pytest.fixture(autouse=True)
def _no_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("VDE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def write_project(tmp_path: Path) -> WriteProject:
    """Write files (dedented texts by path) into a new project; return its folder."""

    def write(files: Mapping[str, str]) -> Path:
        root = tmp_path / "shop"
        root.mkdir(exist_ok=True)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip("\n"))
        return root

    return write


@pytest.fixture
def load(write_project: WriteProject) -> Callable[[Mapping[str, str]], Project]:
    """Write files and load the project strictly."""
    return lambda files: load_project(write_project(files))


@pytest.fixture
def load_model(load: Callable[[Mapping[str, str]], Project]) -> LoadModel:
    """Load a project of one model file `a.m`, with other files beside it if need be."""

    def read(text: str, other: Mapping[str, str] | None = None) -> Model:
        return load({"models/m.sql": text, **(other or {})}).models[ModelName("a", "m")]

    return read
