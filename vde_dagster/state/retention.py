"""What may be forgotten: reachability of tables, versions, plans and snapshots.

The mark runs in one transaction over every environment, every version kept for a rollback, every
lease and every plan that may still be applied. What none of them reaches gets a tombstone first:
from then on no plan can reuse it and no publication can show it. It is deleted only after a grace
time, when everybody who had read of it before is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Row,
    ScalarResult,
    delete,
    func,
    select,
    type_coerce,
    update,
)

from vde_dagster.planning.table import TableRef
from vde_dagster.state import schema
from vde_dagster.state.codec import load_stored_plan
from vde_dagster.state.lease_names import environment_lease, leased_table
from vde_dagster.state.publications import PublicationStore
from vde_dagster.state.snapshots import chunks
from vde_dagster.state.tables import DROPPED, DROPPING, LIVE, TOMBSTONED

OPEN_PLANS = ("planned", "applying", "failed")


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long things are kept.

    Args:
        history_versions: The most versions of an environment that are kept for a rollback.
        history: How long a version is kept after another replaced it.
        grace: How long anything is kept after the last use of it ended; has to be longer than
            the longest run.
        cap: The largest share of all tables that may be given up at once.
        cap_floor: So many may be given up at once whatever their share.
        orphan_grace: How long a data file is kept that was written and never committed; has to
            be longer than the longest run.
        orphan_cap: The most such files that are deleted at once.
    """

    history_versions: int = 50
    history: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(hours=24)
    cap: float = 0.5
    cap_floor: int = 10
    orphan_grace: timedelta = timedelta(hours=72)
    orphan_cap: int = 10_000

    @property
    def uncommitted_grace(self) -> timedelta:
        """How old a data file has to be that nobody can commit it any more."""
        return max(self.orphan_grace, self.grace)


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """A physical table as the ledger has it, whatever its status.

    Args:
        id: Its unique id.
        ref: Its place in the catalog.
        status: `live`, `tombstoned`, `dropping` or `dropped`.
        created: Whether it was created in the catalog.
        location: Where its files are, once that was needed to drop it.
        tombstoned_at: When it was given up (UTC), or None.
    """

    id: str
    ref: TableRef
    status: str
    created: bool
    location: str | None
    tombstoned_at: datetime | None


@dataclass(frozen=True, slots=True)
class Mark:
    """What is reachable, and what is not.

    Args:
        reasons: Why a live table is kept, by table id.
        unreachable: Live tables that nothing reaches, oldest first.
        held_back: Those of them that the cap keeps for the next time.
        dropping: Tombstoned tables whose grace time is over.
        waiting: Tombstoned tables whose grace time runs.
        forgotten: (environment, version) that are no longer kept for a rollback.
        dead_plans: Open plans that nobody can apply any more, by id, with the reason.
    """

    reasons: dict[str, str]
    unreachable: tuple[LedgerTable, ...]
    held_back: tuple[LedgerTable, ...]
    dropping: tuple[LedgerTable, ...]
    waiting: tuple[LedgerTable, ...]
    forgotten: tuple[tuple[str, int], ...]
    dead_plans: dict[str, str]


