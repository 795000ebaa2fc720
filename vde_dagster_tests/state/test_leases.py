"""Leases: exclusion, expiry and fencing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from vde_dagster.errors import ConflictError, LeaseLostError, StoreError
from vde_dagster.state.db.leases import Lease, LeaseStore
from vde_dagster.state.db.processes import has_ended, own_process
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import FakeClock


def check(store: StateStore, lease: Lease) -> None:
    with store.database.transaction() as conn:
        store.leases.check(conn, lease)


def test_only_one_owner_at_a_time(store: StateStore) -> None:
    first = store.leases.acquire("environment/prod", "anna", 60)
    with pytest.raises(ConflictError, match="is in use by anna"):
        store.leases.acquire("environment/prod", "ben", 60)
    assert store.leases.acquire("environment/prod", "anna", 60) == first
    store.leases.release(first)
    assert store.leases.acquire("environment/prod", "ben", 60).token == 2


def test_two_threads_or_containers_with_one_process_id_exclude_each_other(
    store: StateStore,
) -> None:
    with (
        store.leases.holding("sync/crm/prod"),
        pytest.raises(ConflictError, match=f"process {os.getpid()}, "),
        store.leases.holding("sync/crm/prod"),
    ):
        pass


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


TAKEN = """
import os, signal, sys
from vde_dagster.state.store import StateStore
store = StateStore.open({url!r})
store.leases.acquire("environment/prod", "anna", ttl_seconds=3600)
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_lease_ends_at_once_when_its_owners_process_ends(url: str) -> None:
    """A process that is killed, or ends on a full disk, cannot give it back."""
    store = StateStore.open(url)
    command = [sys.executable, "-c", TAKEN.format(url=url)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"taken\n"
        with pytest.raises(ConflictError, match="is in use by anna"):
            store.leases.acquire("environment/prod", "ben")
        owner.kill()
        os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)  # It has ended, unseen so far.
        heir = store.leases.acquire("environment/prod", "ben")
    assert heir.token == 2
    check(store, heir)
    with pytest.raises(LeaseLostError):
        check(store, Lease("environment/prod", "anna", 1))
    store.close()


def test_a_lease_that_could_not_be_given_back_is_free_for_its_process(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = store.leases.acquire("environment/prod", "anna", ttl_seconds=3600)

    def full(*arguments: object) -> None:
        raise StoreError("the state store has no space left", hint="free some")

    with monkeypatch.context() as patched:
        patched.setattr(LeaseStore, "_give_back", full)
        with pytest.raises(StoreError, match="no space"):
            store.leases.release(lease)
    assert store.leases.acquire("environment/prod", "ben").token == 2
    with pytest.raises(ConflictError):
        store.leases.acquire("environment/prod", "carl")


def test_only_a_process_that_is_known_to_have_ended_has() -> None:
    own = own_process()
    assert own is not None
    boot, namespace, pid, start = own.split()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    gone = str(ended.pid)
    assert has_ended(f"{boot} {namespace} {gone} {start}")
    assert has_ended(f"{boot} {namespace} {pid} 1")  # its id is another process's by now
    assert not has_ended(own)
    for unknown in (
        None,
        "",
        "a b c",
        f"other {namespace} {gone} {start}",
        f"{boot} pid:[1] {gone} {start}",
        f"{boot} {namespace} -{gone} {start}",
        f"{boot} {namespace} {10**30} {start}",
    ):
        assert not has_ended(unknown), unknown


def test_heartbeat_prolongs(store: StateStore, clock: FakeClock) -> None:
    lease = store.leases.acquire("r", "anna", 60)
    for _ in range(5):
        clock.advance(seconds=50)
        store.leases.heartbeat(lease, 60)
    check(store, lease)


def test_a_heartbeat_waits_for_no_thread_that_has_a_connection(store: StateStore) -> None:
    lease = store.leases.acquire("environment/prod", "anna", 60)
    with ExitStack() as connections:
        for _ in range(16):  # threads of an apply; SQLAlchemy's pool lends 15 by default
            connections.enter_context(store.database.engine.connect())
        began = time.monotonic()
        store.leases.heartbeat(lease)
        assert time.monotonic() - began < 10
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
