"""OutboxRecord: nothing that commits is ever missed or told twice, however late it commits."""

from __future__ import annotations

import random
import threading
import time

from vde_dagster.planning.table_contents import FillFacts, Skipped
from vde_dagster.state.db.outbox import OutboxRecord, add_record, forget_records
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import (
    T0,
    FakeClock,
    day,
    days,
    environment,
    plan,
    table,
)


def put(store: StateStore, plan_id: str, seconds: float = 0.0) -> None:
    """Tell of a plan in a transaction that takes a while."""

    def work(conn: object) -> None:
        add_record(store.database, conn, "plan", plan=plan_id)  # type: ignore[arg-type]
        time.sleep(seconds)

    store.database.run_transaction(work)


def read(store: StateStore, after: int = 1) -> list[OutboxRecord]:
    store.outbox.number()
    return store.outbox.since(after, 1000)


def test_a_row_that_commits_after_a_later_one_was_read_is_read_next(
    store: StateStore, url: str
) -> None:
    other = StateStore.open(url)
    with store.database.transaction() as late:
        add_record(store.database, late, "plan", plan="late")
        if not store.database.is_sqlite:  # where one writes at a time
            put(other, "early")
        seen = read(other)
        early = [] if store.database.is_sqlite else ["early"]
        assert [news.subject["plan"] for news in seen] == early
    last = seen[-1].number if seen else 1
    assert [news.subject["plan"] for news in read(other, last)] == ["late"]
    numbers = [news.number for news in read(other)]
    assert numbers == sorted(set(numbers))
    other.close()


def test_two_readers_see_everything_once_while_others_write(store: StateStore, url: str) -> None:
    names = {f"{writer}-{number}" for writer in range(4) for number in range(15)}
    ended = threading.Event()
    seen: dict[int, list[str]] = {0: [], 1: []}

    def write(writer: int) -> None:
        own = StateStore.open(url)
        for number in range(15):
            put(own, f"{writer}-{number}", random.uniform(0, 0.01))
        own.close()

    def follow(reader: int) -> None:
        own = StateStore.open(url)
        last = 1
        while True:
            finished = ended.is_set()
            for news in read(own, last):
                seen[reader].append(news.subject["plan"])
                last = news.number
            if finished:
                break
        own.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    readers = [threading.Thread(target=follow, args=(number,)) for number in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    for thread in readers:
        thread.join()
    assert seen[0] == seen[1]
    assert sorted(seen[0]) == sorted(names)
    for writer in range(4):
        own = [name for name in seen[0] if name.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(15)]


def test_what_is_rolled_back_is_no_news(store: StateStore) -> None:
    try:
        with store.database.transaction() as conn:
            add_record(store.database, conn, "plan", plan="never")
            raise RuntimeError
    except RuntimeError:
        pass
    put(store, "once")
    assert [news.subject["plan"] for news in read(store)] == ["once"]


def test_plans_fills_and_publications_are_told_with_who_wrote_them(store: StateStore) -> None:
    store.database.origin = "me"
    made = plan("prod")
    store.plans.save(made)
    store.plans.save(made)
    store.plans.set_status(made.id, "applying")
    store.plans.set_status(made.id, "failed", "no")
    known = store.tables.ensure(table())
    store.fills.record(FillRecord(known.id, day(0), made.id, 7, 3, bytes=10, seconds=1.5))
    store.pending.record(
        FillRecord(known.id, day(1), made.id, 8, 4, bytes=20, seconds=2.5, branch="b")
    )
    store.database.run_transaction(lambda conn: store.pending.settle(conn, made.id))
    store.database.origin = ""
    value = environment(entries=[("db.orders", "s", known.id)])
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, value, 0))
    told = read(store)
    assert [(news.kind, news.origin) for news in told] == [
        ("plan", "me"),
        ("failed", "me"),
        ("fill", "me"),
        ("waiting", "me"),
        ("fill", "me"),
        ("published", ""),
    ]
    assert told[4].subject == {**told[3].subject, "waited": True}
    assert store.outbox.for_plan(made.id, told[4].number) == told[:5]
    assert store.outbox.for_plan(made.id[:-1], told[4].number) == []
    assert told[5].subject == {"environment": "prod", "version": 1, "plan": None}
    assert store.outbox.by("me", 1, told[1].number) == told[:2]
    newest, oldest = store.fills.log(known.id)
    assert (oldest.rows, oldest.bytes, oldest.seconds) == (3, 10, 1.5)
    assert (newest.rows, newest.bytes, newest.seconds) == (4, 20, 2.5)


def test_old_news_are_forgotten_but_not_that_there_were_any(
    store: StateStore, clock: FakeClock
) -> None:
    for name in ("a", "b", "c"):
        put(store, name)
        clock.advance(days=1)
    before = store.outbox.number()
    store.database.run_transaction(lambda conn: forget_records(conn, clock.now()))
    place = store.outbox.number()
    assert (place.store, place.newest) == (before.store, before.newest)
    assert place.oldest == before.newest
    put(store, "d")
    assert [news.subject["plan"] for news in read(store)] == ["c", "d"]


def test_a_skipped_slot_counts_with_the_publication_and_the_rest_once_the_table_moves(
    store: StateStore,
) -> None:
    made, known = plan("prod"), store.tables.ensure(table())
    skipped = FillFacts(skipped=Skipped(T0, commit=7))
    store.pending.record(FillRecord(known.id, day(0), made.id, facts=skipped))
    store.pending.record(FillRecord(known.id, day(1), made.id, 8, 4, branch="b"))
    store.database.run_transaction(lambda conn: store.pending.settle(conn, made.id, []))
    assert store.tables.get(known.id).intervals == days(0)
    assert [one.iceberg_snapshot_id for one in store.fills.log(known.id)] == [7]
    assert [one.interval for one in store.pending.for_plan(made.id)] == [day(1)]
    store.database.run_transaction(lambda conn: store.pending.settle(conn, made.id, [known.id]))
    assert store.tables.get(known.id).intervals == days(0, 1)
    assert not store.pending.for_plan(made.id)
