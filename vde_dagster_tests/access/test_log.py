"""The log is a chain: whatever is changed, removed, put in or moved in it is seen."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import DatabaseError

from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.publishing.publish import _PUBLISHED
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.db.log import FIRST, LogEntry, check
from vde_dagster.state.db.transfer import export_state, import_state
from vde_dagster.state.retention import Retention
from vde_dagster.state.store import StateStore
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import T0, FakeClock, environment, plan, table
from vde_dagster_tests.state.postgres_server import PostgresServer


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
        rows.append(replace(row, hash=row.computed_hash))
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


@pytest.mark.proof
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


@pytest.mark.proof
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
    again = replace(new, hash=new.computed_hash)
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
        forged.append(replace(made, hash=made.computed_hash))
    assert check(forged).wrong is None
    for number, hash_ in enumerate(kept, 1):
        assert (check(forged, hash_).wrong is None) == (number <= at % length)
        assert check(rows, hash_[:10].upper()).wrong is None


def write(store: StateStore, value: Environment, base: int, *, ends: bool = False) -> None:
    """Write an environment's next version."""
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, value, base, ends=ends)
    )


def test_acts_are_written_with_what_makes_them_true(store: StateStore, clock: FakeClock) -> None:
    made = plan("p1", "prod")
    store.plans.save(made)
    store.plans.set_status(made.id, "applying", who="anna", approved=True)
    value = environment("prod", by="anna", plan_id=made.id)
    write(store, value, 0)
    back = environment("prod", by="bert", at=clock.now())
    write(store, back, 1)
    dev = environment("dev", by="carl")
    write(store, replace(dev, plan_id="p"), 0)
    store.environments.invalidate("dev")
    end = environment("dev", by="janitor", at=clock.now())
    write(store, end, 1, ends=True)
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
        write(store, value, number)
    head = store.log.verify().head
    with store.database.transaction() as conn:
        names = ["update", "delete"] if store.database.is_sqlite else ["stays"]
        for name in names:
            on = "" if store.database.is_sqlite else " ON vde_log"
            conn.execute(text(f"DROP TRIGGER vde_log_{name}{on}"))
        conn.execute(text("DELETE FROM vde_log WHERE number = 3"))
    cut = store.log.verify()
    assert cut.wrong == "version 3 of 'prod' has no row: rows at the end were removed"
    assert "rows at its end were removed" in str(store.log.verify(head).wrong)
    with store.database.transaction() as conn:
        conn.execute(text("UPDATE vde_log SET who = 'mallory' WHERE number = 2"))
    found = store.log.verify()
    assert (found.number, found.wrong) == (2, "row 2 was changed")


