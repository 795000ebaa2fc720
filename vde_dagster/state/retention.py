"""Retention of tables, versions, plans and snapshots by reachability.

The mark runs in one transaction over every environment, every version kept for a rollback, every
lease and every plan that may still be applied. Unreachable tables get a tombstone first: from then
on no plan can reuse them and no publication can show them. They are deleted only after a grace
time, when all processes that may still use them have ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from vde_dagster.base.texts import count
from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_columns, load_readable_plan
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.leases import LeaseStore, environment_lease
from vde_dagster.state.db.log import record
from vde_dagster.state.db.outbox import Outbox, forget_records
from vde_dagster.state.db.rows import chunks, to_micros
from vde_dagster.state.plans.plans import OPEN_PLANS, OUT_OF_TIME, PlanStore, has_current_base
from vde_dagster.state.tables.tables import (
    DROPPED,
    DROPPING,
    LIVE,
    TOMBSTONED,
    LedgerStore,
    LedgerTable,
)


@dataclass(frozen=True, slots=True)
class Retention:
    """Settings that decide what the janitor keeps.

    Args:
        history_versions: Maximum number of definitions of an environment kept for a rollback.
            Versions that differ only in rows count as one.
        grace: How long an object is kept after its last use; must exceed the longest run.
        orphan_grace: How long uncommitted data files are kept; must exceed the longest run.
    """

    history_versions: int = 50
    history: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(hours=24)
    cap: float = 0.5
    cap_floor: int = 10
    orphan_grace: timedelta = timedelta(hours=72)
    orphan_cap: int = 10_000
    readers: timedelta = timedelta(days=30)

    @property
    def uncommitted_grace(self) -> timedelta:
        """Age beyond which a data file can no longer be committed."""
        return max(self.orphan_grace, self.grace)


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
        schema.snapshots,
        schema.publications,
    )
)
"""Tables that `mark` and `forget_records` read, and lock after many conflicts.

