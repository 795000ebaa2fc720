"""Leases: exclusive, time-limited rights to work on a resource, with fencing tokens.

A lease is a row with an owner, an end, and a token that grows with every change of owner. A
heartbeat renews the lease; after the end any process can take over the lease under a higher token.
Commits verify their token (`LeaseStore.check`), so an owner who stalled past the end cannot write
late (Kleppmann, "How to do distributed locking", 2016: fencing tokens). A lease can be taken over
before its end if its owner's process has ended on the same machine.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NewType

from sqlalchemy import Connection, bindparam, insert, select, update

from vde_dagster.base.names import current_user
from vde_dagster.base.times import instant_text
from vde_dagster.errors import ConflictError, LeaseLostError, NotAllowedError, VdeError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, lock_rows
from vde_dagster.state.db.processes import has_ended, own_process

DEFAULT_TTL_SECONDS = 60.0

# Built once: building a statement takes longer than running it.
_LEASE = select(schema.leases).where(schema.leases.c.resource == bindparam("of"))
_INSERT = insert(schema.leases)
_UPDATE = update(schema.leases).where(schema.leases.c.resource == bindparam("of"))
_RELEASE = _UPDATE.where(
    schema.leases.c.token == bindparam("of_token"), schema.leases.c.owner == bindparam("of_owner")
)


LeaseOwner = NewType("LeaseOwner", str)
"""Unique name of a lease's holder; see `lease_owner`."""


def lease_owner(holder: str) -> LeaseOwner:
    """`'ann, rollback' -> 'ann, rollback, 5f0c9d2e'`: a name that no other holder has.

    Acquiring a lease again under the same name renews it.
    """
    # Processes in two containers, and threads of one process, may have the same id.
    return LeaseOwner(f"{holder}, {uuid.uuid4().hex[:8]}")


_GIVEN_UP: set[tuple[str, str, int]] = set()
"""Leases (database, resource, token) that this process no longer needs but could not release."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right of one process to work on a resource, such as `environment/prod`."""

    resource: str
    owner: str
    token: int


def _busy(resource: str, holder: str, until: datetime) -> ConflictError:
    return ConflictError(
        f"'{resource}' is in use by {holder}, whose lease runs until {instant_text(until)}",
        hint=f"wait until {holder} is done; a lease ends with its owner's process, but if the "
        "process has ended on another machine, the lease still runs until that time",
    )


