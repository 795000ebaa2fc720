"""Questions about one environment, or about numbers only, are answered without reading the rest."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.retention import Mark, Retention
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock, environment, table

ALL = Retention(history_versions=1000, history=timedelta(days=1000))


def write(store: StateStore, value: Environment, base: int) -> Environment:
    return store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, value, base)
    )


@contextmanager
def statements(store: StateStore) -> Iterator[list[str]]:
    """Collect the statements that are executed."""
    seen: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *more: Any) -> None:
        if not statement.startswith(("BEGIN", "SET LOCAL")):
            seen.append(statement)

    event.listen(store.database.engine, "before_cursor_execute", note)
    yield seen
    event.remove(store.database.engine, "before_cursor_execute", note)


def test_summaries_are_those_of_the_environments(store: StateStore) -> None:
    for number, name in enumerate(("prod", "dev", "gone", "empty")):
        models = [(f"db.m{n}", "s", None) for n in range(number)]
        write(store, environment(name, models), 0)
    write(store, environment("dev", [("db.m9", "s", None)], by="ben", plan_id="p"), 1)
    value = environment("gone")
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, value, 1, ends=True)
    )
    store.environments.invalidate("empty")
    with statements(store) as seen:
        summaries = store.environments.summaries()
    assert len(seen) == 1, "one question, whatever the number of environments"
    assert [
        (s.name, s.version, s.models, s.published_at, s.published_by, s.plan_id, s.note)
        for s in summaries
    ] == [
        (e.name, e.version, len(e.entries), e.published_at, e.published_by, e.plan_id, e.note)
        for e in store.environments.all()
    ]
    assert [s.expires_at for s in summaries] == [e.expires_at for e in store.environments.all()]
    assert store.environments.names() == [s.name for s in summaries] == ["dev", "empty", "prod"]
    assert store.environments.exists("dev")
    assert not store.environments.exists("gone")
    assert not store.environments.exists("never")


def test_versions_that_show_the_same_are_passed_over(store: StateStore) -> None:
    write(store, environment(entries=[("db.a", "a1", None), ("db.b", "b1", None)]), 0)
    for version, snapshot in enumerate(("a1", "a1", "a2", "a2", "a1", "a1"), 1):
        entries = [("db.a", snapshot, None), ("db.b", "b1", None)]
        write(store, environment(entries=entries), version)
    write(store, environment("dev", [("db.a", "a1", None)]), 0)
    assert store.versions.differing("prod", 7) == [5, 3]
    assert store.versions.differing("prod", 5) == [3]
    assert store.versions.differing("prod", 3) == []
    write(store, environment(entries=[("db.a", "a1", None)]), 7)
    assert store.versions.differing("prod", 8) == [7, 5, 3]


def test_forgotten_versions_are_not_offered(store: StateStore, clock: FakeClock) -> None:
    for version, snapshot in enumerate(("a1", "a2", "a2", "a3", "a3")):
        write(store, environment(entries=[("db.a", snapshot, None)]), version)
    clock.advance(days=1)
    store.retention.mark(replace(ALL, history_versions=2), write=True)
    assert [version.version for version in store.versions.history("prod")] == [5, 4, 3, 2]
    assert store.versions.differing("prod", 5) == [3]


def test_one_day_and_one_definition_are_in_the_singular(
    store: StateStore, clock: FakeClock
) -> None:
    for version, snapshot in enumerate(("a1", "a2")):
        entries = [("db.a", snapshot, None)]
        write(store, environment(entries=entries, at=clock.now()), version)
    clock.advance(hours=1)
    policy = Retention(history_versions=1, history=timedelta(days=1))
    found = store.retention.mark(policy, write=False)
    assert found.forgotten == {("prod", 1): "1 newer definition of the environment is kept"}
    clock.advance(days=2)
    found = store.retention.mark(policy, write=False)
    assert found.forgotten == {("prod", 1): "it was replaced more than 1 day ago"}


def test_runs_that_only_fill_take_no_definitions_place(store: StateStore, clock: FakeClock) -> None:
    policy = Retention(history_versions=3, history=timedelta(days=30))
    shown = ["old", "a1", "a2", *["a3"] * 500]
    for version, snapshot in enumerate(shown):
        entries = [("db.a", snapshot, None)]
        write(store, environment(entries=entries, at=clock.now()), version)
        clock.advance(hours=1)
    found = store.retention.mark(policy, write=True)
    assert found.forgotten == {("prod", 1): "3 newer definitions of the environment are kept"}
    history = store.versions.history("prod")
    assert history[-1].version == 2, "three definitions, of 500 runs in three weeks"
    assert store.versions.at("prod", 2) is not None

    clock.advance(days=20)
    found = store.retention.mark(policy, write=True)
    assert set(found.forgotten.values()) == {"it was replaced more than 30 days ago"}
    left = [version.version for version in store.versions.history("prod")]
    assert 0 < len(left) < 503
    assert left[0] == 503, "what is shown now is kept, however old"
    assert left == list(range(503, left[-1] - 1, -1))


def test_a_definition_that_came_back_counts_as_a_new_one(
    store: StateStore, clock: FakeClock
) -> None:
    for version, snapshot in enumerate(("a1", "a2", "a1", "a1", "a2")):
        write(store, environment(entries=[("db.a", snapshot, None)]), version)
    clock.advance(days=1)
    found = store.retention.mark(replace(ALL, history_versions=3), write=False)
    assert list(found.forgotten) == [("prod", 1)]


def test_who_shows_a_table_or_a_snapshot(store: StateStore) -> None:
    first, second, third = (store.tables.ensure(table(version=str(n))) for n in range(3))
    write(store, environment(entries=[("db.a", "s1", first.id), ("db.b", "s2", second.id)]), 0)
    write(store, environment(entries=[("db.a", "s1", first.id)]), 1)
    write(store, environment("dev", [("db.a", "s1", first.id)]), 0)
    assert store.shown.currently_shown([first.id, second.id, third.id]) == {first.id}
    assert store.shown.tables() == [first.id]
    assert store.shown.environments_with_snapshot("s1") == ["dev", "prod"]
    assert store.shown.environments_with_snapshot("s2") == []
    shown = store.shown.entries_on_tables([first.id, second.id])
    assert [(name, str(entry.name)) for name, entry in shown] == [("dev", "db.a"), ("prod", "db.a")]


def test_who_shows_a_table_is_looked_up(store: StateStore, backend: str) -> None:
    query = "SELECT 1 FROM vde_entries WHERE table_id = 'a' AND valid_to IS NULL"
    explain = "EXPLAIN QUERY PLAN" if backend == "sqlite" else "EXPLAIN"
    with store.database.reading() as conn:
        if backend != "sqlite":  # It reads a small table whole, unless it is told not to.
            conn.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = conn.exec_driver_sql(f"{explain} {query}").all()
    assert "vde_entries_shown" in str(plan)


def test_the_mark_asks_as_little_for_many_environments_as_for_one(store: StateStore) -> None:
    counts = []
    for number in range(6):
        write(store, environment(f"e{number}", [("db.a", "s", "")]), 0)
        with statements(store) as seen:
            store.retention.mark(ALL, write=False)
        counts.append(len(seen))
    assert len(set(counts)) == 1


def test_forgetting_versions_takes_no_statement_for_each(
    store: StateStore, clock: FakeClock
) -> None:
    for version in range(30):
        write(store, environment(entries=[("db.a", f"s{version}", None)]), version)
    clock.advance(days=1)
    with statements(store) as seen:
        store.retention.mark(replace(ALL, history_versions=2), write=True)
    assert len([s for s in seen if s.startswith("DELETE FROM vde_environment_versions")]) == 1
    assert len(store.versions.history("prod")) == 2
    assert store.versions.at("prod", 29) is not None


@pytest.mark.parametrize("seed", range(4))
def test_the_mark_is_that_of_reading_every_version(
    store: StateStore, clock: FakeClock, seed: int
) -> None:
    chance = random.Random(seed)
    tables = [store.tables.ensure(table(version=str(n))) for n in range(12)]
    clock.advance(days=3)
    for name in ("prod", "dev", "qa"):
        for version in range(chance.randrange(1, 7)):
            chosen = chance.sample(tables, 3)
            entries = [(f"db.m{n}", "s", each.id) for n, each in enumerate(chosen)]
            clock.advance(days=chance.randrange(0, 20))
            write(store, environment(name, entries, at=clock.now()), version)
    gone = environment("qa", at=clock.now())
    last = store.environments.get("qa")
    assert last is not None
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, gone, last.version, ends=True)
    )
    policy = Retention(history_versions=chance.randrange(1, 5), history=timedelta(days=30))
    found = store.retention.mark(policy, write=False)
    assert found.reasons == expected_reasons(store, found, tables)
    assert {each.id for each in found.unreachable} == {t.id for t in tables} - set(found.reasons)


def expected_reasons(store: StateStore, found: Mark, tables: list[PhysicalTable]) -> dict[str, str]:
    """Work out from whole environments why tables are kept."""
    reasons: dict[str, str] = {}
    before: dict[str, list[str]] = {}
    for current in store.environments.all():
        for version in store.versions.history(current.name):
            if (current.name, version.version) in found.forgotten:
                continue
            shown = store.versions.at(current.name, version.version)
            assert shown is not None
            for entry in shown.entries.values():
                assert entry.table_id
                if version.version == current.version:
                    reasons[entry.table_id] = f"environment '{current.name}' shows it"
                else:
                    before.setdefault(entry.table_id, []).append(
                        f"version {version.version} of environment '{current.name}' can be rolled "
                        "back to"
                    )
    for table_id, texts in before.items():
        if table_id not in reasons:
            assert found.reasons[table_id] in texts
            reasons[table_id] = found.reasons[table_id]
    return reasons
