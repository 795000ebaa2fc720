"""Leases: exclusion, expiry and fencing."""

from __future__ import annotations

import time

import pytest

from vde_dagster.errors import ConflictError, LeaseLostError
from vde_dagster.state import StateStore
from vde_dagster.state.db.leases import Lease
from vde_dagster_tests.state.builders import FakeClock


def check(store: StateStore, lease: Lease) -> None:
    with store.database.transaction() as conn:
        store.leases.check(conn, lease)


def test_only_one_owner_at_a_time(store: StateStore) -> None:
    first = store.leases.acquire("environment/prod", "anna", 60)
    with pytest.raises(ConflictError, match="being worked on by anna"):
        store.leases.acquire("environment/prod", "ben", 60)
    assert store.leases.acquire("environment/prod", "anna", 60) == first
    store.leases.release(first)
    assert store.leases.acquire("environment/prod", "ben", 60).token == 2


def test_dead_owner_is_replaced_and_can_write_nothing_late(
    store: StateStore, clock: FakeClock
) -> None:
    dead = store.leases.acquire("environment/prod", "anna", 60)
    clock.advance(seconds=61)
    with pytest.raises(LeaseLostError, match="ended at"):
        check(store, dead)
    heir = store.leases.acquire("environment/prod", "ben", 60)
    assert heir.token > dead.token
    with pytest.raises(LeaseLostError, match="ben has it now"):
        check(store, dead)
    with pytest.raises(LeaseLostError):
        store.leases.heartbeat(dead)
    store.leases.release(dead)
    check(store, heir)


def test_heartbeat_prolongs(store: StateStore, clock: FakeClock) -> None:
    lease = store.leases.acquire("r", "anna", 60)
    for _ in range(5):
        clock.advance(seconds=50)
        store.leases.heartbeat(lease, 60)
    check(store, lease)


def test_waiting_ends_when_the_holder_is_done(store: StateStore, clock: FakeClock) -> None:
    store.leases.acquire("r", "anna", 3)
    assert store.leases.acquire("r", "ben", 60, wait_seconds=10).owner == "ben"


def test_thread_keeps_a_held_lease_alive(url: str) -> None:
    store = StateStore.open(url)
    with store.leases.holding("r", "anna", ttl_seconds=0.6) as held:
        time.sleep(1.2)
        held.check()
        check(store, held.lease)
    with pytest.raises(LeaseLostError):
        check(store, held.lease)
    store.close()


def test_holder_learns_that_the_lease_is_lost(url: str) -> None:
    store = StateStore.open(url)
    with store.leases.holding("r", "anna", ttl_seconds=0.3) as held:
        with store.database.transaction() as conn:
            conn.exec_driver_sql("UPDATE vde_leases SET token = 9, owner = 'ben'")
        time.sleep(0.3)
        with pytest.raises(LeaseLostError, match="ben has it now"):
            held.check()
    store.close()