Leases come first, because every writer locks leases before other tables.
"""

_Records = dict[str, tuple[str, ...]]
"""Keys of rows that are no longer needed: of plans, publications and snapshots."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Tables, versions and plans to clean up.

    Args:
        held_back: Unreachable tables that exceed the limit of one cleanup.
        forgotten: Each (environment, version) no longer kept for a rollback, with the reason.
        dead_plans: Open plans to mark as superseded, by id, with the reason.
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
    """Finds unneeded tables, versions, plans and records, and marks or deletes their rows."""

    database: Database
    plans: PlanStore
    leases: LeaseStore
    ledger: LedgerStore

    def mark(self, policy: Retention, *, write: bool) -> Mark:
        """Find unneeded tables, versions and plans.

        If `write` is set, also tombstone the tables, delete the versions and close the plans.
        """
        if not write:
            with self.database.reading() as conn:
                return self._find(conn, policy)

        def work(conn: sa.Connection) -> Mark:
            found = self._find(conn, policy)
            self._tombstone(conn, found.unreachable)
            self._forget(conn, found)
            self._record(conn, found)
            return found

        return self.database.run_transaction(work, name="janitor.mark", beside=_READ)

    def _find(self, conn: sa.Connection, policy: Retention) -> Mark:
        now = self.database.clock.now()
        kept, forgotten = kept_versions(conn, policy, now)
        dead = dead_plans(conn, policy, now, self.plans, self.leases.active_resources(conn))
        reasons = reasons_to_keep(conn, policy, kept, dead, now, self.leases.tables(conn))
        live = self.ledger.tables((LIVE,), conn)
        unreachable = [table for table in live if table.id not in reasons]
        cap = max(policy.cap_floor, int(len(live) * policy.cap))
        given_up = self.ledger.tables((TOMBSTONED, DROPPING), conn)
        over = [
            table
            for table in given_up
            if table.tombstoned_at
            and table.tombstoned_at + policy.grace <= now
            and table.id not in reasons
        ]
        return Mark(
            reasons=reasons,
            unreachable=tuple(unreachable[:cap]),
            held_back=tuple(unreachable[cap:]),
            dropping=tuple(over),
            waiting=tuple(table for table in given_up if table not in over),
            forgotten=forgotten,
            dead_plans=dead,
        )

    def _tombstone(self, conn: sa.Connection, tables: Iterable[LedgerTable]) -> None:
        now = self.database.clock.now()
        for part in chunks([table.id for table in tables]):
            conn.execute(
                sa.update(schema.tables)
                .where(schema.tables.c.table_id.in_(part), schema.tables.c.status == LIVE)
                .values(status=TOMBSTONED, tombstoned_at=now)
            )

    def _forget(self, conn: sa.Connection, found: Mark) -> None:
        conn.execute(
            sa.update(schema.leases)
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
                    sa.delete(versions).where(
                        versions.c.environment == environment, versions.c.version.in_(part)
                    )
                )
            # Entries that ended at or before the first kept version belong to no kept version.
            for ranges in (schema.entries, schema.pins):
                conn.execute(
                    sa.delete(ranges).where(
                        ranges.c.environment == environment, ranges.c.valid_to <= max(numbers) + 1
                    )
                )
        for plan_id, reason in found.dead_plans.items():
            conn.execute(
                sa.update(schema.plans)
                .where(schema.plans.c.plan_id == plan_id, schema.plans.c.status.in_(OPEN_PLANS))
                .values(status="superseded", message=reason, finished_at=self.database.clock.now())
            )
            conn.execute(sa.delete(schema.pending).where(schema.pending.c.plan_id == plan_id))

    def _record(self, conn: sa.Connection, found: Mark) -> None:
        tables = [table.id for table in found.unreachable]
        record(self.database, conn, "clean up", who="janitor", detail={"tables": tables or None})
        of = Counter(environment for environment, _ in found.forgotten)
        for environment, versions in sorted(of.items()):
            about = {"versions": versions}
            record(self.database, conn, "give up", environment, who="janitor", detail=about)

    def old_records(self, policy: Retention) -> dict[str, int]:
        with self.database.reading() as conn:
            return _counts(_old_records(conn, policy, self.database.clock.now()))

    def forget_records(self, policy: Retention) -> dict[str, int]:
        """Delete old records in one transaction.

        Returns:
            The numbers of deleted plans, publications and snapshots.
        """

        def work(conn: sa.Connection) -> dict[str, int]:
            # Rows of dropped tables stay, because they prevent the reuse of an id.
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
            conn.execute(sa.delete(schema.audit_results).where(*apart))
            forget_records(conn, before)
            return _counts(found)

        # Only numbered records are deleted, and without a consumer nothing else numbers them.
        Outbox(self.database).number()
        return self.database.run_transaction(work, name="janitor.records", beside=_READ)


def reasons_to_keep(
    conn: sa.Connection,
    policy: Retention,
    kept: dict[str, list[int]],
    dead: dict[str, str],
    now: datetime,
    leased: Set[str],
) -> dict[str, str]:
    """Return the tables that must be kept, each with one reason, by table id."""
    reasons: dict[str, str] = {}
    table = schema.tables.c
    recent = sa.select(table.table_id).where(
        table.status == LIVE, table.registered_at > now - policy.grace
    )
    young: sa.ScalarResult[str] = conn.execute(recent).scalars()
    for table_id in young:
        reasons[table_id] = "it is younger than the grace time"
    for plan_id, table_ids in _planned_tables(conn, dead).items():
        for table_id in table_ids:
            reasons[table_id] = f"the plan {plan_id} may still be applied"
    for table_id in leased:
        reasons[table_id] = "it is being written"
    current = _current_tables(conn)
    for table_id, reason in _earlier_tables(conn, kept):
        if table_id not in current:
            reasons.setdefault(table_id, reason)
    for table_id, environment in current.items():
        reasons[table_id] = f"environment '{environment}' shows it"
    for table_id, of in _previewed(conn):
        if table_id in reasons:
            reasons.setdefault(of, "a change of it is previewed on a branch")
    return reasons


