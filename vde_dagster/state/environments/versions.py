"""The kept versions of environments, and their entries, stored as differences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.planning.environments.environment import Entry, Environment, HeldState
from vde_dagster.planning.tables.table import PREVIEW_PREFIX
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, lock_rows
from vde_dagster.state.db.rows import among, is_model, valid_at, value_from_row

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


def read_entry(row: sa.Row[Any]) -> Entry:
    """Create an entry from a row with the columns of `ENTRY`."""
    return _entry(
        row.model_namespace,
        row.model_name,
        row.snapshot_id,
        row.table_id,
        row.held_schema_id,
        row.held_snapshot_id,
    )


# Cached: equal entries are the same object, which saves memory.
@lru_cache(maxsize=20_000)
def _entry(
    namespace: str,
    name: str,
    snapshot_id: str,
    table_id: str | None,
    held_schema_id: int | None,
    held_snapshot_id: int | None,
) -> Entry:
    held = None if held_schema_id is None else HeldState(held_snapshot_id, held_schema_id)
    return Entry(ModelName(namespace, name), snapshot_id, table_id, held)


def read_head(conn: sa.Connection, name: str) -> sa.Row[Any] | None:
    """Return an environment's row with its current version number, or None."""
    return conn.execute(_HEAD_ROW, {"of": name}).one_or_none()


def read_frozen(conn: sa.Connection, name: str, version: int) -> str | None:
    """Return the version that a frozen environment shows, such as `prod@41`, or None."""
    return conn.execute(_FROZEN, {"of": name, "at": version}).scalar()


_HEAD = schema.environments.c
_HEAD_ROW = sa.select(schema.environments).where(_HEAD.environment == sa.bindparam("of"))
_VERSION = sa.select(schema.environment_versions).where(
    schema.environment_versions.c.environment == sa.bindparam("of"),
    schema.environment_versions.c.version == sa.bindparam("at"),
)
_FROZEN = _VERSION.with_only_columns(schema.environment_versions.c.frozen)
_IN_ORDER = sa.select(*ENTRY, _ENTRY.valid_from).order_by(_ENTRY.model_namespace, _ENTRY.model_name)
_ENTRIES = _IN_ORDER.where(*valid_at(schema.entries, sa.bindparam("of"), sa.bindparam("at")))
_OPEN_ENTRIES = _IN_ORDER.where(_ENTRY.environment == sa.bindparam("of"), _ENTRY.valid_to.is_(None))


def read_version(conn: sa.Connection, name: str, version: int) -> Environment | None:
    row = conn.execute(_VERSION, {"of": name, "at": version}).one_or_none()
    if row is None:
        return None
    return value_from_row(
        Environment,
        row,
        name=name,
        entries=_read_entries(conn, _ENTRIES, of=name, at=version)[0],
        suffix=row.suffix or "schema",
        mode=row.mode or "full",
    )


