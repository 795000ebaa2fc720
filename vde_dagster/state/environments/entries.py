"""Entries of environments' versions, stored as differences and queried in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    bindparam,
    insert,
    select,
    update,
)

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import Entry, Environment, HeldState
from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import among, made_of

_ENTRY = schema.entries.c
ENTRY = (
    _ENTRY.model_namespace,
    _ENTRY.model_name,
    _ENTRY.snapshot_id,
    _ENTRY.table_id,
    _ENTRY.held_schema_id,
    _ENTRY.held_snapshot_id,
)
"""The columns of an entry."""


def entry_of(row: Row[Any]) -> Entry:
    """Make an entry of a row that has at least the columns of `ENTRY`."""
    held = None
    if row.held_schema_id is not None:
        held = HeldState(row.held_snapshot_id, row.held_schema_id)
    name = ModelName(row.model_namespace, row.model_name)
    return Entry(name, row.snapshot_id, row.table_id, held)


def read_head(conn: Connection, name: str) -> Row[Any] | None:
    """Return the row that says which version of an environment is current, or None."""
    query = select(schema.environments).where(schema.environments.c.environment == name)
    return conn.execute(query).one_or_none()


def read_frozen(conn: Connection, name: str, version: int) -> str | None:
    """Return the version that a frozen environment shows, or None when it may change."""
    table = schema.environment_versions.c
    query = select(table.frozen).where(table.environment == name, table.version == version)
    return conn.execute(query).scalar()


def valid_at(table: Table, environment: str, version: int) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row, of entries or pins, holds for a version."""
    until = table.c.valid_to
    return (
        table.c.environment == environment,
        table.c.valid_from <= version,
        until.is_(None) | (until > version),
    )


def read_version(conn: Connection, name: str, version: int) -> Environment | None:
    """Return an environment as one of its versions left it, or None when that is unknown."""
    table = schema.environment_versions
    row = conn.execute(
        select(table).where(table.c.environment == name, table.c.version == version)
    ).one_or_none()
    if row is None:
        return None
    return made_of(
        Environment,
        row,
        name=name,
        entries=_read_entries(conn, *valid_at(schema.entries, name, version))[0],
        suffix=row.suffix or "schema",
        mode=row.mode or "full",
    )


def write_entries(conn: Connection, environment: Environment, version: int) -> tuple[int, int, int]:
    """Close the entries that changed, open the new ones; return added, changed, removed.

    A model that is held at what it was, or no longer, is none that changed.
    """
    table = schema.entries
    before, since = _read_entries(
        conn, table.c.environment == environment.name, table.c.valid_to.is_(None)
    )
    after = environment.entries
    removed = before.keys() - after.keys()
    added = after.keys() - before.keys()
    changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
    _close(conn, environment.name, removed | changed, since, version)
    opened = [after[name] for name in sorted(added | changed, key=_parts)]
    if opened:
        conn.execute(
            insert(table),
            [
                {
                    "environment": environment.name,
                    "model_namespace": entry.name.namespace,
                    "model_name": entry.name.name,
                    "valid_from": version,
                    "valid_to": None,
                    "snapshot_id": entry.snapshot_id,
                    "table_id": entry.table_id,
                    "held_schema_id": entry.held.schema_id if entry.held else None,
                    "held_snapshot_id": entry.held.snapshot_id if entry.held else None,
                }
                for entry in opened
            ],
        )
    others = [n for n in changed if replace(after[n], held=None) != replace(before[n], held=None)]
    return len(added), len(others), len(removed)


def _read_entries(
    conn: Connection, *where: ColumnElement[bool]
) -> tuple[dict[ModelName, Entry], dict[ModelName, int]]:
    """Read entries by model, and since which version they are valid."""
    entry = schema.entries.c
    query = (
        select(*ENTRY, entry.valid_from)
        .where(*where)
        .order_by(entry.model_namespace, entry.model_name)
    )
    found: dict[ModelName, Entry] = {}
    since: dict[ModelName, int] = {}
    for row in conn.execute(query):
        name = ModelName(row.model_namespace, row.model_name)
        found[name] = entry_of(row)
        since[name] = row.valid_from
    return found, since


