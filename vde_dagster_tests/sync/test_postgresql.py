"""A table of PostgreSQL is equal to the view after each run, and each row comes once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from vde_dagster.api.sinks import Batch, Step
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.lakehouse.rows.row_values import python_rows
from vde_dagster.plugins.sync import syncs
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.state.db import postgres as postgres_state
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.serve.duck_engine import open_duck
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.sync.stalls import make_synced, seconds_held
from vde_dagster_tests.sync.world import Shop, in_postgres

pytestmark = pytest.mark.server


@pytest.fixture
def shop(tmp_path: Path, url: str) -> Shop:
    """A published shop, of which customers are sent to a database."""
    shop = Shop(tmp_path / "shop")
    define(shop, url)
    shop.publish()
    return shop


def define(shop: Shop, url: str, **said: Any) -> None:
    to = {"prod": {"url": url, "table": said.pop("table", "latest")}}
    shop.define(sink="postgresql", to=to, batch=2, **said)


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(statement)


def test_the_first_run_sends_all_and_later_ones_only_what_changed(shop: Shop, url: str) -> None:
    done = shop.sync()
    assert (done.since, done.sent, done.unchanged) == (0, 4, 0)
    assert in_postgres(url) == shop.shown()
    again = shop.sync()
    assert (again.sent, again.unchanged) == (0, 0)
    shop.run_day()
    planned = shop.sync(how="plan")
    assert in_postgres(url) != shop.shown()
    done = shop.sync()
    assert (done.since, done.until) == (1, 2)
    assert (planned.sent, planned.unchanged) == (done.sent, done.unchanged) == (2, 3)
    assert [row["customer"] for _, row in planned.sample] == [2, 5]
    assert in_postgres(url) == shop.shown()


def test_a_rollback_moves_it_back(shop: Shop, url: str) -> None:
    shop.sync()
    first = in_postgres(url)
    shop.run_day()
    shop.sync()
    assert in_postgres(url) != first
    shop.rollback(1)
    shop.sync()
    assert in_postgres(url) == first == shop.shown()


def test_of_a_table_that_is_appended_to_only_the_new_files_are_read(
    shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(shop, url, source="marts.daily", key=["day", "customer"])
    shop.sync()
    shop.run_day()
    done = shop.sync()
    assert (done.sent, done.unchanged) == (2, 0), "the rows of the other days were not compared"
    assert in_postgres(url) == shop.shown(model="marts.daily")


def test_a_full_comparison_mends_what_others_did(shop: Shop, url: str) -> None:
    shop.sync()
    execute(url, "UPDATE latest SET amount = 0 WHERE customer = 1")
    execute(url, "INSERT INTO latest (customer) VALUES (77)")
    execute(url, "DELETE FROM latest WHERE customer = 2")
    assert shop.sync().sent == 0
    done = shop.sync(full=True)
    assert (done.sent, done.unchanged) == (3, 2)
    assert in_postgres(url) == shop.shown()


def test_columns_that_come_are_added_and_all_rows_compared(shop: Shop, url: str) -> None:
    shop.sync()
    shop.edit("max(day) AS day,", "max(day) AS day, count(*) * 2 AS twice,")
    done = shop.sync()
    assert "the columns" in (done.why or "")
    assert in_postgres(url) == shop.shown()


def test_upsert_deletes_nothing(shop: Shop, url: str) -> None:
    define(shop, url, mode="upsert")
    shop.run_day()
    shop.sync()
    shop.rollback(1)
    shop.sync()
    assert [row["customer"] for row in in_postgres(url)] == [1, 2, 3, 4, 5]
    assert [row for row in in_postgres(url) if row["customer"] < 5] == shop.shown()


def test_rows_that_the_table_refuses_wait_while_others_go(shop: Shop, url: str) -> None:
    execute(url, "CREATE TABLE latest (customer INT UNIQUE CHECK (customer <> 2))")
    done = shop.sync()
    assert (done.sent, done.refused) == (3, 1)
    execute(url, "ALTER TABLE latest DROP CONSTRAINT latest_customer_check")
    done = shop.sync(how="replay")
    assert (done.sent, done.refused) == (1, 0)
    assert in_postgres(url) == shop.shown()


def test_a_refused_row_stays_as_it_was_and_a_dry_run_leaves_nothing(shop: Shop, url: str) -> None:
    execute(url, "CREATE TABLE latest (customer INT PRIMARY KEY, orders BIGINT CHECK (orders < 2))")
    execute(url, "INSERT INTO latest VALUES (1, 1), (9, 1)")
    assert shop.sync(how="plan").sent == 4
    with psycopg.connect(url) as conn:
        assert conn.execute("SELECT to_regclass('vde_sync_cursors')").fetchone() == (None,)
    done = shop.sync()
    assert (done.sent, done.refused) == (4, 1), "three come, and one goes"
    kept = [(row["customer"], row["orders"]) for row in in_postgres(url)]
    assert kept == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_what_cannot_be_sent_is_told_and_nothing_is_changed(shop: Shop, url: str) -> None:
    define(shop, url, key=["word"])
    with pytest.raises(UsageError, match=r"the key is NULL in a row: word = None"):
        shop.sync()
    define(shop, url, key=["orders"])
    with pytest.raises(UsageError, match=r"the key is not unique: orders = 1"):
        shop.sync()
    define(shop, url, key=["nobody"])
    with pytest.raises(UsageError, match="has no column 'nobody'"):
        shop.sync()
    define(shop, url)
    with pytest.raises(UsageError, match="sends nothing from 'dev'"):
        shop.sync("dev")
    execute(url, "CREATE TABLE latest (customer INT)")
    with pytest.raises(UsageError, match="no unique key") as raised:
        shop.sync()
    assert raised.value.hint == "ALTER TABLE latest ADD UNIQUE (customer)"
    define(shop, url, table="nowhere.latest")
    with pytest.raises(ExecutionError, match="nowhere"):
        shop.sync()
    assert in_postgres(url) == []


def test_every_type_comes_as_postgresql_has_it(shop: Shop, url: str) -> None:
    now = datetime(2024, 1, 2, 3, 4, 5, 678, timezone.utc)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "customer": (pa.int32(), 7),
        "short": (pa.int16(), 7),
        "long": (pa.int64(), 2**40),
        "real": (pa.float32(), 0.5),
        "double": (pa.float64(), 0.1),
        "bool": (pa.bool_(), True),
        "exact": (pa.decimal128(38, 9), Decimal("1.000000001")),
        "date": (pa.date32(), now.date()),
        "instant": (pa.timestamp("us", "UTC"), now),
        "local": (pa.timestamp("us"), now.replace(tzinfo=None)),
        "bytes": (pa.large_binary(), b"\0\1"),
        "text": (pa.large_string(), "ü %s :x"),
        "nested": (pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.date32()))])), None),
        "other": (pa.list_(pa.int32()), [1, None]),
    }
    row = {name: value for name, (_, value) in values.items()}
    nested = [{"a": {"x": now.date()}}]
    schema = pa.schema([(name, type_) for name, (type_, _) in values.items()])
    with open_duck(shop.folder.root) as workspace:
        (definition,) = read_syncs(workspace).values()
        for changed in (1, 0):
            with definition.sink_for("prod").open(workspace, "latest/prod") as rows:
                rows.begin(Step("latest", "prod", 0, 1, "mirror", ("customer",), schema))
                assert rows.send(Batch("1", [row, {**row, "customer": 8, "nested": nested}])) == (
                    2 * changed
                )
    one, other = in_postgres(url)
    assert one == row
    assert other == {**row, "customer": 8, "nested": [{"a": {"x": "2024-01-02"}}]}


CASED = """
    MODEL (name marts.latest, kind FULL, cron '@daily', start '2024-01-01');
    SELECT customer AS CustomerId, max(amount) AS `Max "Amount" %`, CAST('NaN' AS DOUBLE) AS Ratio
    FROM marts.daily GROUP BY customer
