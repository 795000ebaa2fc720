"""Pins: the snapshots of an environment's tables when it was published.

A *pin* is the Iceberg snapshot of one table that one publication shows. Pins are stored as
differences: a row is valid from the version that pinned the snapshot up to the version that pinned
another one, so a publication writes one row for each changed table.

A *head* is the content of a table's current metadata file: the snapshot that readers see, and the
schema. A table's head is recorded when a fill or publication moves the table, or a publication
first shows the table. So one query finds the pins that differ from the heads, and no metadata file
is read for an unchanged table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import HeldState
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import PREVIEW_PREFIX, TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import (
    among,
    chunks,
    from_micros,
    to_micros,
    upsert,
    valid_at,
    value_from_row,
)
from vde_dagster.state.tables.tables import BEFORE_END, parse_place

_HEAD, _PIN = schema.heads.c, schema.pins.c
OPEN = (_PIN.environment == sa.bindparam("of")) & _PIN.valid_to.is_(None)

# Built once: building a statement takes longer than running it.
_PINNED = sa.select(_PIN.table_id).where(OPEN)
_HELD = sa.select(schema.entries.c.table_id).where(
    schema.entries.c.environment == sa.bindparam("of"),
    schema.entries.c.valid_to.is_(None),
    schema.entries.c.held_schema_id.is_not(None),
)
_HEADS = sa.select(schema.heads)
_OPEN_PINS = sa.select(schema.pins).where(OPEN)
_PLACES = sa.select(schema.tables.c.table_id, schema.tables.c.namespace, schema.tables.c.name)
_MOVED = (
    sa.select(schema.heads)
    .join(schema.pins, _PIN.table_id == _HEAD.table_id)
    .where(
        OPEN,
        sa.or_(
            _PIN.iceberg_snapshot_id.is_distinct_from(_HEAD.iceberg_snapshot_id),
            _PIN.schema_id != _HEAD.schema_id,
        ),
    )
)
CLOSE = (
    sa.update(schema.pins)
    .where(OPEN, _PIN.table_id == sa.bindparam("table"))
    .values(valid_to=sa.bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class Growth:
    """Numbers of rows that commits added and removed between two snapshots of a table."""

    before: int | None
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class Head:
    """The current Iceberg snapshot and schema of a table.

    Args:
        growth: Rows added and removed since the previous snapshot; None if unknown.
    """

    table_id: str
    location: str
    snapshot_id: int | None
    schema_id: int
    rows: int | None
    growth: Growth | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """The Iceberg snapshot of one table that a version of an environment shows.

    Args:
        filled: The filled ranges, as `dump_filled` writes them; None if unknown.
    """

    table_id: str
    snapshot_id: int | None
    schema_id: int
    rows: int | None
    since: int
    filled: str | None = None

    @property
    def state_to_hold(self) -> HeldState:
        """The pinned snapshot, as an environment's entry stores it."""
        return HeldState(self.snapshot_id, self.schema_id, self.rows)

    def shows(self, head: Head) -> bool:
        """Check whether a table's current snapshot and schema are the pinned ones."""
        return (self.snapshot_id, self.schema_id) == (head.snapshot_id, head.schema_id)


