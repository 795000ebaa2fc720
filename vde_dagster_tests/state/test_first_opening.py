"""Two processes that open a new PostgreSQL store at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from vde_dagster.state import StateStore
from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.migrate import _upgrade
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def waiting(url: str) -> int:
    """Count who waits for another one's upgrade."""
    with psycopg.connect(url) as connection:
        row = connection.execute(WAITING).fetchone()
    assert row is not None
    return int(row[0])


def test_who_waits_while_another_makes_the_tables_finds_them(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.create_database())
    first = Database(make_engine(url))
    with ThreadPoolExecutor(1) as pool:
        with first.transaction("state.migrate") as connection:
            _upgrade(connection)
            second = pool.submit(StateStore.open, url)
            end = time.monotonic() + 60
            while not waiting(url):
                assert time.monotonic() < end
                assert not second.done(), second.result()
                time.sleep(0.02)
        store = second.result(60)
    assert store.environments.all() == []
    store.close()
    first.close()