"""


def test_columns_are_made_in_the_case_of_their_author(shop: Shop, url: str) -> None:
    shop.folder.write("models/latest.sql", CASED)
    define(shop, url, table="cased", key=["customerid"])
    shop.publish()
    assert shop.sync().sent == 4
    first = in_postgres(url, "cased")[0]
    assert list(first) == ["CustomerId", 'Max "Amount" %', "Ratio"]
    assert (first["CustomerId"], repr(first["Ratio"])) == (1, "nan")
    shop.run_day()
    assert shop.sync().sent == 2
    shop.rollback(2)
    assert shop.sync().sent == 2
    assert len(in_postgres(url, "cased")) == 4


def test_a_table_that_has_columns_in_lower_case_keeps_them(shop: Shop, url: str) -> None:
    execute(
        url,
        "CREATE TABLE cased (customerid INT PRIMARY KEY, ratio FLOAT8, own TEXT DEFAULT 'x')",
    )
    shop.folder.write("models/latest.sql", CASED)
    define(shop, url, table="cased", key=["CustomerId"])
    shop.publish()
    shop.sync()
    names = ["customerid", "ratio", "own", 'Max "Amount" %']
    assert list(in_postgres(url, "cased")[0]) == names, "only what it lacks is added, as written"
    shop.run_day()
    assert shop.sync().sent == 2


def test_days_that_python_lacks_come_and_intervals_are_intervals(shop: Shop, url: str) -> None:
    schema = pa.schema(
        [
            ("customer", pa.int32()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("took", pa.duration("us")),
        ]
    )
    columns = [
        pa.array(values, field.type)
        for values, field in zip(
            ([1, 2], [3_000_000, -800_000], [300_000_000_000_000_000, 0], [1, None]),
            schema,
            strict=True,
        )
    ]
    rows = python_rows(pa.Table.from_arrays(columns, schema=schema))
    define(shop, url, table="far")
    with open_duck(shop.folder.root) as workspace:
        (definition,) = read_syncs(workspace).values()
        with definition.sink_for("prod").open(workspace, "latest/prod") as sent:
            sent.begin(Step("latest", "prod", 0, 1, "mirror", ("customer",), schema))
            assert sent.send(Batch("1", rows)) == 2
    with psycopg.connect(url) as conn:
        found = conn.execute("SELECT day::TEXT, took::TEXT FROM far ORDER BY customer").fetchall()
    assert found == [("10183-09-21", "00:00:00.000001"), ("0222-09-04 BC", None)]


STEPS = (
    "sync.tables.commit",
    "sync.begun.write",
    "sync.batch",
    "sync.done.write",
    "sync.rows.commit",
)


@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
@pytest.mark.parametrize("point", STEPS)
def test_killed_at_any_step_all_is_changed_or_nothing(
    shop: Shop, url: str, point: str, mode: Any
) -> None:
    define(shop, url, source="marts.daily", key=None, mode="append")
    if point != "sync.tables.commit":
        shop.sync()
    before = in_postgres(url) if point != "sync.tables.commit" else None
    shop.run_day()
    injector = FaultInjector(Fault(point, mode), clock=FakeClock(), in_process=True)
    with pytest.raises(ProcessKilled):
        shop.sync(opened={"effects": injector, "clock": FakeClock()})
    assert injector.fired
    after = shop.shown(model="marts.daily")
    committed = (point, mode) == ("sync.rows.commit", "kill_after")
    if before is not None:
        assert in_postgres(url) == (after if committed else before)
    shop.sync()
    assert in_postgres(url) == after, "append: a row that came twice would be there twice"


def test_a_killed_process_is_waited_for(
    shop: Shop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real SIGKILL between two batches: the server gives the transaction up."""
    monkeypatch.setattr(syncs, "LEASE_SECONDS", 5.0)
    code = (
        "from vde_dagster.plugins.sync import syncs; syncs.LEASE_SECONDS = 5.0\n"
        "import sys; from pathlib import Path\n"
        "from vde_dagster_tests.faults import Fault, FaultInjector\n"
        "from vde_dagster_tests.sync.world import Shop\n"
        "shop = Shop.__new__(Shop); shop.how = {}\n"
        "from vde_dagster_tests.projects import ProjectFolder\n"
        "shop.folder = ProjectFolder(Path(sys.argv[1]))\n"
        "shop.sync(opened={'effects': FaultInjector(Fault('sync.batch', occurrence=2))})\n"
    )
    root = str(shop.folder.root)
    died = subprocess.run([sys.executable, "-c", code, root], env=os.environ, timeout=120)
    assert died.returncode == -signal.SIGKILL
    done = shop.sync()
    assert done.sent == 4
    assert in_postgres(url) == shop.shown()