@dataclass(frozen=True, slots=True)
class PinStore:
    database: Database

    def pinned(self, connection: sa.Connection, environment: str) -> set[str]:
        return set(connection.execute(_PINNED, {"of": environment}).scalars())

    def current(self, connection: sa.Connection, environment: str) -> dict[str, int]:
        query = sa.select(_PIN.table_id, _PIN.iceberg_snapshot_id).where(
            OPEN, _PIN.iceberg_snapshot_id.is_not(None)
        )
        return {row[0]: row[1] for row in connection.execute(query, {"of": environment})}

    def tables_at_earlier_snapshot(self, connection: sa.Connection, environment: str) -> set[str]:
        """Return the ids of an environment's held tables, which it shows at an earlier snapshot."""
        return set(connection.execute(_HELD, {"of": environment}).scalars())

    def places(
        self, connection: sa.Connection, table_ids: Iterable[str]
    ) -> dict[str, tuple[TableRef, str | None]]:
        """Return each table's name and the branch that readers see (None for `main`)."""
        found: dict[str, tuple[TableRef, str | None]] = {}
        for row in among(connection, _PLACES, schema.tables.c.table_id, table_ids):
            name, branch = parse_place(row.name)
            found[row.table_id] = (TableRef(row.namespace, name), branch)
        return found

    def heads(self, connection: sa.Connection, table_ids: Iterable[str]) -> dict[str, Head]:
        """Return the last recorded snapshots of tables, by id. The catalog may have newer ones."""
        rows = among(connection, _HEADS, _HEAD.table_id, table_ids)
        return {row.table_id: _head(row) for row in rows}

    def note(self, connection: sa.Connection, heads: Iterable[Head]) -> None:
        """Record the heads that tables will have when this transaction is committed."""
        ordered = sorted(heads, key=lambda head: head.table_id)
        rows = [{**_row(head), "metadata_location": head.location} for head in ordered]
        upsert(connection, schema.heads, rows, *(one.name for one in _HEAD if not one.primary_key))

    def forget(self, connection: sa.Connection, table_ids: Iterable[str]) -> None:
        for part in chunks(sorted(table_ids)):
            connection.execute(sa.delete(schema.heads).where(_HEAD.table_id.in_(part)))

    def moved(self, connection: sa.Connection, environment: str) -> dict[str, Head]:
        """Return the tables whose current snapshot or schema differs from an environment's pin."""
        rows = connection.execute(_MOVED, {"of": environment})
        return {row.table_id: _head(row) for row in rows}

    def write(
        self,
        connection: sa.Connection,
        environment: str,
        version: int,
        shown: Mapping[str, Head],
        gone: Iterable[str],
    ) -> None:
        """Pin the current snapshots of a version's tables, in the transaction of that version."""
        rows = among(connection, _OPEN_PINS, _PIN.table_id, shown, {"of": environment})
        pinned = {row.table_id: _pin(row) for row in rows}
        opened = {
            table_id: head
            for table_id, head in sorted(shown.items())
            if table_id not in pinned or not pinned[table_id].shows(head)
        }
        closed = [*(table_id for table_id in opened if table_id in pinned), *sorted(gone)]
        if closed:
            at = {"of": environment, "at": version}
            connection.execute(CLOSE, [{**at, "table": table_id} for table_id in closed])
        if opened:
            new = []
            for table_id, head in opened.items():
                before, growth = pinned.get(table_id), head.growth
                # Growth is known only if the head directly follows the pinned snapshot.
                if before is None or growth is None or growth.before != before.snapshot_id:
                    growth = Growth(None, None, None)
                added = {"rows_added": growth.added, "rows_removed": growth.removed}
                place = {"environment": environment, "valid_from": version, "valid_to": None}
                new.append({**_row(head), **place, **added})
            connection.execute(sa.insert(schema.pins), new)

    def at(self, environment: str, version: int) -> dict[str, Pin]:
        """Return the pins of an environment's version, by table id.

        Versions from before the introduction of pins have none.
        """
        query = sa.select(schema.pins).where(*valid_at(schema.pins, environment, version))
        return {row.table_id: _pin(row) for row in self.database.rows(query)}

    def changes(self, environment: str, first: int, last: int) -> list[PinChange]:
        """Return the tables whose pinned snapshot changed with versions `first` to `last`.

        The same snapshot under another schema is not a change.
        """
        earlier, once = schema.pins.alias("earlier"), schema.pins.alias("once")
        known = sa.exists().where(
            once.c.environment == _PIN.environment,
            once.c.table_id == _PIN.table_id,
            once.c.valid_from < _PIN.valid_from,
        )
        query = (
            sa.select(
                schema.pins,
                earlier.c.valid_from.label("since"),
                earlier.c.iceberg_snapshot_id.label("before"),
                known.label("known"),
            )
            .select_from(
                schema.pins.outerjoin(
                    earlier,
                    (earlier.c.environment == _PIN.environment)
                    & (earlier.c.table_id == _PIN.table_id)
                    & (earlier.c.valid_to == _PIN.valid_from),
                )
            )
            .where(_PIN.environment == environment, _PIN.valid_from.between(first, last))
            .order_by(_PIN.valid_from, _PIN.table_id)
        )
        rows = self.database.rows(query)
        return [
            PinChange(
                version=row.valid_from,
                table_id=row.table_id,
                snapshot_id=row.iceberg_snapshot_id,
                rows=row.row_count,
                is_new=row.since is None,
                is_back=row.since is None and bool(row.known),
                before=row.before,
                added=row.rows_added,
                removed=row.rows_removed,
            )
            for row in rows
            if row.since is None or row.before != row.iceberg_snapshot_id
        ]

    def changed_tables(self, environment: str, version: int) -> set[str]:
        query = sa.select(_PIN.table_id).where(
            _PIN.environment == environment, _PIN.valid_from == version
        )
        return set(self.database.column(query))

    def models(
        self, environment: str, table_ids: Collection[str]
    ) -> list[tuple[str, int, int | None, ModelName]]:
        """Return the models of some tables, over all versions of an environment.

        Each item is (table id, first version with the table, first version without it, model).
        """
        entry = schema.entries.c
        name = (entry.model_namespace, entry.model_name)
        query = sa.select(entry.table_id, entry.valid_from, entry.valid_to, *name).where(
            entry.environment == environment, entry.table_id.is_not(None)
        )
        return [
            (row[0], row[1], row[2], ModelName(row[3], row[4]))
            for row in self.database.rows(query.order_by(*name))
            if row[0] in table_ids
        ]

    def kept(
        self, ref: TableRef, forgotten: Collection[tuple[str, int]] = ()
    ) -> dict[int, list[tuple[str, int, int]]]:
        """Return the kept versions that pin a table, by Iceberg snapshot of the table.

        Each item is (environment, first version, last version), without versions in `forgotten`.
        """
        preview = _TABLE.name.startswith(f"{ref.name}@{PREVIEW_PREFIX}", autoescape=True)
        versions = (
            sa.select(_PIN.iceberg_snapshot_id, _PIN.environment, _VERSION.version)
            .select_from(_KEPT)
            .where(_OF_LIVE, _TABLE.namespace == ref.namespace, (_TABLE.name == ref.name) | preview)
            .order_by(_PIN.environment, _VERSION.version)
        )
        found: dict[int, dict[str, list[int]]] = {}
        for snapshot, environment, version in self.database.rows(versions):
            if (environment, version) not in forgotten:
                found.setdefault(snapshot, {}).setdefault(environment, []).append(version)
        return {
            snapshot: [(name, numbers[0], numbers[-1]) for name, numbers in by_name.items()]
            for snapshot, by_name in found.items()
        }

    def kept_snapshots(self, connection: sa.Connection) -> list[tuple[str, int]]:
        """Return (table id, Iceberg snapshot) for all pins in kept versions of environments."""
        ends = (
            sa.select(_VERSION.environment, sa.func.max(_VERSION.version).label("last"))
            .where(_VERSION.dropped)
            .group_by(_VERSION.environment)
            .subquery()
        )
        # A pin without an end is the current version's; other pins count while a version is kept.
        of_kept = sa.exists().where(
            _VERSION.environment == _PIN.environment,
            _VERSION.version >= _PIN.valid_from,
            _VERSION.version < _PIN.valid_to,
            _VERSION.version > sa.func.coalesce(ends.c.last, 0),
        )
        query = (
            sa.select(_PIN.table_id, _PIN.iceberg_snapshot_id)
            .select_from(
                schema.pins.join(
                    schema.environments, _ENVIRONMENT.environment == _PIN.environment
                ).outerjoin(ends, ends.c.environment == _PIN.environment)
            )
            .where(
                _ENVIRONMENT.live,
                _PIN.iceberg_snapshot_id.is_not(None),
                _PIN.valid_to.is_(None) | of_kept,
            )
            .distinct()
        )
        rows = self.database.rows(query, connection)
        return [(table_id, snapshot) for table_id, snapshot in rows]


