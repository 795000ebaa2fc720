"""PostgreSQL with clients that vanish in a transaction, others without a pause, and no space."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, OperationalError

from vde_dagster.errors import StoreError
from vde_dagster.state.db.database import Database, is_disconnect, make_engine
from vde_dagster.state.db.leases import DEFAULT_TTL_SECONDS
from vde_dagster.state.retention import Retention
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.state.stalls import make_project, seconds_held

pytestmark = pytest.mark.server
RETENTION = Retention(history_versions=3, history=timedelta(days=30), grace=timedelta(hours=24))
IDLE_SECONDS = 1.5

STOPPED = """
import os, signal, sys
from vde_dagster.errors import VdeError
from vde_dagster.state.store import StateStore
from vde_dagster.state.db.database import Database, is_disconnect, make_engine
store = StateStore(Database(make_engine({url!r}, idle_seconds={idle})))
lease = store.leases.acquire("environment/prod", "stopped", ttl_seconds={idle})
said = []

def work(conn):
    store.leases.check(conn, lease)
    conn.exec_driver_sql("LOCK TABLE vde_environments IN EXCLUSIVE MODE")
    conn.exec_driver_sql("DELETE FROM vde_environments")
    if not said:
        said.append(True)
        print("in a transaction", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

try:
    store.database.run_transaction(work, name="test", idempotent=False)
except VdeError as error:
    print(type(error).__name__, error)
else:
    print("written")
"""


@pytest.fixture
def url(postgres: PostgresServer, empty_postgres: str) -> Iterator[str]:
    name = postgres.create_database(empty_postgres)
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture
def store(url: str) -> Iterator[StateStore]:
    opened = StateStore(Database(make_engine(url, IDLE_SECONDS)))
    yield opened
    opened.close()


def test_a_stopped_client_in_a_transaction_holds_nobody_up(url: str, store: StateStore) -> None:
    code = STOPPED.format(url=url, idle=IDLE_SECONDS)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as stopped:
        try:
            assert stopped.stdout is not None
            assert stopped.stdout.readline() == "in a transaction\n"
            os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
            began = time.monotonic()
            heir = store.leases.acquire("environment/prod", "heir", wait_seconds=10)
            with store.database.transaction() as conn:
                store.leases.check(conn, heir)
                conn.exec_driver_sql("UPDATE vde_environments SET live = live")
            store.retention.mark(RETENTION, write=True)
            assert time.monotonic() - began < 3 * IDLE_SECONDS
            os.kill(stopped.pid, signal.SIGCONT)
            assert "LeaseLostError" in stopped.stdout.read()
        finally:
            os.kill(stopped.pid, signal.SIGCONT)


@pytest.mark.parametrize("rows", [2, 1201])
def test_a_client_that_is_silent_after_a_batch_is_ended(url: str, rows: int) -> None:
    """Drivers send a flush after a batch, which ends the server's count of silence."""
    store = StateStore(Database(make_engine(url, idle_seconds=0.3)))
    batch = [
        {"table_id": f"t{number}", "start_at": number, "end_at": number} for number in range(rows)
    ]
    with store.database.engine.connect() as conn:
        into = text("INSERT INTO vde_intervals VALUES (:table_id, :start_at, :end_at)")
        conn.execute(into, batch)
        time.sleep(0.9)
        with pytest.raises(DBAPIError) as raised:
            conn.exec_driver_sql("SELECT 1")
    store.close()
    assert is_disconnect(raised.value)


def test_the_message_that_begins_a_transaction_limits_it(store: StateStore, tmp_path: Path) -> None:
    """A client may be stopped behind each message."""
    log = tmp_path / "messages"
    with log.open("w") as file, store.database.engine.connect() as conn:
        wire = conn.connection.driver_connection.pgconn  # type: ignore[union-attr]
        wire.trace(file.fileno())
        with conn.begin():
            conn.exec_driver_sql("SELECT 1")
        wire.untrace()
    first, *later = [line for line in log.read_text().splitlines() if "\tQuery\t" in line]
    assert '"BEGIN ISOLATION LEVEL SERIALIZABLE;SET LOCAL idle_in_tra' in first
    assert not any("BEGIN" in line or "SET LOCAL" in line for line in later)


def test_a_batch_writes_what_single_statements_write(store: StateStore) -> None:
    odd = ["it's", "100%s %(a)s %%", "back\\slash \\n", "", "ünï😀", 'a";--', "$1 $$ ::text", ":x"]
    values = [
        {"t": one, "b": one.encode(), "n": number - 4, "f": number / 3 - 1, "z": None}
        for number, one in enumerate(odd)
    ]
    types = {"t": String(), "b": LargeBinary(), "n": BigInteger(), "f": Float(), "z": Text()}
    table = Table("odd", MetaData(), *(Column(name, kind) for name, kind in types.items()))
    with store.database.transaction() as conn:
        table.create(conn)
        for one in values:
            conn.execute(table.insert(), one)
        single = conn.execute(select(table).order_by(table.c.n)).all()
        conn.execute(table.delete())
        conn.execute(table.insert(), values)
        assert conn.execute(select(table).order_by(table.c.n)).all() == single
        kept = table.update().where(table.c.n == bindparam("of")).values(z="x")
        counted = {"preserve_rowcount": True}
        changed = conn.execute(kept, [{"of": 0}, {"of": 1}, {"of": 99}], execution_options=counted)
        assert changed.rowcount == 2
        table.drop(conn)


def test_a_publisher_that_is_stopped_before_its_commit_is_ended_in_time(
    url: str, tmp_path: Path
) -> None:
    project = make_project(tmp_path, url)
    held = seconds_held(project, url, "prod", ("publish.commit", 1, False), 3.0, patience=15.0)
    assert held is not None
    assert 1.0 < held < 9.0


def test_a_dead_clients_hold_ends_within_a_minute_by_default(url: str) -> None:
    opened = StateStore.open(url)
    with opened.database.reading() as conn:
        said = [
            conn.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout", "tcp_user_timeout")
        ]
        probes = [
            int(conn.exec_driver_sql(f"SHOW tcp_keepalives_{name}").scalar() or 0)
            for name in ("idle", "interval", "count")
        ]
    opened.close()
    assert said == ["30s", "10s", "30000"]
    assert probes[0] + probes[1] * probes[2] <= 30
    assert DEFAULT_TTL_SECONDS <= 60


def test_every_connection_is_given_up_when_it_is_silent(store: StateStore) -> None:
    names = (
        "idle_in_transaction_session_timeout",
        "lock_timeout",
        "tcp_user_timeout",
    )
    with store.database.transaction() as writing, store.database.reading() as reading:
        for conn in (writing, reading):
            said = [conn.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
            assert said == ["1500ms", "500ms", "1500"]
            info = conn.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
            assert info["keepalives"] == "1"
            assert info["tcp_user_timeout"] == "1500"
    with store.database.engine.connect() as conn:
        conn.execution_options(isolation_level="AUTOCOMMIT")
        assert conn.exec_driver_sql("SHOW lock_timeout").scalar() == "0"  # a pooler's others


@contextmanager
def writers(url: str) -> Iterator[None]:
    """Four clients that change what the mark reads and writes, without a pause."""
    ended = threading.Event()

    def write(number: int) -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET default_transaction_isolation = 'serializable'")
            while not ended.is_set():
                try:
                    with conn.transaction():
                        conn.execute("SELECT count(*) FROM vde_leases")
                        conn.execute(
                            "UPDATE vde_leases SET heartbeat_at = heartbeat_at + 1"
                            " WHERE resource = %s",
                            (f"r{number}",),
                        )
                        conn.execute("SELECT count(*) FROM vde_environments")
                except psycopg.errors.OperationalError:
                    continue

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


def test_the_janitors_mark_comes_through_where_others_write_without_a_pause(
    url: str, store: StateStore
) -> None:
    for number in range(4):
        store.leases.acquire(f"r{number}", "anna", ttl_seconds=0.0)
    with writers(url):
        for _ in range(2):
            store.retention.mark(RETENTION, write=True)


def fail(store: StateStore, statement: str) -> str:
    def work(conn: Connection) -> None:
        conn.execute(text(statement))

    with pytest.raises(StoreError) as raised:
        store.database.run_transaction(work, name="test")
    return str(raised.value)


def test_what_a_server_says_of_itself_is_an_error_of_the_store(url: str, clock: FakeClock) -> None:
    store = StateStore(Database(make_engine(url), clock))
    raising = "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{}'; END $$"
    told = {
        "53100": "has no space left: no",
        "53200": "cannot be used: no",
        "57014": "cannot be used: no",
        "58030": "cannot be used: no",
        "55P03": "is busy: no",
    }
    for code, said in told.items():
        assert said in fail(store, raising.format(code)), code
    database = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    store.close()
    assert "is read-only: cannot execute DELETE" in fail(store, "DELETE FROM vde_leases")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET default_transaction_read_only = off")
        conn.execute(f"ALTER DATABASE {database} CONNECTION LIMIT 0")
        conn.execute("CREATE ROLE guest LOGIN")
    store.close()
    guest = StateStore(Database(make_engine(url.replace("//vde@", "//guest@")), clock))
    assert "too many connections" in fail(guest, "SELECT 1")
    with pytest.raises(StoreError, match="too many connections"):
        guest.environments.get("prod")


def test_a_mistake_of_ours_stays_a_mistake(store: StateStore) -> None:
    with pytest.raises(Exception, match="does not exist") as raised, store.database.reading() as c:
        c.execute(text("SELECT * FROM vde_nothing"))
    assert not isinstance(raised.value, (StoreError, OperationalError))