def test_writers_at_the_same_time_make_one_chain(store: StateStore, url: str) -> None:
    failed: list[Exception] = []

    def publish(name: str) -> None:
        own = StateStore.open(url)
        try:
            for number in range(6):
                value = environment(name, by=name)
                write(own, value, number)
        except Exception as error:
            failed.append(error)
        own.close()

    writers = [threading.Thread(target=publish, args=(f"dev{one}",)) for one in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert failed == []
    checked = store.log.verify()
    assert (checked.rows, checked.wrong) == (24, None)


@pytest.mark.server
def test_publications_that_others_overtake_all_come_through(
    postgres: PostgresServer, empty_postgres: str
) -> None:
    name = postgres.create_database(empty_postgres)
    failed: list[Exception] = []

    def publish(number: int) -> None:
        own = StateStore.open(postgres.url(name))

        def work(conn: Connection) -> None:
            own.environments.write_version(conn, environment(f"dev{number}"), 0)
            time.sleep(0.2)

        try:
            own.database.run_transaction(work, idempotent=False, beside=_PUBLISHED)
        except Exception as error:
            failed.append(error)
        own.close()

    writers = [threading.Thread(target=publish, args=(one,)) for one in range(16)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert failed == []
    store = StateStore.open(postgres.url(name))
    assert (store.log.verify().rows, store.log.verify().wrong) == (16, None)
    store.close()
    postgres.drop_database(name)


def test_a_head_that_is_no_hash_is_one_message(store: StateStore) -> None:
    with pytest.raises(UsageError, match="'abc' is not a hash of the log"):
        store.log.verify("abc")


def test_a_clean_up_is_in_the_log_before_it_removes_anything(
    store: StateStore, clock: FakeClock
) -> None:
    left = store.tables.ensure(table())
    for number in range(3):
        value = environment("prod", entries=[("db.orders", f"s{number}", None)], at=clock.now())
        write(store, value, number)
        clock.advance(days=40)
    store.retention.mark(Retention(), write=False)
    assert {one.act for one in store.log.latest()} == {"rollback"}
    store.retention.mark(Retention(), write=True)
    given_up, begun = store.log.latest()[:2]
    assert (begun.act, begun.who, begun.details) == ("clean up", "janitor", {"tables": [left.id]})
    assert (given_up.act, given_up.environment) == ("give up", "prod")
    assert given_up.details == {"versions": 2}
    assert store.log.verify().wrong is None


def test_the_log_moves_with_the_state(
    store: StateStore, tmp_path: Path, empty_database: Path
) -> None:
    for number in range(3):
        write(store, environment("prod", by=f"who {number}"), number)
    head = store.log.verify().head
    export_state(store.database, tmp_path / "state.gz")
    shutil.copy(empty_database, tmp_path / "other.db")
    other = StateStore.open(f"sqlite:///{tmp_path / 'other.db'}")
    import_state(other.database, tmp_path / "state.gz")
    found = other.log.verify(head)
    assert (found.rows, found.wrong) == (4, None)
    assert [one.act for one in other.log.latest(limit=2)] == ["import", "rollback"]
    assert other.log.latest()[1] == store.log.latest()[0]
    other.close()


@pytest.mark.server
def test_a_log_of_sqlite_goes_on_in_postgresql(
    empty_database: Path, postgres: PostgresServer, empty_postgres: str, tmp_path: Path
) -> None:
    shutil.copy(empty_database, tmp_path / "vde.db")
    small = StateStore.open(f"sqlite:///{tmp_path / 'vde.db'}")
    write(small, environment("prod", by="änna"), 0)
    export_state(small.database, tmp_path / "state.gz")
    name = postgres.create_database(empty_postgres)
    big = StateStore.open(postgres.url(name))
    import_state(big.database, tmp_path / "state.gz")
    write(big, environment("prod", by="bert"), 1)
    assert [(one.act, one.db_user) for one in big.log.latest()] == [
        ("rollback", "vde"),
        ("import", "vde"),
        ("rollback", None),
    ]
    assert big.log.verify(small.log.verify().head).wrong is None
    with pytest.raises(UsageError, match="is not empty"):
        import_state(big.database, tmp_path / "state.gz")
    small.close()
    big.close()
    postgres.drop_database(name)


def test_the_commands_show_the_log_and_what_is_wrong_with_it(vde: Vde, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop", {"pyproject.toml": '[tool.vde]\nid = "a1b2"\n'})
    at = ("--project", project.root)
    project.write("models/a.sql", "MODEL (name db.a, kind FULL);\nSELECT 1 AS n")
    assert vde("log", *at).out == "no acts yet\n"
    url = f"sqlite:///{project.root}/.vde/vde.db"
    store = StateStore.open(url)
    write(store, environment("prod", by="anna", plan_id="p1"), 0)
    write(store, environment("dev", by="bert", plan_id="p2"), 0)
    shown = vde("log", "prod", *at)
    assert "publish" in shown.out
    assert "anna" in shown.out
    assert "bert" not in shown.out
    rows = vde("log", *at, "--json").json["log"]
    assert [(one["number"], one["name"], one["user"]) for one in rows] == [
        (2, "bert", None),
        (1, "anna", None),
    ]
    head = rows[0]["hash"]
    whole = vde("log", "verify", *at, "--head", head[:12])
    assert (whole.code, whole.out) == (
        0,
        f"2 rows, none changed; the hash {head[:12]} is in the log; last hash {head}\n",
    )
    with store.database.transaction() as conn:
        conn.execute(text("DROP TRIGGER vde_log_update"))
        conn.execute(text("UPDATE vde_log SET who = 'carl' WHERE number = 1"))
    spoilt = vde("log", "verify", *at)
    assert (spoilt.code, spoilt.out) == (1, "the log was changed: row 1 was changed\n")
    assert vde("log", "verify", *at, "--head", "xyz").code == 2
    told = vde("log", "verify", *at, "--json")
    assert (told.code, told.json["whole"], told.json["number"]) == (1, False, 1)
    store.close()
