"""Two processes that make the tables of a PostgreSQL store at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.migrate import _upgrade
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = %s AND NOT granted"


def waiting(url: str, lock: str = "advisory") -> int:
    """Count who waits for another one's upgrade, or transaction."""
    with psycopg.connect(url) as connection:
        row = connection.execute(WAITING, [lock]).fetchone()
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


def test_who_makes_a_plug_ins_tables_while_another_does_finds_them(
    postgres: PostgresServer,
) -> None:
    url = postgres.url(postgres.create_database())
    metadata = MetaData()
    Table("vde_plugs", metadata, Column("number", Integer, primary_key=True))
    first, second = Database(make_engine(url)), Database(make_engine(url))
    with ThreadPoolExecutor(1) as pool:
        with first.transaction("test.first") as connection:
            metadata.create_all(connection)
            other = pool.submit(second.ensure_tables, metadata)
            end = time.monotonic() + 60
            while not waiting(url, "transactionid"):
                assert time.monotonic() < end
                assert not other.done(), other.result()
                time.sleep(0.02)
        other.result(60)
    assert second.has_table("vde_plugs")
    second.ensure_tables(metadata)
    first.close()
    second.close()
