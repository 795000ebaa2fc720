"""A store per test, on SQLite and on a real PostgreSQL, with a clock that the test moves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An up-to-date database file to copy: migrating one takes longer than most tests."""
    path = tmp_path_factory.mktemp("state") / "empty.db"
    StateStore.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def empty_postgres(postgres: PostgresServer) -> str:
    """The name of an up-to-date database to copy."""
    name = postgres.create_database()
    StateStore.open(postgres.url(name)).close()
    return name


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of database; every test that uses it runs on each."""
    return str(request.param)


@pytest.fixture
def url(
    backend: str, tmp_path: Path, empty_database: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The URL of an up-to-date database with nothing in it."""
    if backend == "sqlite":
        shutil.copy(empty_database, tmp_path / "vde.db")
        yield f"sqlite:///{tmp_path / 'vde.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create_database(request.getfixturevalue("empty_postgres"))
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def store(url: str, clock: FakeClock) -> Iterator[StateStore]:
    opened = StateStore.open(url, clock=clock)
    yield opened
    opened.close()