@dataclass(frozen=True, slots=True)
class LeaseStore:
    database: Database

    def acquire(
        self,
        resource: str,
        owner: LeaseOwner,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        wait_seconds: float = 0.0,
    ) -> Lease:
        """Acquire a lease, or renew it if the owner already has it.

        Raises:
            ConflictError: Another owner has the lease; the message names the owner and the end.
        """
        deadline = self.database.clock.now() + timedelta(seconds=wait_seconds)
        while True:
            lease, holder, until = self._acquire(resource, owner, ttl_seconds)
            if lease is not None:
                return lease
            if self.database.clock.now() >= deadline:
                raise _busy(resource, holder, until)
            self.database.clock.sleep(min(0.5, max(0.05, wait_seconds / 20)))

    def _acquire(
        self, resource: str, owner: LeaseOwner, ttl_seconds: float
    ) -> tuple[Lease | None, str, datetime]:
        work = partial(self._try_acquire, resource=resource, owner=owner, ttl_seconds=ttl_seconds)
        name = "lease.acquire"
        try:
            return self.database.run_transaction(work, name=name)
        except NotAllowedError:
            # A login that may not take over another's lease before its end waits until then.
            return self.database.run_transaction(partial(work, by_time=True), name=name)

    def _try_acquire(
        self,
        conn: Connection,
        resource: str,
        owner: LeaseOwner,
        ttl_seconds: float,
        *,
        by_time: bool = False,
    ) -> tuple[Lease | None, str, datetime]:
        now = self.database.clock.now()
        until = now + timedelta(seconds=ttl_seconds)
        row = conn.execute(_LEASE, {"of": resource}).one_or_none()
        times = {
            "acquired_at": now,
            "heartbeat_at": now,
            "expires_at": until,
            "process": own_process(),
        }
        if row is None:
            conn.execute(_INSERT, {"resource": resource, "owner": owner, "token": 1, **times})
            return Lease(resource, owner, 1), owner, until
        held = row.owner is not None and row.expires_at > now
        if held and row.owner != owner:
            given_up = self._named(resource, row.token) in _GIVEN_UP
            if by_time or not (given_up or has_ended(row.process)):
                return None, row.owner, row.expires_at
            held = False
        token = row.token if held else row.token + 1
        conn.execute(_UPDATE, {"of": resource, "owner": owner, "token": token, **times})
        return Lease(resource, owner, token), owner, until

    def _named(self, resource: str, token: int) -> tuple[str, str, int]:
        return str(self.database.engine.url), resource, token

    def heartbeat(self, lease: Lease, ttl_seconds: float = DEFAULT_TTL_SECONDS) -> None:
        """Extend a lease, or raise LeaseLostError if it ended or was taken over."""

        def work(conn: Connection) -> None:
            self.check(conn, lease)
            now = self.database.clock.now()
            until = now + timedelta(seconds=ttl_seconds)
            conn.execute(_UPDATE, {"of": lease.resource, "heartbeat_at": now, "expires_at": until})

        self.database.run_transaction(work, name="lease.heartbeat")

    def release(self, lease: Lease) -> None:
        """End a lease, unless another owner has taken it over."""
        try:
            self.database.run_transaction(
                lambda conn: self._give_back(conn, lease), name="lease.release"
            )
        except VdeError:
            # The release may fail, for example on a full disk. This process treats the lease as
            # ended anyway.
            _GIVEN_UP.add(self._named(lease.resource, lease.token))
            raise

    def _give_back(self, conn: Connection, *leases: Lease) -> None:
        ended = {"owner": None, "expires_at": self.database.clock.now()}
        for lease in leases:
            this = {"of": lease.resource, "of_token": lease.token, "of_owner": lease.owner}
            conn.execute(_RELEASE, {**this, **ended})

    def check(self, connection: Connection, lease: Lease) -> None:
        """Check a lease in a commit's transaction.

        Raises:
            LeaseLostError: The lease ended or was taken over: nothing more may be written.
        """
        query = _LEASE.params(of=lease.resource)
        row = lock_rows(connection, query, "vde_hold_lease", lease.resource).one_or_none()
        if row is None or row.token != lease.token or row.owner != lease.owner:
            holder = row.owner if row is not None and row.owner else "nobody"
            raise LeaseLostError(
                f"the lease on '{lease.resource}' was lost: {holder} has it now",
                hint="run the command or job again: finished work is kept",
            )
        if row.expires_at <= self.database.clock.now():
            raise LeaseLostError(
                f"the lease on '{lease.resource}' ended at {instant_text(row.expires_at)}",
                hint="the process was stalled for too long: run the command or job again",
            )

    @contextmanager
    def holding(
        self,
        resource: str,
        owner: LeaseOwner | None = None,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        wait_seconds: float = 0.0,
    ) -> Iterator[HeldLease]:
        """Hold a lease while the block runs.

        Args:
            owner: By default, one that names the user and this process.
            ttl_seconds: Lifetime without renewal. A thread renews the lease whenever a third of the
                lifetime has passed.

        Raises:
            ConflictError: Another owner has the lease.
        """
        owner = owner or lease_owner(f"{current_user()}, process {os.getpid()}")
        lease = self.acquire(resource, owner, ttl_seconds, wait_seconds)
        held = HeldLease(self, lease, ttl_seconds)
        held.start()
        try:
            yield held
        finally:
            held.stop()
            self.release(lease)

    @contextmanager
    def holding_all(
        self, resources: Iterable[str], owner: LeaseOwner, ttl_seconds: float = 300.0
    ) -> Iterator[tuple[Lease, ...]]:
        """Acquire many leases for a short block, without renewal.

        Raises:
            ConflictError: Another owner has one of the leases. Then no lease is acquired.
        """
        wanted = sorted(resources)

        def take(conn: Connection) -> tuple[Lease, ...]:
            taken = []
            for resource in wanted:
                lease, holder, until = self._try_acquire(conn, resource, owner, ttl_seconds)
                if lease is None:
                    raise _busy(resource, holder, until)
                taken.append(lease)
            return tuple(taken)

        held = self.database.run_transaction(take, name="lease.acquire_all") if wanted else ()
        try:
            yield held
        finally:
            if held:
                self.database.run_transaction(
                    lambda conn: self._give_back(conn, *held), name="lease.release_all"
                )

    def active_resources(self, connection: Connection) -> set[str]:
        table = schema.leases.c
        query = select(table.resource).where(
            table.owner.is_not(None), table.expires_at > self.database.clock.now()
        )
        return set(connection.execute(query).scalars())

    def tables(self, connection: Connection | None = None) -> set[str]:
        with self.database.reading(connection) as conn:
            held = self.active_resources(conn)
        return {name.removeprefix(_TABLE) for name in held if name.startswith(_TABLE)}


class HeldLease:
    """Lease that a thread renews until `stop` is called."""

    def __init__(self, store: LeaseStore, lease: Lease, ttl_seconds: float) -> None:
        self.lease = lease
        self._store = store
        self._ttl_seconds = ttl_seconds
        self._stopped = threading.Event()
        self._error: VdeError | None = None
        self._thread = threading.Thread(
            target=self._beat, name=f"lease {lease.resource}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread that renews the lease, and wait for its end."""
        self._stopped.set()
        self._thread.join()

    def check(self) -> None:
        """Raise LeaseLostError if the thread that renews the lease has lost it."""
        if isinstance(self._error, LeaseLostError):
            raise self._error

    def _beat(self) -> None:
        while not self._stopped.wait(self._ttl_seconds / 3):
            try:
                self._store.heartbeat(self.lease, self._ttl_seconds)
            except LeaseLostError as error:
                self._error = error  # raised by check(); commits detect it by the token anyway
                return
            except VdeError as error:
                self._error = error  # temporarily unreachable: the next beat may be in time


_TABLE = "table/"


def environment_lease(environment: str) -> str:
    return f"environment/{environment}"


def table_lease(table_id: str) -> str:
    return f"{_TABLE}{table_id}"


def mirror_lease(catalog: str) -> str:
    """Return the name of the lease for writing the mirrored views of a catalog."""
    return f"mirror/{catalog}"
