"""Whatever takes batches over HTTP is equal to the view, though it fails, and processes die."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, insert, select

from vde_dagster.errors import ConflictError, ExecutionError, UsageError
from vde_dagster.plugins.sync import http
from vde_dagster.plugins.sync.ledger import cursors, letters
from vde_dagster.plugins.sync.syncs import Syncs
from vde_dagster.state.db.transfer import import_state
from vde_dagster.state.store import StateStore
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.serve.duck_engine import open_duck
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.sync.receiver import DIES, Receiver, receiving
from vde_dagster_tests.sync.world import Shop

pytestmark = pytest.mark.server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running receiver."""
    with receiving() as found:
        yield found


@pytest.fixture
def shop(tmp_path: Path, receiver: Receiver) -> Shop:
    """A published shop, of which customers are posted."""
    shop = Shop(tmp_path / "shop")
    define(shop, receiver)
    shop.publish()
    return shop


def define(shop: Shop, receiver: Receiver, **options: Any) -> None:
    to = {"url": receiver.url, "backoff": 0.01, "attempts": 3, **options}
    shop.define(sink="http", to={"prod": to}, batch=2)


def equal(shop: Shop, receiver: Receiver) -> None:
    shown = json.loads(msgspec.json.encode(shop.shown()))
    assert receiver.rows == {str(row["customer"]): row for row in shown}