def _close(
    conn: Connection,
    environment: str,
    names: Set[ModelName],
    since: Mapping[ModelName, int],
    version: int,
) -> None:
    # By the whole primary key: SQLite would search one by one among all that are open.
    rows = [
        {"ns": name.namespace, "model": name.name, "since": since[name]}
        for name in sorted(names, key=_parts)
    ]
    if rows:
        table = schema.entries
        conn.execute(
            update(table)
            .where(
                table.c.environment == environment,
                table.c.model_namespace == bindparam("ns"),
                table.c.model_name == bindparam("model"),
                table.c.valid_from == bindparam("since"),
            )
            .values(valid_to=version),
            rows,
        )


def _parts(name: ModelName) -> tuple[str, str]:
    """Sort names by what they are made of: rows are written in the order of the primary key."""
    return name.namespace, name.name


_HEAD = schema.environments.c
_SHOWN = select(_ENTRY.table_id).where(_ENTRY.valid_to.is_(None))
_OF_LIVE = (
    select(_ENTRY.environment)
    .join_from(schema.entries, schema.environments, _HEAD.environment == _ENTRY.environment)
    .where(_HEAD.live)
)


@dataclass(frozen=True, slots=True)
class ShownStore:
    """Asking which environments show what."""

    database: Database

    def environments_of(self, snapshot_id: str) -> list[str]:
        """Return the names of the environments whose current version shows a snapshot."""
        shown = (_ENTRY.valid_to.is_(None), _ENTRY.snapshot_id == snapshot_id)
        query = _OF_LIVE.where(*shown).distinct().order_by(_ENTRY.environment)
        return self.database.column(query)

    def shown_by(
        self, connection: Connection, environment: str, ids: Iterable[str]
    ) -> frozenset[str]:
        """Return those of some tables that an environment's current version shows."""
        query = _SHOWN.where(_ENTRY.environment == environment)
        return frozenset(row[0] for row in among(connection, query, _ENTRY.table_id, ids))

    def others(
        self, environment: str, ids: Iterable[str], connection: Connection | None = None
    ) -> dict[str, set[str]]:
        """Return by table id which other environments show some tables as they are now.

        Those that hold a table at an earlier state are left out: it may be anywhere.
        """
        found: dict[str, set[str]] = {}
        query = select(_ENTRY.table_id, _ENTRY.environment).where(
            _ENTRY.environment != environment,
            _ENTRY.valid_to.is_(None),
            _ENTRY.held_schema_id.is_(None),
        )
        for table_id, name in self.database.among(query, _ENTRY.table_id, ids, connection):
            found.setdefault(table_id, set()).add(name)
        return found

    def among(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of some tables that the current version of any environment shows."""
        rows = self.database.among(_SHOWN.distinct(), _ENTRY.table_id, ids)
        return frozenset(row[0] for row in rows)

    def tables(self, connection: Connection | None = None) -> list[str]:
        """Return the tables that the current version of any environment shows, in order."""
        query = _SHOWN.where(_ENTRY.table_id.is_not(None)).distinct().order_by(_ENTRY.table_id)
        return self.database.column(query, connection)

    def previews(self) -> list[tuple[str, Entry]]:
        """Return the entries on branches of production's tables, by environment."""
        table = schema.tables.c
        query = select(table.table_id).where(
            table.name.contains(f"@{PREVIEW_PREFIX}", autoescape=True), table.status == "live"
        )
        ids: list[str] = self.database.column(query)
        # What is held is a branch as it was: nobody tries anything on it any more.
        return [found for found in self.entries_of(ids) if found[1].held is None]

    def entries_of(self, table_ids: Iterable[str]) -> list[tuple[str, Entry]]:
        """Return the current entries served by some tables, by environment and model."""
        query = _OF_LIVE.add_columns(*ENTRY).where(_ENTRY.valid_to.is_(None))
        rows = self.database.among(query, _ENTRY.table_id, table_ids)
        found = [(row.environment, entry_of(row)) for row in rows]
        return sorted(found, key=lambda item: (item[0], item[1].name))
