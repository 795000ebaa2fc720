"""Threads of one process that write to one SQLite file."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from vde_dagster.state.db import database as module
from vde_dagster.state.store import StateStore


@pytest.mark.parametrize(("seconds", "begins_meanwhile"), [(30.0, False), (0.01, True)])
def test_a_thread_begins_when_the_other_has_committed_or_lets_sqlite_wait(
    seconds: float,
    begins_meanwhile: bool,
    tmp_path: Path,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_TURN_SECONDS", seconds)
    shutil.copy(empty_database, tmp_path / "vde.db")
    store = StateStore.open(f"sqlite:///{tmp_path / 'vde.db'}")
    begun: list[str] = []

    def note(_connection: Connection, _cursor: object, statement: str, *_others: object) -> None:
        begun.extend([statement] if statement.startswith("BEGIN") else [])

    event.listen(store.database.engine, "before_cursor_execute", note)
    with ThreadPoolExecutor(1) as pool:
        with store.database.transaction("first"):
            written = pool.submit(store.database.run_transaction, lambda _: "done", name="second")
            with pytest.raises(TimeoutError):
                written.result(timeout=0.2)
            assert begun == ["BEGIN IMMEDIATE"] * (2 if begins_meanwhile else 1)
        assert written.result(timeout=30) == "done"
    assert begun == ["BEGIN IMMEDIATE"] * 2
    store.close()
