"""Stores of every released schema are upgraded, and keep what is in them.

`released/<revision>.sql` is what a store of that schema looked like, with rows in it. Add a file
with every release that has a new revision; never change an old one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

import vde_dagster.state as state
from vde_dagster.base.names import ModelName
from vde_dagster.errors import StoreError
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.state import StateStore
from vde_dagster.state.db.schema import SCHEMA_VERSION, VERSION_TABLE
from vde_dagster_tests.state.builders import day, environment

RELEASED = sorted((Path(__file__).parent / "released").glob("*.sql"))


def test_there_is_a_store_of_every_revision() -> None:
    script = ScriptDirectory(str(Path(state.__file__).parent / "migrations"))
    revisions = sorted(revision.revision for revision in script.walk_revisions())
    assert revisions[-1] == SCHEMA_VERSION
    assert [path.stem for path in RELEASED] == revisions


@pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
def test_released_store_is_upgraded_and_keeps_everything(released: Path, tmp_path: Path) -> None:
    path = tmp_path / "vde.db"
    with sqlite3.connect(path) as conn:
        conn.executescript(released.read_text())
    store = StateStore.open(f"sqlite:///{path}")
    with store.database.reading() as conn:
        found = conn.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
    assert found == SCHEMA_VERSION
    current = store.environments.get("prod")
    assert current is not None
    (entry,) = current.entries.values()
    assert entry.table_id is not None
    table = store.tables.load([entry.table_id])[entry.table_id]
    assert table.intervals == IntervalSet((day(0, 3),))
    assert [version.version for version in store.versions.history("prod")] == [2, 1]
    assert table.lacks == {ModelName("db", "late"): IntervalSet((day(1),))}
    filled = [store.pins.at("prod", version)[table.id].filled for version in (1, 2)]
    assert filled == [None, "1704067200000000-1704326400000000"]
    value = environment(entries=[("db.orders", "s3", table.id)])
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, value, 2))
    store.close()


def test_a_store_from_before_the_first_release_is_one_message_and_stays(
    store: StateStore, url: str
) -> None:
    with store.database.transaction() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '0014'")
    with pytest.raises(StoreError, match=r"schema 0014.*upgrades from 0015 on") as raised:
        StateStore.open(url)
    assert "open it once with an earlier commit" in str(raised.value.hint)
