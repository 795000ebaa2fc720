"""A migration that dies at any statement leaves the store as it was; the next open finishes it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.state.db.schema import SCHEMA_VERSION, VERSION_TABLE
from vde_dagster.state.store import StateStore
from vde_dagster_tests.faults import MODES, VARIABLE, Fault, FaultInjector, Mode, ProcessKilled
from vde_dagster_tests.state.builders import FakeClock

MADE_BY_SPARK = (
    "CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,"
    "table_namespace VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,"
    "metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000), "
    "PRIMARY KEY (catalog_name, table_namespace, table_name));"
    "INSERT INTO iceberg_tables VALUES ('lakehouse', 'a', 't', 'x', NULL);"
)
STORES = {"new": "", "made by Spark": MADE_BY_SPARK}


def prepare(path: Path, script: str) -> str:
    """Make a database file as it is before the migration; return its URL."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA journal_mode=WAL")
        conn.executescript(script)
    return f"sqlite:///{path}"


def content(path: Path) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return what an independent reader sees: the tables, and the catalog's rows."""
    with sqlite3.connect(path) as conn:
        names = [row[0] for row in conn.execute("SELECT name FROM sqlite_master ORDER BY name")]
        rows = "SELECT table_name, metadata_location FROM iceberg_tables"
        return names, conn.execute(rows).fetchall() if "iceberg_tables" in names else []


@pytest.fixture(params=STORES)
def script(request: pytest.FixtureRequest) -> str:
    """What is in the database before."""
    return STORES[request.param]


@pytest.fixture
def points(script: str, tmp_path: Path) -> list[str]:
    """Every side effect of the migration, in order."""
    listed = FaultInjector(in_process=True)
    StateStore.open(prepare(tmp_path / "listed.db", script), effects=listed).close()
    assert listed.passed[-1] == "state.migrate.commit"
    assert "state.migrate.create vde_entries" in listed.passed
    return listed.passed


@pytest.mark.turns(6)
@pytest.mark.parametrize("mode", MODES)
def test_old_or_new_store_and_the_next_open_finishes(
    script: str, points: list[str], mode: Mode, tmp_path: Path
) -> None:
    path = tmp_path / "vde.db"
    prepare(path, script)
    old = content(path)
    StateStore.open(f"sqlite:///{path}").close()
    new = content(path)
    assert old != new
    for number, point in enumerate(points):
        url = prepare(path, script)
        fault = Fault(point, mode, points[: number + 1].count(point), stall_seconds=600)
        clock = FakeClock()
        try:
            StateStore.open(url, clock=clock, effects=FaultInjector(fault, clock, True)).close()
        except (ProcessKilled, VdeError):
            assert content(path) in (old, new), point
        else:
            assert content(path) == new, point
        StateStore.open(url).close()
        assert content(path) == new, point


def test_killed_process_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "vde.db"
    url = prepare(path, MADE_BY_SPARK)
    old = content(path)
    fault = {"point": "state.migrate.create vde_entries", "mode": "kill_after"}
    code = (
        "from vde_dagster.state.store import StateStore\n"
        "from vde_dagster_tests.faults import effects_from_environment\n"
        f"StateStore.open({url!r}, effects=effects_from_environment())"
    )
    environment = {**os.environ, VARIABLE: json.dumps(fault)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -9
    assert content(path) == old
    store = StateStore.open(url)
    with store.database.reading() as conn:
        found = conn.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    store.close()
    assert found == SCHEMA_VERSION
    assert content(path)[1] == old[1]
