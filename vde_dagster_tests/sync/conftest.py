"""A PostgreSQL server, and a database for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vde_dagster_tests.state.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    name = postgres.create_database()
    yield postgres.url(name)
    postgres.drop_database(name)