def _head(row: Any) -> Head:
    return Head(
        row.table_id, row.metadata_location, row.iceberg_snapshot_id, row.schema_id, row.row_count
    )


def _pin(row: Any) -> Pin:
    said = {"snapshot_id": row.iceberg_snapshot_id, "rows": row.row_count, "since": row.valid_from}
    return value_from_row(Pin, row, **said)


def _row(head: Head) -> dict[str, Any]:
    return {
        "table_id": head.table_id,
        "iceberg_snapshot_id": head.snapshot_id,
        "schema_id": head.schema_id,
        "row_count": head.rows,
    }


_TABLE, _ENVIRONMENT = schema.tables.c, schema.environments.c
_VERSION = schema.environment_versions.c
_KEPT = (
    schema.pins.join(schema.tables, _TABLE.table_id == _PIN.table_id)
    .join(schema.environments, _ENVIRONMENT.environment == _PIN.environment)
    .join(
        schema.environment_versions,
        sa.and_(*valid_at(schema.pins, _VERSION.environment, _VERSION.version)),
    )
)
"""Pins with the versions in which they are valid."""
_OF_LIVE = _ENVIRONMENT.live & _PIN.iceberg_snapshot_id.is_not(None) & ~BEFORE_END


@dataclass(frozen=True, slots=True)
class PinChange:
    """A table whose pinned snapshot changed with a version of an environment.

    Args:
        is_new: Whether the previous version did not show the table.
        is_back: Whether the previous version did not show the table, but an older one did.
    """

    version: int
    table_id: str
    snapshot_id: int | None
    rows: int | None
    is_new: bool
    is_back: bool
    before: int | None
    added: int | None
    removed: int | None


