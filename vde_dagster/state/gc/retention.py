"""Retention of tables, versions, plans and snapshots by reachability.

The mark runs in one transaction over every environment, every version kept for a rollback, every
lease and every plan that may still be applied. What none of them reaches gets a tombstone first:
from then on no plan can reuse it and no publication can show it. It is deleted only after a grace
time, when everybody who had read of it before is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, update

from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.db.rows import chunks
from vde_dagster.state.gc.reachability import Retention, dead_plans, kept_versions, reasons_to_keep
from vde_dagster.state.plans.plans import OPEN_PLANS, PlanStore
from vde_dagster.state.tables.ledger import LedgerTable, read_ledger
from vde_dagster.state.tables.tables import DROPPING, LIVE, TOMBSTONED

_READ = tuple(
    table.name
    for table in (
        schema.leases,
        schema.environments,
        schema.environment_versions,
        schema.plans,
        schema.pending,
        schema.tables,
        schema.entries,
        schema.pins,
    )
)
"""What the mark reads, and others write all the time; leases are what they lock first."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Reachable and unreachable records.

    Args:
        reasons: Why a live table is kept, by table id.
        unreachable: Live tables that nothing reaches, oldest first.
        held_back: Those of them that the cap keeps for the next time.
        dropping: Tombstoned tables whose grace time is over.
        waiting: Tombstoned tables whose grace time runs.
        forgotten: (environment, version) that are no longer kept for a rollback, with the reason.
        dead_plans: Open plans that nobody can apply any more, by id, with the reason.
    """

    reasons: dict[str, str]
    unreachable: tuple[LedgerTable, ...]
    held_back: tuple[LedgerTable, ...]
    dropping: tuple[LedgerTable, ...]
    waiting: tuple[LedgerTable, ...]
    forgotten: dict[tuple[str, int], str]
    dead_plans: dict[str, str]


@dataclass(frozen=True, slots=True)
class RetentionStore:
    """Deciding what may be forgotten, and giving it up."""

    database: Database
    plans: PlanStore
    leases: LeaseStore

    def mark(self, policy: Retention, *, write: bool) -> Mark:
        """Find unreachable tables and versions, and (when writing) set tombstones and forget
        versions.

        Args:
            write: Whether to act; False only tells.
        """
        if not write:
            with self.database.reading() as conn:
                return self._find(conn, policy)

        def work(conn: Connection) -> Mark:
            found = self._find(conn, policy)
            self._tombstone(conn, found.unreachable)
            self._forget(conn, found)
            return found

        return self.database.run_transaction(work, name="janitor.mark", beside=_READ)

    def _find(self, conn: Connection, policy: Retention) -> Mark:
        now = self.database.clock.now()
        kept, forgotten = kept_versions(conn, policy, now)
        dead = dead_plans(conn, policy, now, self.plans, self.leases.held(conn))
        reasons = reasons_to_keep(conn, policy, kept, dead, now, self.leases.tables(conn))
        live = read_ledger(conn, (LIVE,))
        unreachable = [table for table in live if table.id not in reasons]
        cap = max(policy.cap_floor, int(len(live) * policy.cap))
        given_up = read_ledger(conn, (TOMBSTONED, DROPPING))
        over = [t for t in given_up if t.tombstoned_at and t.tombstoned_at + policy.grace <= now]
        return Mark(
            reasons=reasons,
            unreachable=tuple(unreachable[:cap]),
            held_back=tuple(unreachable[cap:]),
            dropping=tuple(over),
            waiting=tuple(table for table in given_up if table not in over),
            forgotten=forgotten,
            dead_plans=dead,
        )

    def _tombstone(self, conn: Connection, tables: Iterable[LedgerTable]) -> None:
        now = self.database.clock.now()
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
            .where(schema.leases.c.expires_at <= self.database.clock.now())
            .values(owner=None)
        )
        gone: dict[str, list[int]] = {}
        for environment, version in found.forgotten:
            gone.setdefault(environment, []).append(version)
        versions = schema.environment_versions
        for environment, numbers in gone.items():
            for part in chunks(numbers):
                conn.execute(
                    delete(versions).where(
                        versions.c.environment == environment, versions.c.version.in_(part)
                    )
                )
            # What ended at or before the first kept version is in none of them.
            for ranges in (schema.entries, schema.pins):
                conn.execute(
                    delete(ranges).where(
                        ranges.c.environment == environment, ranges.c.valid_to <= max(numbers) + 1
                    )
                )
        for plan_id, reason in found.dead_plans.items():
            conn.execute(
                update(schema.plans)
                .where(schema.plans.c.plan_id == plan_id, schema.plans.c.status.in_(OPEN_PLANS))
                .values(status="superseded", message=reason, finished_at=self.database.clock.now())
            )
            conn.execute(delete(schema.pending).where(schema.pending.c.plan_id == plan_id))