class RetentionStore(PublicationStore):
    """Deciding what may be forgotten, and forgetting it."""

    def mark(self, policy: Retention, *, write: bool) -> Mark:
        """Find what nothing reaches, and (when writing) give tombstones and forget versions.

        Args:
            policy: For how long things are kept.
            write: Whether to act; False only tells.
        """
        if not write:
            with self.reading() as conn:
                return self._find(conn, policy)

        def work(conn: Connection) -> Mark:
            found = self._find(conn, policy)
            self._tombstone(conn, found.unreachable)
            self._forget(conn, found)
            return found

        return self.run_transaction(work, name="janitor.mark")

    def ledger(self, statuses: Iterable[str] = (LIVE,)) -> list[LedgerTable]:
        """Return the physical tables with one of the statuses, oldest first."""
        with self.reading() as conn:
            return self._ledger(conn, statuses)

    def leased_tables(self) -> set[str]:
        """Return the ids of the tables that somebody works on just now."""
        with self.reading() as conn:
            return self._leased(conn)

    def start_dropping(self, connection: Connection, table_id: str, location: str | None) -> bool:
        """Claim a tombstoned table for deletion, after checking again that nothing shows it.

        Args:
            connection: The transaction that also removes it from the catalog.
            table_id: The table.
            location: Where its files are; kept, so that a repetition can go on.

        Returns:
            False when an environment, a lease or somebody else has it.
        """
        shown = select(schema.entries.c.table_id).where(
            schema.entries.c.table_id == table_id, schema.entries.c.valid_to.is_(None)
        )
        if connection.execute(shown).first() is not None:
            return False
        if table_id in self._leased(connection):
            return False
        changed = connection.execute(
            update(schema.tables)
            .where(
                schema.tables.c.table_id == table_id,
                schema.tables.c.status.in_((TOMBSTONED, DROPPING)),
            )
            .values(status=DROPPING, location=location)
        )
        return changed.rowcount == 1

    def finish_dropping(self, table_id: str) -> None:
        """Record that nothing is left of a table; its id and name are never used again."""

        def work(conn: Connection) -> None:
            conn.execute(
                update(schema.tables)
                .where(schema.tables.c.table_id == table_id, schema.tables.c.status == DROPPING)
                .values(status=DROPPED)
            )
            conn.execute(delete(schema.intervals).where(schema.intervals.c.table_id == table_id))
            conn.execute(delete(schema.fills).where(schema.fills.c.table_id == table_id))

        self.run_transaction(work, name="janitor.dropped")

    def expired_environments(self) -> list[str]:
        """Return the environments whose time is over."""
        table = schema.environments.c
        query = select(table.environment).where(
            table.live, table.expires_at.is_not(None), table.expires_at <= self.clock.now()
        )
        with self.reading() as conn:
            return list(conn.execute(query.order_by(table.environment)).scalars())

    def _find(self, conn: Connection, policy: Retention) -> Mark:
        now = self.clock.now()
        kept, forgotten = self._kept_versions(conn, policy, now)
        dead = self._dead_plans(conn, policy, now)
        reasons = self._roots(conn, policy, kept, dead, now)
        live = self._ledger(conn, (LIVE,))
        unreachable = [table for table in live if table.id not in reasons]
        cap = max(policy.cap_floor, int(len(live) * policy.cap))
        given_up = self._ledger(conn, (TOMBSTONED, DROPPING))
        over = [t for t in given_up if t.tombstoned_at and t.tombstoned_at + policy.grace <= now]
        return Mark(
            reasons=reasons,
            unreachable=tuple(unreachable[:cap]),
            held_back=tuple(unreachable[cap:]),
            dropping=tuple(over),
            waiting=tuple(table for table in given_up if table not in over),
            forgotten=tuple(forgotten),
            dead_plans=dead,
        )

    def _kept_versions(
        self, conn: Connection, policy: Retention, now: datetime
    ) -> tuple[dict[str, list[int]], list[tuple[str, int]]]:
        """Split every environment's versions into those kept and those to forget.

        A version's age counts from the day on which the next one replaced it.
        """
        heads = schema.environments.c
        alive: set[str] = set(conn.execute(select(heads.environment).where(heads.live)).scalars())
        table = schema.environment_versions.c
        # As plain numbers: there may be a hundred thousand, and nearly all are only compared.
        published = type_coerce(table.published_at, BigInteger)
        query = select(table.environment, table.version, published)
        oldest = schema.to_micros(now - policy.history)
        kept: dict[str, list[int]] = {}
        forgotten: list[tuple[str, int]] = []
        before, later, replaced_at = "", 0, 0
        rows: Iterable[Any] = conn.execute(query.order_by(table.environment, table.version.desc()))
        for environment, version, at in rows:
            if environment != before:
                before, later = environment, 0
            current = later == 0 and environment in alive
            fresh = later == 0 or replaced_at > oldest
            if current or (fresh and later < policy.history_versions):
                if environment in alive:
                    kept.setdefault(environment, []).append(version)
            else:
                forgotten.append((environment, version))
            later, replaced_at = later + 1, at
        return kept, forgotten

    def _dead_plans(self, conn: Connection, policy: Retention, now: datetime) -> dict[str, str]:
        """Find open plans that nobody can or will apply any more."""
        leases = self._leases(conn)
        table = schema.plans
        query = select(
            table.c.plan_id,
            table.c.environment,
            table.c.created_at,
            table.c.started_at,
            table.c.finished_at,
        ).where(table.c.status.in_(OPEN_PLANS))
        open_plans = conn.execute(query).all()
        past = self.past_plans([row.plan_id for row in open_plans], conn)
        dead: dict[str, str] = {}
        for row in open_plans:
            if environment_lease(row.environment) in leases:
                continue
            last = max(at for at in (row.created_at, row.started_at, row.finished_at) if at)
            if last + policy.grace > now:
                continue
            if row.plan_id in past:
                dead[row.plan_id] = "the environment has moved on since the plan was made"
            else:
                dead[row.plan_id] = "nobody applied it within the grace time"
        return dead

    def _roots(
        self,
        conn: Connection,
        policy: Retention,
        kept: dict[str, list[int]],
        dead: dict[str, str],
        now: datetime,
    ) -> dict[str, str]:
        """Return why tables are reachable, by table id."""
        reasons: dict[str, str] = {}
        table = schema.tables.c
        recent = select(table.table_id).where(
            table.status == LIVE, table.registered_at > now - policy.grace
        )
        young: ScalarResult[str] = conn.execute(recent).scalars()
        for table_id in young:
            reasons[table_id] = "it is younger than the grace time"
        for plan_id, table_ids in self._planned_tables(conn, dead).items():
            for table_id in table_ids:
                reasons[table_id] = f"the plan {plan_id} may still be applied"
        for table_id in self._leased(conn):
            reasons[table_id] = "it is being written"
        current = self._shown_now(conn)
        for table_id, reason in self._shown_before(conn, kept):
            if table_id not in current:
                reasons.setdefault(table_id, reason)
        for table_id, environment in current.items():
            reasons[table_id] = f"environment '{environment}' shows it"
        return reasons

    def _shown_now(self, conn: Connection) -> dict[str, str]:
        """Return an environment that shows it, by table, of all tables that are shown now."""
        entry = schema.entries.c
        query = (
            select(entry.table_id, func.max(entry.environment))
            .where(entry.table_id.is_not(None), entry.valid_to.is_(None))
            .group_by(entry.table_id)
        )
        return {row[0]: row[1] for row in conn.execute(query)}

    def _shown_before(
        self, conn: Connection, kept: dict[str, list[int]]
    ) -> Iterator[tuple[str, str]]:
        """Yield tables that earlier versions show that can be rolled back to, with the reason."""
        entry = schema.entries.c
        query = (
            select(entry.environment, entry.table_id, entry.valid_from, entry.valid_to)
            .where(entry.table_id.is_not(None), entry.valid_to.is_not(None))
            .order_by(entry.environment, entry.model_namespace, entry.model_name, entry.valid_from)
        )
        rising = {environment: versions[::-1] for environment, versions in kept.items()}
        rows: Iterable[Any] = conn.execute(query)
        for environment, table_id, since, until in rows:
            versions = rising.get(environment, [])
            place = bisect_left(versions, until)
            if place and versions[place - 1] >= since:
                yield (
                    table_id,
                    f"version {versions[place - 1]} of environment '{environment}' can be rolled "
                    "back to",
                )

    def _planned_tables(self, conn: Connection, dead: dict[str, str]) -> dict[str, set[str]]:
        table = schema.plans.c
        query = select(table.plan_id, table.payload).where(table.status.in_(OPEN_PLANS))
        found: dict[str, set[str]] = {}
        for row in conn.execute(query):
            if row.plan_id not in dead:
                stored = load_stored_plan(row.payload)
                found[row.plan_id] = {e.table_id for e in stored.entries if e.table_id}
                found[row.plan_id] |= {m.table.id for m in stored.models if m.table}
        pending = schema.pending.c
        for row in conn.execute(select(pending.plan_id, pending.table_id)):
            if row.plan_id not in dead:
                found.setdefault(row.plan_id, set()).add(row.table_id)
        return found

    def _leases(self, conn: Connection) -> set[str]:
        table = schema.leases.c
        query = select(table.resource).where(
            table.owner.is_not(None), table.expires_at > self.clock.now()
        )
        return set(conn.execute(query).scalars())

    def _leased(self, conn: Connection) -> set[str]:
        return {table for lease in self._leases(conn) if (table := leased_table(lease))}

    def _ledger(self, conn: Connection, statuses: Iterable[str]) -> list[LedgerTable]:
        table = schema.tables.c
        query = (
            select(schema.tables)
            .where(table.status.in_(list(statuses)))
            .order_by(table.registered_at, table.namespace, table.name)
        )
        return [_ledger_table(row) for row in conn.execute(query)]

    def _tombstone(self, conn: Connection, tables: Iterable[LedgerTable]) -> None:
        now = self.clock.now()
        for part in chunks([table.id for table in tables]):
            conn.execute(
                update(schema.tables)
                .where(schema.tables.c.table_id.in_(part), schema.tables.c.status == LIVE)
                .values(status=TOMBSTONED, tombstoned_at=now)
            )

    def _forget(self, conn: Connection, found: Mark) -> None:
        """Remove versions that are no longer kept, close dead plans, free dead owners' leases."""
        conn.execute(
            update(schema.leases)
            .where(schema.leases.c.expires_at <= self.clock.now())
            .values(owner=None)
        )
        gone: dict[str, list[int]] = {}
        for environment, version in found.forgotten:
            gone.setdefault(environment, []).append(version)
        versions, entries = schema.environment_versions, schema.entries
        for environment, numbers in gone.items():
            for part in chunks(numbers):
                conn.execute(
                    delete(versions).where(
                        versions.c.environment == environment, versions.c.version.in_(part)
                    )
                )
            # An entry that ended at or before the first kept version is in none of them.
            conn.execute(
                delete(entries).where(
                    entries.c.environment == environment, entries.c.valid_to <= max(numbers) + 1
                )
            )
        for plan_id, reason in found.dead_plans.items():
            conn.execute(
                update(schema.plans)
                .where(schema.plans.c.plan_id == plan_id, schema.plans.c.status.in_(OPEN_PLANS))
                .values(status="superseded", message=reason, finished_at=self.clock.now())
            )
            conn.execute(delete(schema.pending).where(schema.pending.c.plan_id == plan_id))


def _ledger_table(row: Row[Any]) -> LedgerTable:
    return LedgerTable(
        id=row.table_id,
        ref=TableRef(row.namespace, row.name),
        status=row.status,
        created=row.created,
        location=row.location,
        tombstoned_at=row.tombstoned_at,
    )