def _previewed(conn: sa.Connection) -> Iterator[tuple[str, str]]:
    """Yield (id of a preview, id of the table that the preview is a branch of)."""
    table = schema.tables.c
    query = sa.select(table.table_id, table.columns).where(
        table.status == LIVE, table.name.contains(f"@{PREVIEW_PREFIX}", autoescape=True)
    )
    for row in conn.execute(query):
        preview = load_columns(row.columns).preview
        if preview is not None:
            yield row.table_id, preview.of


def kept_versions(
    conn: sa.Connection, policy: Retention, now: datetime
) -> tuple[dict[str, list[int]], dict[tuple[str, int], str]]:
    """Return the versions of environments to keep, and the reason for each version to forget."""
    heads = schema.environments.c
    alive: set[str] = set(conn.execute(sa.select(heads.environment).where(heads.live)).scalars())
    table = schema.environment_versions.c
    # In order of version, as instants of earlier releases may go back: a kept version needs entries
    # that are deleted with a later one.
    newest = sa.func.max(table.published_at).over(
        partition_by=table.environment, order_by=table.version
    )
    # As plain numbers: there may be a hundred thousand, and nearly all are only compared.
    published = sa.type_coerce(newest, sa.BigInteger)
    query = sa.select(table.environment, table.version, published)
    oldest = to_micros(now - policy.history)
    changes = _changes(conn)
    old = f"it was replaced more than {count(policy.history.days, 'day')} ago"
    definitions = count(policy.history_versions, "newer definition")
    verb = "is" if policy.history_versions == 1 else "are"
    many = f"{definitions} of the environment {verb} kept"
    kept: dict[str, list[int]] = {}
    forgotten: dict[tuple[str, int], str] = {}
    before, later, replaced_at = "", 0, 0
    rows: Iterable[Any] = conn.execute(query.order_by(table.environment, table.version.desc()))
    for environment, version, at in rows:
        if environment != before:
            before, later = environment, 0
        current = later == 0 and environment in alive
        # The age of a version counts from the time when the next version replaced it.
        fresh = later == 0 or replaced_at > oldest
        changed_at = changes.get(environment, [])
        # Versions with identical definitions, as hourly runs create them, count as one.
        newer = len(changed_at) - bisect_right(changed_at, version)
        if current or (fresh and newer < policy.history_versions):
            if environment in alive:
                kept.setdefault(environment, []).append(version)
        else:
            forgotten[environment, version] = many if fresh else old
        later, replaced_at = later + 1, at
    return kept, forgotten


def _changes(conn: sa.Connection) -> dict[str, list[int]]:
    entry = schema.entries.c
    query = sa.union(
        sa.select(entry.environment, entry.valid_from),
        sa.select(entry.environment, entry.valid_to).where(entry.valid_to.is_not(None)),
    )
    found: dict[str, list[int]] = {}
    rows: Iterable[Any] = conn.execute(query)
    for environment, version in rows:
        found.setdefault(environment, []).append(version)
    for versions in found.values():
        versions.sort()
    return found


def dead_plans(
    conn: sa.Connection, policy: Retention, now: datetime, plans: PlanStore, leases: Set[str]
) -> dict[str, str]:
    """Find the open plans to close after the grace time, with the reasons."""
    table = schema.plans
    query = sa.select(
        table.c.plan_id,
        table.c.environment,
        table.c.created_at,
        table.c.started_at,
        table.c.finished_at,
    ).where(table.c.status.in_(OPEN_PLANS))
    open_plans = conn.execute(query).all()
    past = plans.find_dead([row.plan_id for row in open_plans], conn)
    dead: dict[str, str] = {}
    for row in open_plans:
        if environment_lease(row.environment) in leases:
            continue
        last = max(at for at in (row.created_at, row.started_at, row.finished_at) if at)
        if last + policy.grace > now:
            continue
        if row.plan_id in past:
            dead[row.plan_id] = "the environment has changed since the plan was created"
        else:
            dead[row.plan_id] = OUT_OF_TIME
    return dead


