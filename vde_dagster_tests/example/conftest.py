"""The example project of this repository."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def example_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example's files, so that its state stays out of the checkout."""
    root = tmp_path_factory.mktemp("example")
    shutil.copytree(
        REPOSITORY / "models", root / "models", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(REPOSITORY / "metrics", root / "metrics")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    return root
