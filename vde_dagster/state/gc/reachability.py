"""Reachability of physical tables from environments, versions, plans and leases; keeping times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, ScalarResult, func, select, type_coerce, union

from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_columns, load_stored_plan
from vde_dagster.state.db.leases import environment_lease
from vde_dagster.state.db.rows import to_micros
from vde_dagster.state.plans.plans import OPEN_PLANS, PlanStore
from vde_dagster.state.tables.tables import LIVE


def reasons_to_keep(
    conn: Connection,
    policy: Retention,
    kept: dict[str, list[int]],
    dead: dict[str, str],
    now: datetime,
    leased: Set[str],
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
    for plan_id, table_ids in _planned_tables(conn, dead).items():
        for table_id in table_ids:
            reasons[table_id] = f"the plan {plan_id} may still be applied"
    for table_id in leased:
        reasons[table_id] = "it is being written"
    current = _shown_now(conn)
    for table_id, reason in _shown_before(conn, kept):
        if table_id not in current:
            reasons.setdefault(table_id, reason)
    for table_id, environment in current.items():
        reasons[table_id] = f"environment '{environment}' shows it"
    for table_id, of in _previewed(conn):
        if table_id in reasons:
            reasons.setdefault(of, "a change of it is previewed on a branch")
    return reasons


def _previewed(conn: Connection) -> Iterator[tuple[str, str]]:
    """Yield previews with the tables that they are branches of."""
    table = schema.tables.c
    query = select(table.table_id, table.columns).where(
        table.status == LIVE, table.name.contains(f"@{PREVIEW_PREFIX}", autoescape=True)
    )
    for row in conn.execute(query):
        preview = load_columns(row.columns).preview
        if preview is not None:
            yield row.table_id, preview.of


def kept_versions(
    conn: Connection, policy: Retention, now: datetime
) -> tuple[dict[str, list[int]], dict[tuple[str, int], str]]:
    """Split every environment's versions into those kept and those to forget, with the reason.

    A version's age counts from the day on which the next one replaced it. Of versions that show
    the same, as runs that only fill make them every hour, none takes another's place.
    """
    heads = schema.environments.c
    alive: set[str] = set(conn.execute(select(heads.environment).where(heads.live)).scalars())
    table = schema.environment_versions.c
    # As plain numbers: there may be a hundred thousand, and nearly all are only compared.
    published = type_coerce(table.published_at, BigInteger)
    query = select(table.environment, table.version, published)
    oldest = to_micros(now - policy.history)
    changes = _changes(conn)
    old = f"it was replaced more than {policy.history.days} days ago"
    many = f"{policy.history_versions} newer definitions of the environment are kept"
    kept: dict[str, list[int]] = {}
    forgotten: dict[tuple[str, int], str] = {}
    before, later, replaced_at = "", 0, 0
    rows: Iterable[Any] = conn.execute(query.order_by(table.environment, table.version.desc()))
    for environment, version, at in rows:
        if environment != before:
            before, later = environment, 0
        current = later == 0 and environment in alive
        fresh = later == 0 or replaced_at > oldest
        changed_at = changes.get(environment, [])
        newer = len(changed_at) - bisect_right(changed_at, version)
        if current or (fresh and newer < policy.history_versions):
            if environment in alive:
                kept.setdefault(environment, []).append(version)
        else:
            forgotten[environment, version] = many if fresh else old
        later, replaced_at = later + 1, at
    return kept, forgotten


def _changes(conn: Connection) -> dict[str, list[int]]:
    """Return the versions with which an environment began to show something else, rising.

    An entry begins or ends with them, and with no other.
    """
    entry = schema.entries.c
    query = union(
        select(entry.environment, entry.valid_from),
        select(entry.environment, entry.valid_to).where(entry.valid_to.is_not(None)),
    )
    found: dict[str, list[int]] = {}
    rows: Iterable[Any] = conn.execute(query)
    for environment, version in rows:
        found.setdefault(environment, []).append(version)
    for versions in found.values():
        versions.sort()
    return found


def dead_plans(
    conn: Connection, policy: Retention, now: datetime, plans: PlanStore, leases: Set[str]
) -> dict[str, str]:
    """Find open plans that nobody can or will apply any more."""
    table = schema.plans
    query = select(
        table.c.plan_id,
        table.c.environment,
        table.c.created_at,
        table.c.started_at,
        table.c.finished_at,
    ).where(table.c.status.in_(OPEN_PLANS))
    open_plans = conn.execute(query).all()
    past = plans.past([row.plan_id for row in open_plans], conn)
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


def _shown_now(conn: Connection) -> dict[str, str]:
    """Return an environment that shows it, by table, of all tables that are shown now."""
    entry = schema.entries.c
    query = (
        select(entry.table_id, func.max(entry.environment))
        .where(entry.table_id.is_not(None), entry.valid_to.is_(None))
        .group_by(entry.table_id)
    )
    return {row[0]: row[1] for row in conn.execute(query)}


def _shown_before(conn: Connection, kept: dict[str, list[int]]) -> Iterator[tuple[str, str]]:
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


def _planned_tables(conn: Connection, dead: dict[str, str]) -> dict[str, set[str]]:
    table = schema.plans.c
    query = select(table.plan_id, table.payload).where(table.status.in_(OPEN_PLANS))
    found: dict[str, set[str]] = {}
    for row in conn.execute(query):
        if row.plan_id not in dead:
            plan = load_stored_plan(row.payload).plan
            found[row.plan_id] = {e.table_id for e in plan.entries.values() if e.table_id}
            found[row.plan_id] |= {m.table.id for m in plan.models if m.table}
    pending = schema.pending.c
    for row in conn.execute(select(pending.plan_id, pending.table_id)):
        if row.plan_id not in dead:
            found.setdefault(row.plan_id, set()).add(row.table_id)
    return found


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long things are kept.

    Args:
        history_versions: The most definitions of an environment that are kept for a rollback:
            what it showed, in models and tables. Runs that only fill make versions, and none.
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
        """The age from which nobody can commit a data file any more."""
        return max(self.orphan_grace, self.grace)
