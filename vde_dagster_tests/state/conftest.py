"""A store per test, on a clock that the test moves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.state import StateStore
from vde_dagster_tests.state.builders import FakeClock


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An up-to-date database file to copy: migrating one takes longer than most tests."""
    path = tmp_path_factory.mktemp("state") / "empty.db"
    StateStore.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def url(tmp_path: Path, empty_database: Path) -> str:
    shutil.copy(empty_database, tmp_path / "vde.db")
    return f"sqlite:///{tmp_path / 'vde.db'}"


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[StateStore]:
    opened = StateStore.open(url, clock=clock)
    yield opened
    opened.close()
