"""Forgetting what is only history: ended plans, their audits, decided publications, snapshots.

All of it is old by the same measure as the versions of environments. Rows of dropped tables stay:
they are how an id is known never to be used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Connection, Table, delete, or_, select

from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_stored_plan
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.outbox import forget_records
from vde_dagster.state.db.rows import chunks
from vde_dagster.state.gc.reachability import Retention
from vde_dagster.state.plans.plans import OPEN_PLANS
from vde_dagster.state.tables.tables import DROPPED

_READ = tuple(
    table.name
    for table in (
        schema.environment_versions,
        schema.plans,
        schema.pending,
        schema.tables,
        schema.entries,
        schema.snapshots,
        schema.publications,
    )
)
"""What says which records are old, and others write all the time."""


_Records = dict[str, tuple[str, ...]]
"""Keys of rows that nobody will ask for again: of plans, publications and snapshots."""


@dataclass(frozen=True, slots=True)
class RecordStore:
    """Forgetting old records."""

    database: Database

    def old(self, policy: Retention) -> dict[str, int]:
        """Count the records that `forget` would delete, by kind and without zeros."""
        with self.database.reading() as conn:
            return _counts(_old_records(conn, policy, self.database.clock.now()))

    def forget(self, policy: Retention) -> dict[str, int]:
        """Delete old records in one transaction, and count them as `old` does.

        Args:
            policy: `history` says how old they have to be.
        """

        def work(conn: Connection) -> dict[str, int]:
            found = _old_records(conn, policy, self.database.clock.now())
            for table in (schema.plans, schema.journal, schema.audit_results):
                _delete(conn, table, table.c.plan_id, found["plans"])
            publications = schema.publications
            _delete(conn, publications, publications.c.publication_id, found["publications"])
            for table in (schema.snapshots, schema.view_types):
                _delete(conn, table, table.c.snapshot_id, found["snapshots"])
            before = self.database.clock.now() - policy.history
            results = schema.audit_results.c
            apart = (results.environment.is_not(None), results.recorded_at < before)
            conn.execute(delete(schema.audit_results).where(*apart))
            forget_records(conn, before)
            return _counts(found)

        return self.database.run_transaction(work, name="janitor.records", beside=_READ)


def _counts(records: _Records) -> dict[str, int]:
    return {kind: len(keys) for kind, keys in records.items() if keys}


def _old_records(conn: Connection, policy: Retention, now: datetime) -> _Records:
    """Find plans that ended and made no kept version, decided publications, unused snapshots."""
    before = now - policy.history
    plans = _old_plans(conn, before)
    table = schema.publications.c
    publications = (
        select(table.publication_id)
        .where(table.status != "intended", table.cleaned_at.is_not(None), table.decided_at < before)
        .order_by(table.publication_id)
    )
    return {
        "plans": plans,
        "publications": tuple(conn.execute(publications).scalars()),
        "snapshots": _old_snapshots(conn, before, set(plans)),
    }


def _old_plans(conn: Connection, before: datetime) -> tuple[str, ...]:
    plans, versions = schema.plans.c, schema.environment_versions.c
    kept = select(versions.plan_id).where(versions.plan_id.is_not(None))
    query = (
        select(plans.plan_id)
        .where(
            plans.status.not_in(OPEN_PLANS),
            or_(plans.finished_at < before, plans.finished_at.is_(None)),
            plans.created_at < before,
            plans.plan_id.not_in(kept),
            plans.plan_id.not_in(select(schema.pending.c.plan_id)),
        )
        .order_by(plans.plan_id)
    )
    return tuple(conn.execute(query).scalars())


def _old_snapshots(
    conn: Connection, before: datetime, forgotten_plans: set[str]
) -> tuple[str, ...]:
    table = schema.snapshots.c
    filled = select(schema.tables.c.snapshot_id).where(schema.tables.c.status != DROPPED)
    old = select(table.snapshot_id).where(
        table.created_at < before,
        table.snapshot_id.not_in(select(schema.entries.c.snapshot_id)),
        table.snapshot_id.not_in(filled),
    )
    unused: set[str] = set(conn.execute(old).scalars())
    if unused:
        plans = schema.plans.c
        for row in conn.execute(select(plans.plan_id, plans.payload)):
            if row.plan_id not in forgotten_plans:
                unused.difference_update(load_stored_plan(row.payload).snapshot_ids)
    return tuple(sorted(unused))


def _delete(conn: Connection, table: Table, column: Column[str], keys: Iterable[str]) -> None:
    for part in chunks(list(keys)):
        conn.execute(delete(table).where(column.in_(part)))
