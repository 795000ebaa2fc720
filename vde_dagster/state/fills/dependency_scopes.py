"""What reads what by name: all versions of environments, and the targets of open plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import Entry
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import Changed, Scope, reached
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_stored_plan
from vde_dagster.state.environments.entries import ENTRY, entry_of
from vde_dagster.state.plans.plans import OPEN_PLANS

EntryRow = tuple[int, "int | None", Entry]
"""Since which version, and until which (exclusive), an entry is valid."""


@dataclass(frozen=True, slots=True)
class World:
    """Models that read each other: all versions of an environment, or a plan's target.

    Args:
        environment: The environment when it is there now, else None.
    """

    environment: str | None
    rows: list[EntryRow]

    def has(self, changed: Changed) -> bool:
        """Say whether anything of it is restated."""
        return any(changed.reaches(entry) for _, _, entry in self.rows)

    def current(self) -> frozenset[str]:
        """Return the tables that its current version shows."""
        return frozenset(e.table_id for _, until, e in self.rows if until is None and e.table_id)

    def scopes(self, snapshots: Mapping[str, Snapshot], changed: Changed) -> Iterator[Scope]:
        """Yield what a change reaches, once for each version that shows it otherwise."""
        names = reached((entry for _, _, entry in self.rows), snapshots, changed)
        rows = [row for row in self.rows if row[2].name in names]
        points = sorted({v for since, until, _ in rows for v in (since, until) if v is not None})
        for version in points:
            valid = (e for s, u, e in rows if s <= version and (u is None or u > version))
            label = self.environment if version == points[-1] else None
            yield Scope({entry.name: entry for entry in valid}, label)


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """A plan that may still be applied.

    Args:
        computing: What an apply that is under way computes, by table.
    """

    entries: dict[ModelName, Entry]
    computing: dict[str, IntervalSet]

    def rows(self) -> list[EntryRow]:
        """Return its target as the only version there is."""
        return [(1, None, entry) for entry in self.entries.values()]


def open_plans(conn: Connection) -> Iterator[OpenPlan]:
    table = schema.plans.c
    query = select(table.status, table.payload).where(table.status.in_(OPEN_PLANS))
    rows: Iterable[Any] = conn.execute(query)
    for status, payload in rows:
        plan = load_stored_plan(payload).plan
        computing = {}
        if status == "applying":
            computing = {m.table.id: m.intervals for m in plan.models if m.table and m.builds}
        yield OpenPlan(plan.entries, computing)


def shown_worlds(conn: Connection) -> dict[str, World]:
    """Return what environments show and showed, also those that are dropped."""
    entry, head = schema.entries.c, schema.environments.c
    version = schema.environment_versions.c
    # What is frozen shows what it shows, whatever is computed again.
    changing = (
        select(head.environment)
        .join_from(
            schema.environments,
            schema.environment_versions,
            (version.environment == head.environment) & (version.version == head.version),
        )
        .where(head.live, version.frozen.is_(None))
    )
    live: set[str] = set(conn.execute(changing).scalars())
    columns = (entry.environment, entry.valid_from, entry.valid_to)
    rows: dict[str, list[EntryRow]] = {}
    for row in conn.execute(select(*columns, *ENTRY)):
        rows.setdefault(row[0], []).append((row[1], row[2], entry_of(row)))
    return {name: World(name if name in live else None, listed) for name, listed in rows.items()}