def test_batches_come_once_and_later_runs_send_what_changed(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_TOKEN", "s3cret")
    define(shop, receiver, headers={"Authorization": "Bearer ${CRM_TOKEN}"})
    assert shop.sync().sent == 4
    assert {one["Authorization"] for one in receiver.headers} == {"Bearer s3cret"}
    equal(shop, receiver)
    shop.run_day()
    receiver.log.clear()
    assert shop.sync().sent == 2
    assert [len(one["changes"]) for one in receiver.log] == [2]
    equal(shop, receiver)
    shop.rollback(1)
    assert shop.sync().sent == 2, "one goes, and one is as it was"
    equal(shop, receiver)
    assert shop.sync().sent == 0


def test_a_view_without_a_table_is_compared_by_the_engine(shop: Shop, receiver: Receiver) -> None:
    shop.folder.write(
        "models/now.sql",
        """
        MODEL (name marts.now, kind VIEW, grain customer);
        SELECT customer, orders FROM marts.latest WHERE customer > 1
        """,
    )
    shop.publish()
    to = {"prod": {"url": receiver.url}}
    shop.define(source="marts.now", sink="http", to=to)
    assert shop.sync().sent == 3
    shop.run_day()
    done = shop.sync()
    assert (done.since, done.sent) == (2, 2), "a customer is new, and one came again"
    orders = {place: row["orders"] for place, row in receiver.rows.items()}
    assert orders == {"2": 2, "3": 1, "4": 1, "5": 1}
    assert shop.sync().sent == 0
    shop.run_day()
    shop.run_day()
    shop.sync()
    to["prod"]["url"] += "/other"
    shop.define(source="marts.now", sink="http", to=to)
    shop.run_day()
    done = shop.sync()
    assert (done.since, done.sent) == (0, 7), "a row is new, but the other place has no rows"
    assert "definition, changed" in (done.why or "")


def test_a_busy_server_is_asked_later_and_as_it_says(shop: Shop, receiver: Receiver) -> None:
    receiver.fail((503, {}), (429, {"Retry-After": "1"}), DIES)
    define(shop, receiver, attempts=5)
    assert shop.sync().refused == 0
    equal(shop, receiver)
    assert receiver.times[2] - receiver.times[1] >= 1
    assert len(receiver.keys) == 3, "two batches of rows, and the end"
    assert len(receiver.log) == 6


def test_no_more_batches_come_in_a_second_than_is_said(
    shop: Shop, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clock that only sleeping moves: by the real one, a request may arrive late.
    sent_at: list[float] = []

    def sleep(seconds: float) -> None:
        sent_at.append((sent_at or [100.0])[-1] + seconds)

    clock = SimpleNamespace(monotonic=lambda: (sent_at or [100.0])[-1], sleep=sleep)
    monkeypatch.setattr(http, "time", clock)
    define(shop, receiver, rate=10)
    shop.sync()
    assert len(sent_at) == len(receiver.times) > 2
    gaps = [later - one for one, later in pairwise(sent_at)]
    assert gaps == pytest.approx([0.1] * len(gaps))


def test_who_stopped_on_the_way_goes_there_first(shop: Shop, receiver: Receiver) -> None:
    shop.sync()
    shop.run_day()
    receiver.answers = [lambda body: (500, {}) if body["batch"] != "1" else None]
    shop.folder.edit("syncs.yaml", "batch: 2", "batch: 1")
    with pytest.raises(ExecutionError, match="answered 500") as raised:
        shop.sync()
    assert "run the sync again" in (raised.value.hint or "")
    assert shop.cursor() == [(1, 2)]
    receiver.answers = []
    shop.rollback(1)
    with pytest.raises(AssertionError):
        equal(shop, receiver)  # And no change from version 1 to 3 would take it back.
    shop.sync()
    equal(shop, receiver)
    assert shop.cursor() == [(3, None)]


def test_a_run_that_lost_its_lease_writes_no_position(shop: Shop, receiver: Receiver) -> None:
    shop.sync()
    shop.run_day()

    def stall(body: dict[str, Any]) -> None:
        with sqlite3.connect(shop.folder.root / ".vde" / "vde.db") as db:
            db.execute("UPDATE vde_leases SET token = token + 1, owner = 'x', expires_at = '2000'")
            db.execute("UPDATE vde_sync_cursors SET version = 5, pending = NULL")

    receiver.answers = [stall]
    with pytest.raises(ConflictError, match="the lease on 'sync/latest/prod' was lost"):
        shop.sync()
    assert shop.cursor() == [(5, None)], "as the other process left it"


def test_each_full_run_has_other_keys_unless_it_continues_an_interrupted_one(
    shop: Shop, receiver: Receiver
) -> None:
    shop.sync()
    assert len(receiver.keys) == 3
    receiver.rows.clear()
    receiver.taken.clear()
    receiver.answers = [lambda body: (500, {}) if body["batch"] != "1" else None]
    with pytest.raises(ExecutionError, match="answered 500"):
        shop.sync(full=True)
    assert shop.cursor() == [(0, 1)]
    assert len(receiver.keys) == 5, "two batches under new keys"
    receiver.answers = []
    assert shop.sync().sent == 4, "all rows, although the flag is not repeated"
    equal(shop, receiver)
    assert len(receiver.keys) == 6, "the end is new"
    shop.sync(full=True)
    assert len(receiver.keys) == 9


def test_a_refused_row_waits_until_a_run_sends_its_key_again(
    shop: Shop, receiver: Receiver
) -> None:
    def waiting() -> int:
        with open_duck(shop.folder.root) as workspace:
            return Syncs(workspace).status()[0].waiting

    receiver.answers = [lambda body: (422, {}) if "'customer': 2," in str(body) else None]
    assert shop.sync().refused == 1
    assert shop.sync(full=True).refused == 1
    assert waiting() == 1
    receiver.answers.insert(0, lambda body: (500, {}) if body["batch"] == "end" else None)
    with pytest.raises(ExecutionError):
        shop.sync(full=True)
    with pytest.raises(UsageError, match="cannot be replayed: its last run was interrupted") as no:
        shop.sync(how="replay")
    assert no.value.hint == "run `vde sync run prod latest` first"
    receiver.answers.pop(0)
    assert shop.sync().refused == 1
    assert waiting() == 1
    receiver.answers = []
    shop.run_day()
    assert shop.sync().sent == 2, "customer 2 is one of them"
    assert waiting() == 0
    equal(shop, receiver)


def test_a_refused_row_is_kept_and_replayed_as_it_is_by_then(
    shop: Shop, receiver: Receiver
) -> None:
    def no_twos(body: dict[str, Any]) -> tuple[int, dict[str, str]] | None:
        twos = [one for one in body["changes"] if one.get("row", {}).get("customer") == 2]
        return (422, {}) if twos else None

    receiver.answers = [no_twos]
    done = shop.sync()
    assert (done.sent, done.refused) == (3, 1)
    assert shop.sync(how="replay").refused == 1, "it is kept anew"
    shop.run_day()
    assert shop.sync().refused == 1
    receiver.answers = []
    receiver.log.clear()
    done = shop.sync(how="replay")
    assert (done.sent, done.refused) == (1, 0)
    equal(shop, receiver)
    assert shop.sync(how="replay").sent == 0


def test_an_imported_state_goes_on_where_it_was_and_has_the_refused_rows(
    shop: Shop, receiver: Receiver, postgres: PostgresServer, tmp_path: Path
) -> None:
    receiver.answers = [lambda body: (422, {}) if "2" in str(body["changes"]) else None]
    assert shop.sync().refused
    known, exported = shop.cursor(), tmp_path / "state.gz"
    with open_duck(shop.folder.root) as workspace:
        waiting = Syncs(workspace).status()[0].waiting
        counts = workspace.maintenance.export_state(exported)
    assert (counts["vde_sync_cursors"], counts["vde_sync_letters"]) == (1, waiting)
    name = postgres.create_database()
    for url in (f"sqlite:///{tmp_path / 'other' / 'vde.db'}", postgres.url(name)):
        store = StateStore.open(url)
        assert import_state(store.database, exported) == counts
        with store.database.transaction() as conn:
            moved = conn.execute(select(cursors.c.version, cursors.c.pending)).all()
            assert [tuple(row) for row in moved] == known
            conn.execute(insert(letters).from_select(*_copied()))
            assert conn.execute(select(func.count()).select_from(letters)).scalar() == 2 * waiting
        store.close()
    postgres.drop_database(name)


def _copied() -> tuple[list[str], Any]:
    """The letters, to be put in once more under numbers of their own."""
    names = [column.name for column in letters.c if column.name != "number"]
    return names, select(*(letters.c[name] for name in names))


def test_an_answer_that_is_no_matter_of_rows_ends_the_run(shop: Shop, receiver: Receiver) -> None:
    receiver.fail((401, {}))
    with pytest.raises(ExecutionError, match="answered 401"):
        shop.sync()
    assert len(receiver.log) == 1
    shop.sync()
    equal(shop, receiver)


@pytest.mark.parametrize("odd", [{"url": "localhost/changes"}, {"headers": {"X-Name": "Zoë ✓"}}])
def test_an_address_or_a_header_that_cannot_be_sent_is_a_mistake(
    shop: Shop, receiver: Receiver, odd: dict[str, object]
) -> None:
    shop.define(sink="http", to={"prod": {"url": receiver.url, **odd}})
    with pytest.raises(UsageError, match="cannot be used") as raised:
        shop.sync()
    assert raised.value.hint == "correct `url` or `headers` of the sync in syncs.yaml"
    assert not receiver.log


def test_append_adds_what_came_and_never_twice_by_itself(shop: Shop, receiver: Receiver) -> None:
    to = {"prod": {"url": receiver.url}}
    shop.define(source="marts.daily", key=None, mode="append", sink="http", to=to)
    assert shop.sync().sent == 5
    shop.run_day()
    assert shop.sync().sent == 2
    sent = [one["row"] for body in receiver.taken for one in body["changes"]]
    shown = json.loads(msgspec.json.encode(shop.shown(model="marts.daily")))
    assert sorted(sent, key=repr) == sorted(shown, key=repr)
    to["prod"]["url"] += "?other"
    shop.define(source="marts.daily", key=None, mode="append", sink="http", to=to)
    assert shop.sync().sent == 0, "the place is the same"
    to["prod"]["url"] = receiver.url + "/other"
    shop.define(source="marts.daily", key=None, mode="append", sink="http", to=to)
    shop.run_day()
    with pytest.raises(UsageError, match="would add rows twice") as raised:
        shop.sync()
    assert "`vde sync run prod latest --full`" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="would add rows twice"):
        shop.sync(how="plan")


def test_a_plan_counts_no_removed_rows_if_nothing_is_deleted(
    shop: Shop, receiver: Receiver
) -> None:
    shop.define(sink="http", mode="upsert", to={"prod": {"url": receiver.url}})
    shop.run_day()
    shop.sync()
    shop.rollback(1)
    planned, done = shop.sync(how="plan"), shop.sync()
    assert (planned.sent, planned.unchanged) == (done.sent, done.unchanged)


STEPS = (
    "sync.begun.commit",
    "sync.post",
    "sync.refused.commit",
    "sync.done.commit",
)


@pytest.mark.parametrize("mode", ["kill_before", "kill_after"])
@pytest.mark.parametrize("point", STEPS)
def test_killed_at_any_step_it_ends_equal_all_the_same(
    shop: Shop, receiver: Receiver, point: str, mode: Any
) -> None:
    shop.sync()
    refuses = point == "sync.refused.commit"
    receiver.answers = [lambda body: (422, {}) if refuses and "1" in body["batch"] else None]
    shop.run_day()
    clock = FakeClock()
    injector = FaultInjector(Fault(point, mode), clock=clock, in_process=True)
    with pytest.raises(ProcessKilled):
        shop.sync(opened={"effects": injector, "clock": clock})
    assert injector.fired
    receiver.answers = []
    shop.rollback(1)
    shop.sync()
    shop.sync(how="replay")
    equal(shop, receiver)


ANY_TYPE = """
    MODEL (name marts.latest, kind FULL, start '2024-01-01');
    SELECT customer AS Customer, CAST('NaN' AS DOUBLE) AS `Not A Number`,
      CAST('-Infinity' AS DOUBLE) AS least, max(amount) AS Amount, max(day) AS lastDay
    FROM marts.daily GROUP BY customer
"""


def test_names_keep_their_case_and_numbers_that_json_lacks_are_texts(
    shop: Shop, receiver: Receiver
) -> None:
    shop.folder.write("models/latest.sql", ANY_TYPE)
    shop.publish()
    planned = shop.sync(how="plan")
    assert shop.sync().sent == 4
    assert receiver.rows["1"] == {
        "Customer": 1,
        "Not A Number": "NaN",
        "least": "-Infinity",
        "Amount": "10.50",
        "lastDay": "2024-01-02",
    }
    shown = json.loads(json.dumps(planned.to_json(), allow_nan=False))["sample"]
    assert {one["row"]["Customer"]: one["row"] for one in shown}[1] == receiver.rows["1"]
    shop.rollback(1)
    shop.sync()
    shop.rollback(2)
    receiver.answers.insert(0, lambda body: (422, {}) if body["changes"] else None)
    assert shop.sync().refused == 4
    receiver.answers.clear()
    assert shop.sync(how="replay").refused == 0
    assert receiver.rows["1"]["Not A Number"] == "NaN"