_SQLITE = """
    SELECT group_concat(one, ',') FROM (
      SELECT start_at || '-' || end_at AS one FROM vde_intervals i
      WHERE i.table_id = p.table_id ORDER BY start_at)
"""
_POSTGRES = """
    SELECT string_agg(start_at || '-' || end_at, ',' ORDER BY start_at) FROM vde_intervals i
    WHERE i.table_id = p.table_id
"""
# Compared in the database: of a thousand tables few have other ranges than before.
_DIFFERING = """
    SELECT table_id, valid_from, now FROM (
      SELECT p.table_id, p.valid_from, p.filled, COALESCE(({now}), '') AS now
      FROM vde_pins p WHERE p.environment = :of AND p.valid_to IS NULL) found
    WHERE filled IS NULL OR filled <> now
"""
_ON_SQLITE = sa.text(_DIFFERING.format(now=_SQLITE))
_ON_POSTGRES = sa.text(_DIFFERING.format(now=_POSTGRES))
_FILLED = sa.select(_PIN.table_id, _PIN.filled, _PIN.valid_from).where(OPEN)
_SAY = (
    sa.update(schema.pins)
    .where(OPEN, _PIN.table_id == sa.bindparam("table"))
    .values(filled=sa.bindparam("text"))
)


def dump_filled(filled: IntervalSet) -> str:
    """Write ranges as microseconds since 1970 (UTC), such as `1-2,4-9`."""
    return ",".join(f"{to_micros(one.start)}-{to_micros(one.end)}" for one in filled)


def load_filled(text: str) -> IntervalSet:
    pairs = (part.rsplit("-", 1) for part in text.split(",") if part)
    return IntervalSet(
        tuple(Interval(from_micros(int(start)), from_micros(int(end))) for start, end in pairs)
    )


def pin_filled(
    connection: sa.Connection, environment: str, version: int, after: Mapping[str, IntervalSet]
) -> None:
    """Store the filled ranges of a version's tables, in the transaction of its publication.

    Args:
        after: Filled ranges, by table id, of tables that the catalog moves after this transaction.
    """
    on_sqlite = connection.dialect.name == "sqlite"
    found: Iterable[Any] = connection.execute(
        _ON_SQLITE if on_sqlite else _ON_POSTGRES, {"of": environment}
    ).all()
    differing = {one: (since, now) for one, since, now in found if one not in after}
    of = {"of": environment}
    for table_id, before, since in among(connection, _FILLED, _PIN.table_id, after, of):
        now = dump_filled(after[table_id])
        if now != before:
            differing[table_id] = (since, now)
    _reopen(
        connection, environment, version, [o for o, (at, _) in differing.items() if at != version]
    )
    rows = [{"of": environment, "table": one, "text": now} for one, (_, now) in differing.items()]
    if rows:
        connection.execute(_SAY, rows)


def _reopen(
    connection: sa.Connection, environment: str, version: int, table_ids: Collection[str]
) -> None:
    kept: list[dict[str, Any]] = []
    for row in among(connection, _OPEN_PINS, _PIN.table_id, table_ids, {"of": environment}):
        changed = {"valid_from": version, "rows_added": None, "rows_removed": None}
        kept.append({**row._mapping, **changed})
    if kept:
        closed = [{"of": environment, "table": row["table_id"], "at": version} for row in kept]
        connection.execute(CLOSE, closed)
        connection.execute(sa.insert(schema.pins), kept)


def restore_filled(connection: sa.Connection, table_id: str, filled: IntervalSet) -> None:
    """Replace the filled ranges of a table, and delete the table's pending fills."""
    for table in (schema.intervals, schema.pending):
        connection.execute(sa.delete(table).where(table.c.table_id == table_id))
    rows = [{"table_id": table_id, "start_at": one.start, "end_at": one.end} for one in filled]
    if rows:
        connection.execute(sa.insert(schema.intervals), rows)