def write_entries(
    conn: sa.Connection, environment: Environment, version: int
) -> tuple[int, int, int]:
    """Write a version's changes, and return the numbers of added, changed and removed models."""
    before, since = _read_entries(conn, _OPEN_ENTRIES, of=environment.name)
    after = environment.entries
    removed = before.keys() - after.keys()
    added = after.keys() - before.keys()
    changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
    _close(conn, environment.name, removed | changed, since, version)
    opened = [after[name] for name in sorted(added | changed, key=_primary_key)]
    if opened:
        conn.execute(
            sa.insert(schema.entries),
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
    # A model that only switches to an earlier state of its table, or back, is not counted.
    others = [n for n in changed if replace(after[n], held=None) != replace(before[n], held=None)]
    return len(added), len(others), len(removed)


def _read_entries(
    conn: sa.Connection, query: sa.Select[Any], **parameters: Any
) -> tuple[dict[ModelName, Entry], dict[ModelName, int]]:
    found: dict[ModelName, Entry] = {}
    since: dict[ModelName, int] = {}
    for row in conn.execute(query, parameters):
        entry = _entry(*row[:-1])
        found[entry.name] = entry
        since[entry.name] = row[-1]
    return found, since


def _close(
    conn: sa.Connection,
    environment: str,
    names: Set[ModelName],
    since: Mapping[ModelName, int],
    version: int,
) -> None:
    # By the whole primary key: SQLite would otherwise scan all open entries for each.
    rows = [
        {"ns": name.namespace, "model": name.name, "since": since[name]}
        for name in sorted(names, key=_primary_key)
    ]
    if rows:
        table = schema.entries
        conn.execute(
            sa.update(table)
            .where(
                table.c.environment == environment,
                table.c.model_namespace == sa.bindparam("ns"),
                table.c.model_name == sa.bindparam("model"),
                table.c.valid_from == sa.bindparam("since"),
            )
            .values(valid_to=version),
            rows,
        )


def _primary_key(name: ModelName) -> tuple[str, str]:
    return name.namespace, name.name


_SHOWN = sa.select(_ENTRY.table_id).where(_ENTRY.valid_to.is_(None))
_OF_LIVE = (
    sa.select(_ENTRY.environment)
    .join_from(schema.entries, schema.environments, _HEAD.environment == _ENTRY.environment)
    .where(_HEAD.live)
)


@dataclass(frozen=True, slots=True)
class ShownStore:
    database: Database

    def environments_with_snapshot(self, snapshot_id: str) -> list[str]:
        """Return the environments whose current version contains a snapshot of a model."""
        shown = (_ENTRY.valid_to.is_(None), _ENTRY.snapshot_id == snapshot_id)
        query = _OF_LIVE.where(*shown).distinct().order_by(_ENTRY.environment)
        return self.database.column(query)

    def tables_in(
        self, connection: sa.Connection, environment: str, ids: Iterable[str]
    ) -> frozenset[str]:
        """Return the given tables that the current version of an environment shows."""
        query = _SHOWN.where(_ENTRY.environment == environment)
        return frozenset(row[0] for row in among(connection, query, _ENTRY.table_id, ids))

    def other_environments(
        self, environment: str, ids: Iterable[str], connection: sa.Connection | None = None
    ) -> dict[str, set[str]]:
        """Return the environments that show tables' current rows, by table id.

        `environment` itself is left out.
        """
        found: dict[str, set[str]] = {}
        query = sa.select(_ENTRY.table_id, _ENTRY.environment).where(
            _ENTRY.environment != environment,
            _ENTRY.valid_to.is_(None),
            _ENTRY.held_schema_id.is_(None),
        )
        for table_id, name in self.database.among(query, _ENTRY.table_id, ids, connection):
            found.setdefault(table_id, set()).add(name)
        return found

    def currently_shown(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the given tables that the current version of any environment shows."""
        rows = self.database.among(_SHOWN.distinct(), _ENTRY.table_id, ids)
        return frozenset(row[0] for row in rows)

    def tables(self, connection: sa.Connection | None = None) -> list[str]:
        query = _SHOWN.where(_ENTRY.table_id.is_not(None)).distinct().order_by(_ENTRY.table_id)
        return self.database.column(query, connection)

    def previews(self) -> list[tuple[str, Entry]]:
        """Return (environment, entry) for each model that an environment shows as a preview."""
        table = schema.tables.c
        query = sa.select(table.table_id).where(
            table.name.contains(f"@{PREVIEW_PREFIX}", autoescape=True), table.status == "live"
        )
        ids: list[str] = self.database.column(query)
        # A held entry shows an earlier state of the branch: it previews nothing any more.
        return [found for found in self.entries_on_tables(ids) if found[1].held is None]

    def entries_on_tables(self, table_ids: Iterable[str]) -> list[tuple[str, Entry]]:
        """Return (environment, entry) of the current entries with one of the tables, sorted."""
        query = _OF_LIVE.add_columns(*ENTRY).where(_ENTRY.valid_to.is_(None))
        rows = self.database.among(query, _ENTRY.table_id, table_ids)
        found = [(row.environment, read_entry(row)) for row in rows]
        return sorted(found, key=lambda item: (item[0], item[1].name))


_WITH_FIRST_VERSION = schema.entries.join(
    schema.environment_versions,
    (schema.environment_versions.c.environment == schema.entries.c.environment)
    & (schema.environment_versions.c.version == schema.entries.c.valid_from),
)
"""Entries with the version that showed them first."""


@dataclass(frozen=True, slots=True)
class EnvironmentVersion:
    """One version in the history of an environment."""

    environment: str
    version: int
    publication_id: str
    plan_id: str | None
    published_at: datetime
    published_by: str
    note: str
    added: int
    changed: int
    removed: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class VersionStore:
    database: Database

    def at(self, name: str, version: int) -> Environment | None:
        """Read one version of an environment, or return None if it is unknown."""
        with self.database.reading() as conn:
            return read_version(conn, name, version)

    def require_kept(self, connection: sa.Connection, name: str, version: int) -> None:
        """Check that a version still exists, and lock it until the transaction ends.

        Raises:
            ConflictError: The version was forgotten, or its environment was dropped.
        """
        known, head = schema.environment_versions.c, schema.environments.c
        kept = sa.select(known.version).where(known.environment == name, known.version == version)
        live = sa.select(head.live).where(head.environment == name)
        # A concurrent cleanup waits for this transaction, and then finds what it has pinned.
        there = lock_rows(connection, kept).first()
        alive = there is not None and lock_rows(connection, live).scalar()
        if not alive or self.is_before_end(name, version, connection):
            raise ConflictError(
                f"version {version} of '{name}' is no longer kept",
                hint=f"list the kept versions: vde history {name}",
            )

    def history(
        self, name: str, limit: int | None = None, until: int | None = None
    ) -> list[EnvironmentVersion]:
        """Return the versions of an environment, newest first."""
        last = schema.environment_versions.c.version <= until if until is not None else sa.true()
        query = (
            sa.select(schema.environment_versions)
            .where(schema.environment_versions.c.environment == name, last)
            .order_by(schema.environment_versions.c.version.desc())
            .limit(limit)
        )
        return [value_from_row(EnvironmentVersion, row) for row in self.database.rows(query)]

    def number_at(self, name: str, at: datetime) -> int | None:
        """Return the number of the version that was current at an instant (UTC), or None."""
        known = schema.environment_versions.c
        own = known.environment == name
        # The version before the first later one, as instants of earlier releases may go back.
        later = sa.select(sa.func.min(known.version)).where(own, known.published_at > at)
        before = known.version < sa.func.coalesce(later.scalar_subquery(), known.version + 1)
        found: int | None = self.database.value(
            sa.select(sa.func.max(known.version)).where(own, before)
        )
        return found

    def differing(self, name: str, version: int, *, data: bool = False) -> list[int]:
        """Return the last version of each group of equal consecutive versions, newest first.

        Versions are equal if they have the same entries, and with `data` the same pins. Only kept
        versions before `version` are returned. The group that contains `version` is left out.
        """
        known = schema.environment_versions.c
        versions = (
            sa.select(known.version)
            .where(known.environment == name, known.version < version)
            .order_by(known.version.desc())
        )
        # The content of a version differs from that of the one before exactly where an entry
        # begins or ends with it.
        parts = [
            sa.select(version).where(table.c.environment == name, version.is_not(None))
            for table in ((schema.entries, schema.pins) if data else (schema.entries,))
            for version in (table.c.valid_from, table.c.valid_to)
        ]
        with self.database.reading() as conn:
            changed_at: list[int] = sorted(conn.execute(sa.union(*parts)).scalars())
            earlier: list[int] = list(conn.execute(versions).scalars())
        found: list[int] = []
        latest = bisect_right(changed_at, version)
        for number in earlier:
            place = bisect_right(changed_at, number)
            if place != latest:
                found.append(number)
                latest = place
        return found

    def publication(self, name: str, version: int) -> str | None:
        known = schema.environment_versions.c
        query = sa.select(known.publication_id).where(
            known.environment == name, known.version == version, ~known.dropped
        )
        found: str | None = self.database.value(query)
        return found

    def is_end(self, name: str, version: int) -> bool:
        known = schema.environment_versions.c
        query = sa.select(known.dropped).where(known.environment == name, known.version == version)
        return bool(self.database.value(query))

    def is_before_end(
        self, name: str, version: int, connection: sa.Connection | None = None
    ) -> bool:
        """Check whether the environment was dropped in this version or in a later one."""
        known = schema.environment_versions.c
        query = sa.select(known.version).where(
            known.environment == name, known.version >= version, known.dropped
        )
        return self.database.row(query.limit(1), connection) is not None

    def changed(self, name: str, version: int) -> set[ModelName]:
        """Return the models whose entry was added or changed with a version of an environment."""
        entry = schema.entries.c
        query = sa.select(entry.model_namespace, entry.model_name).where(
            entry.environment == name, entry.valid_from == version
        )
        return {ModelName(row[0], row[1]) for row in self.database.rows(query)}

    def entry_changes(
        self, name: str, first: int, last: int
    ) -> dict[int, dict[ModelName, tuple[Entry | None, Entry | None]]]:
        """Return the changed entries of each version in a range of an environment's versions.

        Returns:
            By version and model, the new and the previous entry. A removed model has None in place
            of the new entry, and an added model has None in place of the previous entry.
        """
        entry = schema.entries.c
        query = sa.select(*ENTRY, entry.valid_from, entry.valid_to).where(
            entry.environment == name,
            entry.valid_from.between(first, last) | entry.valid_to.between(first, last),
        )
        found: dict[int, dict[ModelName, tuple[Entry | None, Entry | None]]] = {}
        for row in self.database.rows(query):
            one = read_entry(row)
            if first <= row.valid_from <= last:
                changed = found.setdefault(row.valid_from, {})
                changed[one.name] = (one, changed.get(one.name, (None, None))[1])
            if row.valid_to is not None and first <= row.valid_to <= last:
                changed = found.setdefault(row.valid_to, {})
                changed[one.name] = (changed.get(one.name, (None, None))[0], one)
        return found

    def first_change(
        self, name: str, version: int, model: ModelName
    ) -> tuple[datetime, str | None] | None:
        """Return the time (UTC) and plan of the first change of a model's entry after a version."""
        known, entry = schema.environment_versions.c, schema.entries.c
        query = (
            sa.select(known.published_at, known.plan_id)
            .select_from(_WITH_FIRST_VERSION)
            .where(
                entry.environment == name,
                is_model(schema.entries, model),
                entry.valid_from > version,
            )
            .order_by(entry.valid_from)
            .limit(1)
        )
        row = self.database.row(query)
        return (row[0], row[1]) if row is not None else None

    def current_base(self, name: str, base_version: int) -> int | None:
        """Return the current version if its models are the same as in a plan's base version.

        Otherwise return None. The tables may have other rows.
        """
        with self.database.reading() as conn:
            head = read_head(conn, name)
            current = int(head.version) if head is not None and head.live else 0
            if current == base_version:
                return current
            # Runs and backfills publish versions that change only the rows of tables.
            kept = current and conn.execute(sa.select(kept_since(name, base_version))).scalar()
        return current if kept else None

    def entry_times(self, name: str, version: int) -> dict[ModelName, datetime]:
        """Return the time (UTC) when each model got its entry in a version.

        A model is left out if the version that introduced its entry was forgotten.
        """
        entry, known = schema.entries.c, schema.environment_versions.c
        query = (
            sa.select(entry.model_namespace, entry.model_name, known.published_at)
            .select_from(_WITH_FIRST_VERSION)
            .where(*valid_at(schema.entries, name, version))
        )
        return {ModelName(row[0], row[1]): row[2] for row in self.database.rows(query)}


def kept_since(
    environment: str | sa.ColumnElement[str], version: int | sa.ColumnElement[int]
) -> sa.ColumnElement[bool]:
    """Build the SQL condition that the models of an environment have not changed since a version.

    The condition is false for a forgotten version.
    """
    entry, known = schema.entries.c, schema.environment_versions.c
    moved = sa.exists().where(
        entry.environment == environment, (entry.valid_from > version) | (entry.valid_to > version)
    )
    # The old entries of a forgotten version are deleted, so changes since then cannot be seen.
    kept = sa.exists().where(known.environment == environment, known.version == version)
    return kept & ~moved
