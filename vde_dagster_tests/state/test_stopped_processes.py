"""Processes that are stopped at random moments lose nothing, and hold nobody up on PostgreSQL."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.stop_search import attack


@pytest.mark.proof
@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(2))
def test_stopped_and_killed_processes_lose_nothing(tmp_path: Path, url: str, seed: int) -> None:
    shared = url if url.startswith("postgresql") else None
    assert attack(tmp_path, seed, shared, seconds=4)["stopped"]


@pytest.mark.parametrize("backend", ["sqlite"])
def test_opening_a_state_again_gives_up_no_lock_of_its_process(url: str, clock: FakeClock) -> None:
    """Closing a file gives up what the process has locked of it, whoever opened it."""
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    store, file = StateStore.open(url, clock=clock), url.removeprefix("sqlite:///")
    with store.database.transaction() as conn:
        conn.exec_driver_sql("DELETE FROM vde_leases")
        StateStore.open(url).close()
        other = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True)
    store.close()
    assert "database is locked" in other.stderr
    assert sqlite3.connect(file).execute("PRAGMA quick_check").fetchone() == ("ok",)