def test_a_sync_that_is_stopped_inside_a_batch_is_ended_in_time(tmp_path: Path, url: str) -> None:
    project = make_synced(tmp_path, url)
    held = seconds_held(project, url, ("batch of INSERT", 1, True), 3.0, patience=15.0)
    assert held is not None, "the server waits for the rest of a batch"
    assert 1.0 < held < 9.0


@pytest.mark.parametrize("batch", [500, 1])
def test_the_least_and_the_largest_values_come_in_batches(
    shop: Shop, url: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A literal -32768::SMALLINT is out of range, and a message has a size."""
    monkeypatch.setattr(postgres_state, "_MESSAGE_BYTES", batch)
    limits = {"short": 2**15, "whole": 2**31, "long": 2**63}
    types: dict[str, Any] = {"short": pa.int16(), "whole": pa.int32(), "long": pa.int64()}
    types |= {"exact": pa.decimal128(38, 0), "double": pa.float64(), "real": pa.float32()}
    schema = pa.schema([("customer", pa.int32()), *types.items()])
    sent = [
        {
            "customer": sign,
            **{name: sign * limit - (sign > 0) for name, limit in limits.items()},
            "exact": Decimal(sign * (10**38 - 1)),
            "double": sign * 1.7976931348623157e308,
            "real": sign * 0.5,
        }
        for sign in (-1, 1)
    ]
    sent.append({**sent[0], "customer": -(2**31), "double": float("-inf"), "real": -0.0})
    define(shop, url, table="edges")
    with open_duck(shop.folder.root) as workspace:
        (definition,) = read_syncs(workspace).values()
        with definition.sink_for("prod").open(workspace, "latest/prod") as rows:
            rows.begin(Step("latest", "prod", 0, 1, "mirror", ("customer",), schema))
            assert rows.send(Batch("1", sent)) == 3
            assert rows.send(Batch("2", sent)) == 0
    assert repr(in_postgres(url, "edges")) == repr(sorted(sent, key=repr))
