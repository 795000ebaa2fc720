"""Environments: versions, history, and who wins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import T0, FakeClock, environment, plan, table


def write(store: StateStore, value: Environment, base: int) -> Environment:
    return store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, value, base)
    )


def test_every_version_can_be_read_back(store: StateStore) -> None:
    first = write(store, environment(entries=[("db.a", "a1", None), ("db.b", "b1", None)]), 0)
    second = write(store, environment(entries=[("db.a", "a2", None), ("db.c", "c1", None)]), 1)
    third = write(store, environment(entries=[("db.a", "a1", None)]), 2)
    assert store.environments.get("prod") == third
    assert store.versions.at("prod", 1) == first
    assert store.versions.at("prod", 2) == second
    assert store.versions.at("prod", 9) is None
    lines = [(v.version, v.added, v.changed, v.removed) for v in store.versions.history("prod")]
    assert lines == [(3, 0, 1, 1), (2, 1, 1, 1), (1, 2, 0, 0)]


def test_one_changed_model_of_a_thousand_writes_two_entry_rows(store: StateStore) -> None:
    models = [(f"db.m{i}", "s1", None) for i in range(1_000)]
    write(store, environment(entries=models), 0)
    write(store, environment(entries=[("db.m0", "s2", None), *models[1:]]), 1)
    with store.database.reading() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM vde_entries").scalar() == 1_001


def test_whoever_comes_second_is_told_who_won(store: StateStore) -> None:
    write(store, environment(by="anna", plan_id="p1"), 0)
    with pytest.raises(ConflictError, match="anna published with plan p1 at 2024-01-01") as error:
        write(store, environment(by="ben"), 0)
    assert error.value.hint == "plan again: vde plan prod"
    current = store.environments.get("prod")
    assert current is not None
    assert current.published_by == "anna"


def test_cleaned_up_table_cannot_be_published(store: StateStore) -> None:
    made = store.tables.ensure(table())
    write(store, environment(entries=[("db.a", "a1", made.id)]), 0)
    with store.database.transaction() as conn:
        conn.exec_driver_sql("UPDATE vde_tables SET status = 'tombstoned'")
    with pytest.raises(ConflictError, match="were cleaned up"):
        write(store, environment(entries=[("db.a", "a1", made.id)]), 1)


def test_dropped_environment_starts_anew_and_counts_on(store: StateStore) -> None:
    write(store, environment("dev", [("db.a", "a1", None)]), 0)
    store.database.run_transaction(
        lambda conn: store.environments.write_version(
            conn, environment("dev", by="janitor"), 1, ends=True
        )
    )
    assert store.environments.get("dev") is None
    assert store.environments.all() == []
    again = write(store, environment("dev", [("db.a", "a2", None)]), 0)
    assert again.version == 3
    assert [v.dropped for v in store.versions.history("dev")] == [False, True, False]


def test_expiry_moves_without_a_new_version(store: StateStore, clock: FakeClock) -> None:
    write(store, environment("dev"), 0)
    store.environments.invalidate("dev")
    assert store.environments.expired() == ["dev"]
    current = store.environments.get("dev")
    assert current is not None
    assert (current.version, current.expires_at) == (1, T0)
    store.environments.expire("dev", None)
    assert store.environments.expired() == []


def test_production_never_expires(store: StateStore) -> None:
    write(store, environment("prod"), 0)
    with pytest.raises(UsageError, match="cannot expire"):
        store.environments.invalidate("prod")
    with pytest.raises(UsageError, match="environment 'qa' does not exist"):
        store.environments.invalidate("qa")


def test_plans_are_past_once_their_environment_moved_unless_they_were_published(
    store: StateStore,
) -> None:
    for name in ("applied", "failed", "waits", "superseded"):
        store.plans.save(plan(name))
    store.plans.save(plan("next", base_version=1))
    store.plans.save(plan("other", environment_name="dev"))
    store.plans.set_status("superseded", "superseded")
    store.plans.set_status("failed", "failed", "Spark was away")
    known = ["applied", "failed", "waits", "superseded", "next", "other", "forgotten"]
    assert store.plans.find_dead(known) == {"superseded", "next", "forgotten"}
    store.plans.set_status("applied", "applied")
    write(store, environment(plan_id="applied"), 0)
    assert store.plans.find_dead(known) == {"failed", "waits", "superseded", "forgotten"}
    store.database.run_transaction(
        lambda conn: store.environments.write_version(conn, environment(), 1, ends=True)
    )
    assert store.plans.find_dead(["waits", "next"]) == {"next"}
    assert store.plans.find_dead([]) == set()


def test_a_plan_holds_while_the_environment_keeps_its_entries(store: StateStore) -> None:
    assert store.versions.current_base("prod", 0) == 0
    same = [("db.a", "a1", None), ("db.b", "b1", None)]
    write(store, environment(entries=same), 0)
    assert store.versions.current_base("prod", 0) is None
    write(store, environment(entries=same), 1)
    write(store, environment(entries=same), 2)
    assert [store.versions.current_base("prod", base) for base in (1, 2, 3, 4)] == [3, 3, 3, None]
    write(store, environment(entries=same[:1]), 3)
    assert [store.versions.current_base("prod", base) for base in (1, 3, 4)] == [None, None, 4]
    write(store, environment(entries=same), 4)
    assert [store.versions.current_base("prod", base) for base in (1, 3, 4, 5)] == [
        None,
        None,
        None,
        5,
    ]


def test_a_plan_of_a_forgotten_version_no_longer_holds(store: StateStore) -> None:
    for base in range(2):
        write(store, environment(entries=[("db.a", "a1", None)]), base)
    with store.database.transaction() as conn:
        conn.exec_driver_sql("DELETE FROM vde_environment_versions WHERE version = 1")
    assert store.versions.current_base("prod", 1) is None
    assert store.versions.current_base("prod", 2) == 2


def test_since_when_a_model_is_shown_survives_versions_that_leave_it_alone(
    store: StateStore, clock: FakeClock
) -> None:
    a, b = ModelName("db", "a"), ModelName("db", "b")
    entries = [("db.a", "a1", None), ("db.b", "b1", None)]
    times = []
    for version, changed in enumerate([entries, [("db.a", "a2", None), entries[1]], entries[1:]]):
        value = replace(environment(entries=changed), published_at=clock.now())
        write(store, value, version)
        times.append(clock.now())
        clock.advance(hours=1)
    assert store.versions.entry_times("prod", 1) == {a: times[0], b: times[0]}
    assert store.versions.entry_times("prod", 2) == {a: times[1], b: times[0]}
    assert store.versions.entry_times("prod", 3) == {b: times[0]}
    assert store.versions.entry_times("dev", 1) == {}
