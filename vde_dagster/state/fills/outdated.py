"""Ranges that must be computed again because their inputs changed.

The publication of a restatement records these ranges in its transaction. A later fill of a range
counts only if its work began after the range became outdated: a fill that was under way at that
time may have read the old rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from vde_dagster.planning.environments.environment import PRODUCTION, Entry
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.affected_intervals import (
    EVERYTHING,
    EnvironmentScope,
    ExistingTables,
    RestatedRanges,
    find_outdated,
    find_reached_models,
)
from vde_dagster.planning.plan.plan import Outdated
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import load_readable_plan
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import on_ranges, ranges_by_key, span
from vde_dagster.state.environments.versions import ENTRY, read_entry
from vde_dagster.state.fills.fills import FillStore
from vde_dagster.state.plans.plans import OPEN_PLANS
from vde_dagster.state.plans.snapshots import SnapshotStore
from vde_dagster.state.tables.noted_ranges import note_ranges
from vde_dagster.state.tables.tables import TableStore

_ROW = schema.outdated.c


@dataclass(frozen=True, slots=True)
class OutdatedStore:
    database: Database
    tables: TableStore
    snapshots: SnapshotStore
    fills: FillStore

    def find(
        self,
        changed: RestatedRanges,
        known: Mapping[str, Snapshot],
        connection: Connection | None = None,
    ) -> tuple[Outdated, ...]:
        """Find the filled ranges in all tables that a restatement makes outdated."""
        with self.database.reading(connection) as conn:
            planned, computing = _planned(conn)
            shown = _shown_worlds(conn)
            tables = self._tables(conn, computing)
            worlds = [*shown.values(), *planned]
            changed = changed.with_previews(tables.values())
            covered = {e.table_id for world in worlds for _, _, e in world.rows if e.table_id}
            touched = [world for world in worlds if world.has(changed)]
            ids = {entry.snapshot_id for world in touched for _, _, entry in world.rows}
            ids |= {table.snapshot_id for key, table in tables.items() if key not in covered}
            read = self.snapshots.load(sorted(ids - known.keys()), conn)
        snapshots = {**known, **read}
        scopes = tuple(s for world in touched for s in world.scopes(snapshots, changed))
        production = frozenset(
            entry.table_id
            for _, until, entry in (shown[PRODUCTION].rows if PRODUCTION in shown else ())
            if until is None and entry.table_id
        )
        return find_outdated(
            changed, ExistingTables(scopes, snapshots, tables, covered, production)
        )

    def mark(
        self, connection: Connection, changed: RestatedRanges, known: Mapping[str, Snapshot]
    ) -> None:
        """Store the ranges that a publication makes outdated, in the publication's transaction."""
        for found in self.find(changed, known, connection):
            for interval in found.intervals:
                self.fills.remove(found.table_id, interval, connection)
                connection.execute(on_ranges(schema.pending).delete, span(found.table_id, interval))
            self.tables.disinherit(connection, found.table_id, found.intervals)
            noted = EVERYTHING if found.whole else found.intervals
            self.note(connection, found.table_id, noted)

    def note(
        self,
        connection: Connection,
        table_id: str,
        intervals: IntervalSet,
        since: datetime | None = None,
    ) -> None:
        """Store ranges of a table that must be computed again."""
        since = since or self.database.clock.now()
        note_ranges(connection, schema.outdated, table_id, [(o, None) for o in intervals], since)

    def remember(self, asked: Mapping[str, tuple[IntervalSet, datetime]]) -> None:
        """Store ranges that `auto_restatement_cron` restates. They still count as filled."""

        def work(conn: Connection) -> None:
            for table_id, (intervals, since) in asked.items():
                self.note(conn, table_id, intervals, since)

        self.database.run_transaction(work, name="state.remember_outdated")

    def forget(self, connection: Connection, table_id: str, after: datetime) -> None:
        """Delete the ranges of a table that became outdated after an instant (UTC)."""
        connection.execute(
            delete(schema.outdated).where(_ROW.table_id == table_id, _ROW.since > after)
        )

    def ranges_by_table(
        self, ids: Iterable[str], connection: Connection | None = None
    ) -> dict[str, IntervalSet]:
        query = select(_ROW.table_id, _ROW.start_at, _ROW.end_at)
        return ranges_by_key(self.database.among(query, _ROW.table_id, ids, connection))

    def tables_since(self, at: datetime) -> set[str]:
        """Return the ids of the tables that became outdated at an instant (UTC) or later."""
        return set(self.database.column(select(_ROW.table_id).where(_ROW.since >= at)))

    def latest_time(self, table_id: str) -> datetime | None:
        """Return the time (UTC) at which a table became outdated last, or None."""
        query = select(_ROW.since).where(_ROW.table_id == table_id)
        return max(self.database.column(query), default=None)

    def _tables(
        self, conn: Connection, computing: list[tuple[str, datetime, datetime]]
    ) -> dict[str, PhysicalTable]:
        tables = self.tables.live(conn)
        # Ranges that open plans have computed, or are computing now, count as filled.
        pending = schema.pending.c
        waiting: Iterable[Any] = conn.execute(
            select(pending.table_id, pending.start_at, pending.end_at)
        )
        for table_id, ranges in ranges_by_key([*waiting, *computing]).items():
            table = tables.get(table_id)
            if table is not None:
                tables[table_id] = replace(table, intervals=table.intervals | ranges)
        return tables


EntryRow = tuple[int, "int | None", Entry]
"""First version, end version (exclusive), and entry."""


@dataclass(frozen=True, slots=True)
class World:
    """The entries of all versions of one environment, or the entries of one plan."""

    environment: str | None
    rows: list[EntryRow]

    def has(self, changed: RestatedRanges) -> bool:
        """Check whether a restatement changes the table of one of the entries."""
        return any(changed.reaches(entry) for _, _, entry in self.rows)

    def scopes(
        self, snapshots: Mapping[str, Snapshot], changed: RestatedRanges
    ) -> Iterator[EnvironmentScope]:
        """Yield the affected models' entries in each version that changed one of them."""
        names = find_reached_models((entry for _, _, entry in self.rows), snapshots, changed)
        rows = [row for row in self.rows if row[2].name in names]
        points = sorted({v for since, until, _ in rows for v in (since, until) if v is not None})
        for version in points:
            valid = (e for s, u, e in rows if s <= version and (u is None or u > version))
            label = self.environment if version == points[-1] else None
            yield EnvironmentScope({entry.name: entry for entry in valid}, label)


def _planned(conn: Connection) -> tuple[list[World], list[tuple[str, datetime, datetime]]]:
    table = schema.plans.c
    query = select(table.status, table.payload).where(table.status.in_(OPEN_PLANS))
    worlds, computing = [], []
    rows: Iterable[Any] = conn.execute(query)
    for status, payload in rows:
        stored = load_readable_plan(payload)
        if stored is None:
            continue
        plan = stored.plan
        worlds.append(World(None, [(1, None, entry) for entry in plan.entries.values()]))
        computing += [
            (model.table.id, interval.start, interval.end)
            for model in plan.models
            if status == "applying" and model.table and model.builds
            for interval in model.intervals
        ]
    return worlds, computing


def _shown_worlds(conn: Connection) -> dict[str, World]:
    entry, head = schema.entries.c, schema.environments.c
    version = schema.environment_versions.c
    # A frozen environment keeps its content, even if ranges are computed again.
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
        rows.setdefault(row[0], []).append((row[1], row[2], read_entry(row)))
    return {name: World(name if name in live else None, listed) for name, listed in rows.items()}
