"""What is left on the database server by a lakehouse whose store was closed."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.postgres_server import PostgresServer


def connected(server: PostgresServer, database: str) -> int:
    """Count who is connected to a database."""
    with psycopg.connect(server.url("postgres")) as connection:
        # The server's own workers, such as those that clean up, are no clients.
        query = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = %s AND backend_type = 'client backend'"
        )
        row = connection.execute(query, (database,)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.server
def test_no_connection_outlives_the_store(
    postgres: PostgresServer, empty_postgres: str, tmp_path: Path
) -> None:
    name = postgres.create_database(empty_postgres)
    store = StateStore.open(postgres.url(name))
    lakehouse = Lakehouse(store, "lakehouse", str(tmp_path))
    with pytest.raises(ExecutionError, match="has no table"):
        lakehouse.load_table(TableRef("marts", "daily"))
    assert connected(postgres, name) >= 1
    store.close()
    end = time.monotonic() + 10  # The server notices a little later.
    while connected(postgres, name) and time.monotonic() < end:
        time.sleep(0.05)
    assert connected(postgres, name) == 0
