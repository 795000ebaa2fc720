"""Tables of dlt's destinations are equal to the view, whoever dies on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.sync.world import Shop

pytestmark = pytest.mark.server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A DuckDB database that dlt makes."""
    return tmp_path / "outside.duckdb"


@pytest.fixture
def shop(tmp_path: Path, file: Path) -> Shop:
    """A published shop, whose customers dlt loads into DuckDB."""
    shop = Shop(tmp_path / "shop")
    define(shop, file)
    shop.publish()
    return shop


def define(shop: Shop, file: Path, **said: Any) -> None:
    to = {"destination": "duckdb", "options": {"credentials": str(file)}}
    shop.define(
        sink="dlt", batch=2, to={"prod": {**to, "dataset": "crm", "table": "latest"}}, **said
    )


def in_duckdb(file: Path) -> list[dict[str, Any]]:
    """What the table has, without what dlt notes of each row."""
    with duckdb.connect(str(file), read_only=True) as database:
        made = database.execute("SELECT * FROM crm.latest").fetch_arrow_table()
    own = [name for name in made.column_names if not name.startswith(("_dlt", "vde_gone"))]
    return sorted(made.select(own).to_pylist(), key=repr)


def test_what_changed_is_merged_and_what_went_is_deleted(shop: Shop, file: Path) -> None:
    assert shop.sync().sent == 4
    assert in_duckdb(file) == shop.shown()
    shop.run_day()
    assert shop.sync().sent == 2
    assert in_duckdb(file) == shop.shown()
    shop.edit("count(*) AS orders", "count(*) AS orders, 7 AS seven")
    done = shop.sync()
    assert (done.since, done.why) == (0, "the columns, or the sync's definition, changed")
    assert in_duckdb(file) == shop.shown()
    shop.rewrite("most", 1)
    shop.sync()
    shop.rewrite("most", 9)
    shop.sync()
    shop.rewrite("most", 1)
    assert shop.sync().since == 5, "customers with two orders go"
    found = in_duckdb(file)
    assert [{**row, "seven": 7} for row in shop.shown()] == [{**row, "seven": 7} for row in found]
    assert shop.sync().sent == 0


@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
@pytest.mark.parametrize("point", ["sync.begun.commit", "sync.dlt", "sync.done.commit"])
def test_killed_at_any_step_it_ends_equal_all_the_same(
    shop: Shop, file: Path, point: str, mode: Any
) -> None:
    shop.sync()
    shop.run_day()
    clock = FakeClock()
    injector = FaultInjector(Fault(point, mode), clock=clock, in_process=True)
    with pytest.raises(ProcessKilled):
        shop.sync(opened={"effects": injector, "clock": clock})
    shop.rollback(1)
    shop.sync()
    assert in_duckdb(file) == shop.shown()


def test_files_take_rows_that_are_added_and_no_key(shop: Shop, tmp_path: Path) -> None:
    to = {
        "destination": "filesystem",
        "options": {"bucket_url": str(tmp_path / "bucket")},
        "dataset": "crm",
        "table": "daily",
    }
    shop.define(source="marts.daily", key=None, mode="append", sink="dlt", to={"prod": to})
    assert [shop.sync().sent, shop.run_day(), shop.sync().sent] == [5, None, 2]
    files = [*(tmp_path / "bucket" / "crm" / "daily").iterdir()]
    assert len(files) == 2
    shop.run_day()
    shop.define(sink="dlt", to={"prod": {**to, "table": "latest"}})
    with pytest.raises(UsageError, match="'filesystem' cannot merge rows by key") as raised:
        shop.sync()
    assert raised.value.hint


def test_what_dlt_will_not_have_is_told_and_the_next_run_goes_on(shop: Shop, file: Path) -> None:
    shop.sync()
    shop.run_day()
    with duckdb.connect(str(file)) as database:
        database.execute("ALTER TABLE crm.latest RENAME TO other")
        database.execute("CREATE VIEW crm.latest AS SELECT * FROM crm.other")
    with pytest.raises(ExecutionError, match=r"duckdb .*crm\.latest failed") as raised:
        shop.sync()
    assert "run the sync again" in (raised.value.hint or "")
    with duckdb.connect(str(file)) as database:
        database.execute("DROP VIEW crm.latest")
        database.execute("ALTER TABLE crm.other RENAME TO latest")
    shop.sync()
    assert in_duckdb(file) == shop.shown()
    shop.run_day()
    to = {"destination": "duck", "dataset": "crm", "table": "latest"}
    shop.define(sink="dlt", to={"prod": to})
    with pytest.raises(UsageError, match="dlt cannot open the destination 'duck'"):
        shop.sync()
