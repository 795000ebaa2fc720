"""The log is a chain: whatever is changed, removed, put in or moved in it is seen."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import DatabaseError

from vde_dagster.errors import UsageError
from vde_dagster.state import StateStore
from vde_dagster.state.db.log import FIRST, LogEntry, check
from vde_dagster_tests.state.builders import T0, FakeClock, environment, plan


def chain(length: int) -> list[LogEntry]:
    rows: list[LogEntry] = []
    for number in range(1, length + 1):
        row = LogEntry(
            number=number,
            at=T0 + timedelta(seconds=number),
            db_user=None if number % 3 else "anna",
            who=f"who {number}",
            act="publish" if number % 2 else "grant",
            environment="prod" if number % 2 else None,
            version=number if number % 2 else None,
            detail="{}",
            previous=rows[-1].hash if rows else FIRST,
            hash="",
        )
        rows.append(replace(row, hash=row.own_hash))
    return rows


OTHER = {
    "number": st.integers(-3, 30),
    "at": st.datetimes().map(lambda at: at.replace(tzinfo=T0.tzinfo)),
    "db_user": st.none() | st.text(max_size=5),
    "who": st.text(max_size=5),
    "act": st.sampled_from(["publish", "drop", "-", ""]),
    "environment": st.none() | st.text(max_size=5),
    "version": st.none() | st.integers(0, 20),
    "detail": st.text(max_size=5),
    "previous": st.text("0123456789abcdef", min_size=64, max_size=64),
    "hash": st.text("0123456789abcdef", min_size=64, max_size=64),
}


@given(st.data(), st.integers(1, 8))
def test_an_edit_of_any_field_is_seen_at_its_row(data: st.DataObject, length: int) -> None:
    rows = chain(length)
    place = data.draw(st.integers(0, length - 1))
    field = data.draw(st.sampled_from(sorted(OTHER)))
    value = data.draw(OTHER[field].filter(lambda new: new != getattr(rows[place], field)))
    assert check(rows).wrong is None
    rows[place] = replace(rows[place], **{field: value})
    found = check(rows)
    assert found.wrong is not None
    assert found.number == place + 1


@given(st.data(), st.integers(2, 8))
def test_a_row_that_is_removed_put_in_or_moved_is_seen(data: st.DataObject, length: int) -> None:
    rows = chain(length)
    head, place = rows[-1].hash, data.draw(st.integers(0, length - 1))
    removed = rows[:place] + rows[place + 1 :]
    if place < length - 1:
        assert check(removed).number == place + 1
    else:  # The end of a chain is seen by a hash that was kept, alone.
        assert check(removed).wrong is None
        assert "was rewritten, or rows at its end" in str(check(removed, head).wrong)
    new = replace(rows[place], who="mallory")
    again = replace(new, hash=new.own_hash)
    assert check([*rows[:place], again, *rows[place:]]).number in (place + 1, place + 2)
    other = data.draw(st.integers(0, length - 1).filter(lambda one: one != place))
    rows[place], rows[other] = rows[other], rows[place]
    assert check(rows).number == min(place, other) + 1


@given(st.integers(1, 8), st.integers(0, 7))
def test_a_chain_that_is_made_anew_is_seen_by_a_hash_that_was_kept(length: int, at: int) -> None:
    rows = chain(length)
    kept = [row.hash for row in rows]
    forged: list[LogEntry] = []
    for row in rows:
        who = "mallory" if row.number == at % length + 1 else row.who
        made = replace(row, who=who, previous=forged[-1].hash if forged else FIRST)
        forged.append(replace(made, hash=made.own_hash))
    assert check(forged).wrong is None
    for number, hash_ in enumerate(kept, 1):
        assert (check(forged, hash_).wrong is None) == (number <= at % length)
        assert check(rows, hash_[:10].upper()).wrong is None


def test_acts_are_written_with_what_makes_them_true(store: StateStore, clock: FakeClock) -> None:
    made = plan("p1", "prod")
    store.plans.save(made)
    store.plans.set_status(made.id, "applying", who="anna", approved=True)
    value = environment("prod", by="anna", plan_id=made.id)
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, value, 0))
    back = environment("prod", by="bert", at=clock.now())
    store.database.run_transaction(lambda conn: store.environments.write_version(conn, back, 1))
    dev = environment("dev", by="carl")
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, replace(dev, plan_id="p"), 0)
    )
    store.environments.invalidate("dev")
    end = environment("dev", by="janitor", at=clock.now())
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, end, 1, ends=True)
    )
    token, _ = store.tokens.create("prod", "anna", None, None)
    store.tokens.revoke(token.id)
    store.tokens.revoke(token.id)
    rejected = plan("p2", "dev")
    store.plans.save(rejected)
    store.plans.reject(rejected.id, "bert", "too much")
    found = store.log.latest()[::-1]
    assert [(one.act, one.environment, one.version, one.who) for one in found[:4]] == [
        ("apply", "prod", None, "anna"),
        ("publish", "prod", 1, "anna"),
        ("rollback", "prod", 2, "bert"),
        ("publish", "dev", 1, "carl"),
    ]
    acts = [one.act for one in found[4:]]
    assert acts == ["expire", "drop", "token", "revoke token", "reject"]
    assert found[0].details == {"plan": made.id, "approved": True}
    assert found[-1].details["message"] == "rejected by bert: too much"
    user = None if store.database.is_sqlite else "vde"
    assert {one.db_user for one in found} == {user}
    assert [one.number for one in store.log.latest("dev", 2)] == [9, 6]
    assert store.log.verify(found[3].hash).wrong is None


def test_an_act_that_is_rolled_back_is_not_in_the_log(store: StateStore) -> None:
    def work(conn: Connection) -> None:
        store.environments.write_version(conn, environment("prod"), 0)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.database.run_transaction(work)
    assert store.log.latest() == []
    assert store.log.verify().rows == 0


@pytest.mark.parametrize("change", ["UPDATE vde_log SET who = 'x'", "DELETE FROM vde_log"])
def test_the_database_lets_nobody_change_the_log(store: StateStore, change: str) -> None:
    store.tokens.create("dev", "anna", None, None)
    with pytest.raises(DatabaseError, match="only added to"), store.database.transaction() as conn:
        conn.execute(text(change))
    assert store.log.verify().rows == 1


def test_an_edit_by_whoever_takes_the_triggers_away_is_seen(store: StateStore) -> None:
    for number in range(3):
        value = environment("prod", by=f"who {number}")
        store.database.run_transaction(
            lambda conn, value=value, number=number: store.environments.write_version(
                conn, value, number
            )
        )
    head = store.log.verify().head
    with store.database.transaction() as conn:
        names = ["update", "delete"] if store.database.is_sqlite else ["stays"]
        for name in names:
            on = "" if store.database.is_sqlite else " ON vde_log"
            conn.execute(text(f"DROP TRIGGER vde_log_{name}{on}"))
        conn.execute(text("DELETE FROM vde_log WHERE number = 3"))
    cut = store.log.verify()
    assert cut.wrong == "version 3 of 'prod' is in no row: its row at the end was removed"
    assert "rows at its end were removed" in str(store.log.verify(head).wrong)
    with store.database.transaction() as conn:
        conn.execute(text("UPDATE vde_log SET who = 'mallory' WHERE number = 2"))
    found = store.log.verify()
    assert (found.number, found.wrong) == (2, "row 2 was changed")


def test_writers_at_the_same_time_make_one_chain(store: StateStore, url: str) -> None:
    failed: list[Exception] = []

    def write(name: str) -> None:
        own = StateStore.open(url)
        try:
            for number in range(6):
                value = environment(name, by=name)
                own.database.run_transaction(
                    lambda conn, value=value, number=number: own.environments.write_version(
                        conn, value, number
                    )
                )
        except Exception as error:
            failed.append(error)
        own.close()

    writers = [threading.Thread(target=write, args=(f"dev{one}",)) for one in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert failed == []
    checked = store.log.verify()
    assert (checked.rows, checked.wrong) == (24, None)


def test_a_head_that_is_no_hash_is_one_message(store: StateStore) -> None:
    with pytest.raises(UsageError, match="'abc' is no hash of the log"):
        store.log.verify("abc")