def _current_tables(conn: sa.Connection) -> dict[str, str]:
    entry = schema.entries.c
    query = (
        sa.select(entry.table_id, sa.func.max(entry.environment))
        .where(entry.table_id.is_not(None), entry.valid_to.is_(None))
        .group_by(entry.table_id)
    )
    return {row[0]: row[1] for row in conn.execute(query)}


def _earlier_tables(conn: sa.Connection, kept: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
    entry = schema.entries.c
    query = (
        sa.select(entry.environment, entry.table_id, entry.valid_from, entry.valid_to)
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


def _planned_tables(conn: sa.Connection, dead: dict[str, str]) -> dict[str, set[str]]:
    table = schema.plans.c
    query = sa.select(table.plan_id, table.payload).where(table.status.in_(OPEN_PLANS))
    found: dict[str, set[str]] = {}
    for row in conn.execute(query):
        stored = load_readable_plan(row.payload) if row.plan_id not in dead else None
        if stored is not None:
            plan = stored.plan
            found[row.plan_id] = {e.table_id for e in plan.entries.values() if e.table_id}
            found[row.plan_id] |= {m.table.id for m in plan.models if m.table}
    pending = schema.pending.c
    for row in conn.execute(sa.select(pending.plan_id, pending.table_id)):
        if row.plan_id not in dead:
            found.setdefault(row.plan_id, set()).add(row.table_id)
    return found


def _counts(records: _Records) -> dict[str, int]:
    return {kind: len(keys) for kind, keys in records.items() if keys}


def _old_records(conn: sa.Connection, policy: Retention, now: datetime) -> _Records:
    before = now - policy.history
    plans = _old_plans(conn, before)
    table = schema.publications.c
    publications = (
        sa.select(table.publication_id)
        .where(table.status != "intended", table.cleaned_at.is_not(None), table.decided_at < before)
        .order_by(table.publication_id)
    )
    return {
        "plans": plans,
        "publications": tuple(conn.execute(publications).scalars()),
        "snapshots": _old_snapshots(conn, before, set(plans)),
    }


def _old_plans(conn: sa.Connection, before: datetime) -> tuple[str, ...]:
    plans, versions, heads = schema.plans.c, schema.environment_versions.c, schema.environments
    kept = sa.select(versions.plan_id).where(versions.plan_id.is_not(None))
    # A rejected plan that was saved as a file could be applied if it were forgotten.
    refused = (plans.status == "rejected") & has_current_base()
    query = (
        sa.select(plans.plan_id)
        .outerjoin(heads, heads.c.environment == plans.environment)
        .where(
            refused.is_not(True),
            plans.status.not_in(OPEN_PLANS),
            sa.or_(plans.finished_at < before, plans.finished_at.is_(None)),
            plans.created_at < before,
            plans.plan_id.not_in(kept),
            plans.plan_id.not_in(sa.select(schema.pending.c.plan_id)),
        )
        .order_by(plans.plan_id)
    )
    return tuple(conn.execute(query).scalars())


def _old_snapshots(
    conn: sa.Connection, before: datetime, forgotten_plans: set[str]
) -> tuple[str, ...]:
    table = schema.snapshots.c
    filled = sa.select(schema.tables.c.snapshot_id).where(schema.tables.c.status != DROPPED)
    old = sa.select(table.snapshot_id).where(
        table.created_at < before,
        table.snapshot_id.not_in(sa.select(schema.entries.c.snapshot_id)),
        table.snapshot_id.not_in(filled),
    )
    unused: set[str] = set(conn.execute(old).scalars())
    if unused:
        plans = schema.plans.c
        for row in conn.execute(sa.select(plans.plan_id, plans.payload)):
            stored = load_readable_plan(row.payload) if row.plan_id not in forgotten_plans else None
            if stored is not None:
                unused.difference_update(stored.snapshot_ids)
    return tuple(sorted(unused))


def _delete(
    conn: sa.Connection, table: sa.Table, column: sa.Column[str], keys: Iterable[str]
) -> None:
    for part in chunks(list(keys)):
        conn.execute(sa.delete(table).where(column.in_(part)))
