"""Pins: the snapshots of an environment's tables when it was published.

A *pin* is the Iceberg snapshot of one table that one publication shows. Pins are kept by
difference: a row holds from the version that pinned it up to the version that no longer does, so
that a publication writes as many rows as tables that changed.

A *head* is what the metadata file of a table says: the snapshot that readers see, and the schema.
It is noted whenever a publication moves a table, or shows it first, so that which pins differ is
one query, and no metadata file is read for a table that stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.environment import HeldState
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import PREVIEW_PREFIX, TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import among, chunks, from_micros, made_of, to_micros, upsert
from vde_dagster.state.environments.versions import valid_at
from vde_dagster.state.tables.tables import parse_place

_HEAD, _PIN = schema.heads.c, schema.pins.c
OPEN = (_PIN.environment == bindparam("of")) & _PIN.valid_to.is_(None)

# Built once: building a statement takes longer than running it.
_PINNED = select(_PIN.table_id).where(OPEN)
_HELD = select(schema.entries.c.table_id).where(
    schema.entries.c.environment == bindparam("of"),
    schema.entries.c.valid_to.is_(None),
    schema.entries.c.held_schema_id.is_not(None),
)
_MOVED = (
    select(schema.heads)
    .join(schema.pins, _PIN.table_id == _HEAD.table_id)
    .where(
        OPEN,
        or_(
            _PIN.iceberg_snapshot_id.is_distinct_from(_HEAD.iceberg_snapshot_id),
            _PIN.schema_id != _HEAD.schema_id,
        ),
    )
)
CLOSE = (
    update(schema.pins)
    .where(OPEN, _PIN.table_id == bindparam("table"))
    .values(valid_to=bindparam("at"))
)


@dataclass(frozen=True, slots=True)
class Growth:
    """Rows added and removed between two snapshots of a table."""

    before: int | None
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class Head:
    """The current snapshot of a table by its metadata file.

    Args:
        growth: What it adds to the one before, where that is known.
    """

    table_id: str
    location: str
    snapshot_id: int | None
    schema_id: int
    rows: int | None
    growth: Growth | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """The snapshot of one table that a version of an environment shows.

    Args:
        filled: What counted as filled, as `dump_filled` writes it; None when not known.
    """

    table_id: str
    snapshot_id: int | None
    schema_id: int
    rows: int | None
    since: int
    filled: str | None = None

    @property
    def held(self) -> HeldState:
        """The hold of an entry that goes on showing this."""
        return HeldState(self.snapshot_id, self.schema_id, self.rows)

    def shows(self, head: Head) -> bool:
        """Say whether this is what a head shows."""
        return (self.snapshot_id, self.schema_id) == (head.snapshot_id, head.schema_id)


@dataclass(frozen=True, slots=True)
class PinStore:
    """Reading and writing pins, of one version and of many."""

    database: Database

    def pinned(self, connection: Connection, environment: str) -> set[str]:
        """Return the ids of the tables that an environment's last version pinned."""
        return set(connection.execute(_PINNED, {"of": environment}).scalars())

    def current(self, connection: Connection, environment: str) -> dict[str, int]:
        """Return the Iceberg snapshots that an environment's current version pins, by table id."""
        query = select(_PIN.table_id, _PIN.iceberg_snapshot_id).where(
            OPEN, _PIN.iceberg_snapshot_id.is_not(None)
        )
        return {row[0]: row[1] for row in connection.execute(query, {"of": environment})}

    def held(self, connection: Connection, environment: str) -> set[str]:
        """Return the ids of the tables that an environment's last version held as they were."""
        return set(connection.execute(_HELD, {"of": environment}).scalars())

    def places(
        self, connection: Connection, table_ids: Iterable[str]
    ) -> dict[str, tuple[TableRef, str | None]]:
        """Return the names of tables with the branch that readers see; None for `main`."""
        table = schema.tables.c
        found: dict[str, tuple[TableRef, str | None]] = {}
        query = select(table.table_id, table.namespace, table.name)
        for row in among(connection, query, table.table_id, table_ids):
            name, branch = parse_place(row.name)
            found[row.table_id] = (TableRef(row.namespace, name), branch)
        return found

    def heads(self, connection: Connection, table_ids: Iterable[str]) -> dict[str, Head]:
        """Return the recorded metadata files of tables, which need not be the newest."""
        rows = among(connection, select(schema.heads), _HEAD.table_id, table_ids)
        return {row.table_id: _head(row) for row in rows}

    def note(self, connection: Connection, heads: Iterable[Head]) -> None:
        """Note what metadata files say that are current once the transaction commits."""
        ordered = sorted(heads, key=lambda head: head.table_id)
        rows = [{**_row(head), "metadata_location": head.location} for head in ordered]
        upsert(connection, schema.heads, rows, *(one.name for one in _HEAD if not one.primary_key))

    def forget(self, connection: Connection, table_ids: Iterable[str]) -> None:
        """Forget what metadata files said of tables that the catalog no longer has."""
        for part in chunks(sorted(table_ids)):
            connection.execute(delete(schema.heads).where(_HEAD.table_id.in_(part)))

    def moved(self, connection: Connection, environment: str) -> dict[str, Head]:
        """Return the heads of tables that others have moved since an environment pinned them."""
        rows = connection.execute(_MOVED, {"of": environment})
        return {row.table_id: _head(row) for row in rows}

    def write(
        self,
        connection: Connection,
        environment: str,
        version: int,
        shown: Mapping[str, Head],
        gone: Iterable[str],
    ) -> None:
        """Pin what a version shows, in the transaction that writes its entries."""
        query, of = select(schema.pins).where(OPEN), {"of": environment}
        rows = among(connection, query, _PIN.table_id, shown, of)
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
                # What it adds is known where it follows the pin before.
                if before is None or growth is None or growth.before != before.snapshot_id:
                    growth = Growth(None, None, None)
                added = {"rows_added": growth.added, "rows_removed": growth.removed}
                place = {"environment": environment, "valid_from": version, "valid_to": None}
                new.append({**_row(head), **place, **added})
            connection.execute(insert(schema.pins), new)

    def at(self, environment: str, version: int) -> dict[str, Pin]:
        """Return the pins of a version of an environment, by table id.

        Versions that were published before there were pins have none.
        """
        query = select(schema.pins).where(*valid_at(schema.pins, environment, version))
        return {row.table_id: _pin(row) for row in self.database.rows(query)}

    def changes(self, environment: str, first: int, last: int) -> list[PinChange]:
        """Return which tables' data versions of an environment changed, from one to another.

        A pin of the same snapshot under another schema is no change of data.
        """
        earlier, once = schema.pins.alias("earlier"), schema.pins.alias("once")
        known = exists().where(
            once.c.environment == _PIN.environment,
            once.c.table_id == _PIN.table_id,
            once.c.valid_from < _PIN.valid_from,
        )
        query = (
            select(
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

    def begun(self, environment: str, version: int) -> set[str]:
        """Return the tables of which a version has other rows, or others that count as filled."""
        query = select(_PIN.table_id).where(
            _PIN.environment == environment, _PIN.valid_from == version
        )
        return set(self.database.column(query))

    def models(
        self, environment: str, table_ids: Collection[str]
    ) -> list[tuple[str, int, int | None, ModelName]]:
        """Return (table, first version, first version without it, model) of what showed tables."""
        entry = schema.entries.c
        name = (entry.model_namespace, entry.model_name)
        query = select(entry.table_id, entry.valid_from, entry.valid_to, *name).where(
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
        """Return by Iceberg snapshot (environment, first, last version) of those that pin it."""
        preview = _TABLE.name.startswith(f"{ref.name}@{PREVIEW_PREFIX}", autoescape=True)
        versions = (
            select(_PIN.iceberg_snapshot_id, _PIN.environment, _VERSION.version)
            .select_from(_KEPT)
            .where(
                _OF_LIVE,
                _TABLE.namespace == ref.namespace,
                (_TABLE.name == ref.name) | preview,
            )
            .order_by(_PIN.environment, _VERSION.version)
        )
        found: dict[int, dict[str, list[int]]] = {}
        rows: Iterable[Any] = self.database.rows(versions)
        for snapshot, environment, version in rows:
            if (environment, version) not in forgotten:
                found.setdefault(snapshot, {}).setdefault(environment, []).append(version)
        return {
            snapshot: [(name, numbers[0], numbers[-1]) for name, numbers in by_name.items()]
            for snapshot, by_name in found.items()
        }

    def kept_snapshots(self, connection: Connection) -> list[tuple[str, int]]:
        """Return each (table id, Iceberg snapshot) that kept versions of live environments pin."""
        ends = (
            select(_VERSION.environment, func.max(_VERSION.version).label("last"))
            .where(_VERSION.dropped)
            .group_by(_VERSION.environment)
            .subquery()
        )
        # A pin without an end is that of the current version; of others a version has to be kept.
        of_kept = exists().where(
            _VERSION.environment == _PIN.environment,
            _VERSION.version >= _PIN.valid_from,
            _VERSION.version < _PIN.valid_to,
            _VERSION.version > func.coalesce(ends.c.last, 0),
        )
        query = (
            select(_PIN.table_id, _PIN.iceberg_snapshot_id)
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
        rows: Iterable[Any] = connection.execute(query)
        return [(table_id, snapshot) for table_id, snapshot in rows]


def _head(row: Any) -> Head:
    return Head(
        row.table_id, row.metadata_location, row.iceberg_snapshot_id, row.schema_id, row.row_count
    )


def _pin(row: Any) -> Pin:
    said = {"snapshot_id": row.iceberg_snapshot_id, "rows": row.row_count, "since": row.valid_from}
    return made_of(Pin, row, **said)


def _row(head: Head) -> dict[str, Any]:
    return {
        "table_id": head.table_id,
        "iceberg_snapshot_id": head.snapshot_id,
        "schema_id": head.schema_id,
        "row_count": head.rows,
    }


_PIN, _TABLE, _ENVIRONMENT = schema.pins.c, schema.tables.c, schema.environments.c
_VERSION = schema.environment_versions.c
_END = schema.environment_versions.alias("the_end")
_BEFORE_END = exists().where(
    _END.c.environment == _VERSION.environment, _END.c.version >= _VERSION.version, _END.c.dropped
)
"""Versions of before an environment was dropped keep nothing, though there be one of that name."""
_KEPT = (
    schema.pins.join(schema.tables, _TABLE.table_id == _PIN.table_id)
    .join(schema.environments, _ENVIRONMENT.environment == _PIN.environment)
    .join(
        schema.environment_versions,
        (_VERSION.environment == _PIN.environment)
        & (_VERSION.version >= _PIN.valid_from)
        & (_PIN.valid_to.is_(None) | (_VERSION.version < _PIN.valid_to)),
    )
)
"""Pins with the versions that they hold for."""
_OF_LIVE = _ENVIRONMENT.live & _PIN.iceberg_snapshot_id.is_not(None) & ~_BEFORE_END


@dataclass(frozen=True, slots=True)
class PinChange:
    """A table that a version pins otherwise than the version before.

    Args:
        is_new: Whether the version before did not show the table.
        is_back: Whether one before that did, as after a rollback.
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
# Compared where they are: of a thousand tables few have other ranges than before.
_DIFFERING = """
    SELECT table_id, valid_from, now FROM (
      SELECT p.table_id, p.valid_from, p.filled, COALESCE(({now}), '') AS now
      FROM vde_pins p WHERE p.environment = :of AND p.valid_to IS NULL) found
    WHERE filled IS NULL OR filled <> now
"""
_ON_SQLITE = text(_DIFFERING.format(now=_SQLITE))
_ON_POSTGRES = text(_DIFFERING.format(now=_POSTGRES))
_FILLED = select(_PIN.table_id, _PIN.filled, _PIN.valid_from).where(OPEN)
_SAY = (
    update(schema.pins)
    .where(OPEN, _PIN.table_id == bindparam("table"))
    .values(filled=bindparam("text"))
)


def dump_filled(filled: IntervalSet) -> str:
    """Write ranges as the state has them: microseconds since 1970 (UTC), `1-2,4-9`."""
    return ",".join(f"{to_micros(one.start)}-{to_micros(one.end)}" for one in filled)


def load_filled(text: str) -> IntervalSet:
    """Read filled ranges from the form of `dump_filled`."""
    pairs = (part.rsplit("-", 1) for part in text.split(",") if part)
    return IntervalSet(
        tuple(Interval(from_micros(int(start)), from_micros(int(end))) for start, end in pairs)
    )


def pin_filled(
    connection: Connection,
    environment: str,
    version: int,
    said: Mapping[str, IntervalSet],
) -> None:
    """Write the filled ranges of a version's tables, in its publication's transaction.

    Args:
        said: By table id, what is filled once the catalog has followed; it may come later.
    """
    on_sqlite = connection.dialect.name == "sqlite"
    found: Iterable[Any] = connection.execute(
        _ON_SQLITE if on_sqlite else _ON_POSTGRES, {"of": environment}
    ).all()
    differing = {one: (since, now) for one, since, now in found if one not in said}
    of = {"of": environment}
    for table_id, before, since in among(connection, _FILLED, _PIN.table_id, said, of):
        now = dump_filled(said[table_id])
        if now != before:
            differing[table_id] = (since, now)
    _reopen(
        connection, environment, version, [o for o, (at, _) in differing.items() if at != version]
    )
    rows = [{"of": environment, "table": one, "text": now} for one, (_, now) in differing.items()]
    if rows:
        connection.execute(_SAY, rows)


def _reopen(
    connection: Connection, environment: str, version: int, table_ids: Collection[str]
) -> None:
    """Go on with pins of the same rows: what the earlier versions say of them stays."""
    kept: list[dict[str, Any]] = []
    query, of = select(schema.pins).where(OPEN), {"of": environment}
    for row in among(connection, query, _PIN.table_id, table_ids, of):
        changed = {"valid_from": version, "rows_added": None, "rows_removed": None}
        kept.append({**row._mapping, **changed})
    if kept:
        closed = [{"of": environment, "table": row["table_id"], "at": version} for row in kept]
        connection.execute(CLOSE, closed)
        connection.execute(insert(schema.pins), kept)


def restore_filled(connection: Connection, table_id: str, filled: IntervalSet) -> None:
    """Let just these ranges of a table count as filled, and nothing wait for being so."""
    for table in (schema.intervals, schema.pending):
        connection.execute(delete(table).where(table.c.table_id == table_id))
    rows = [{"table_id": table_id, "start_at": one.start, "end_at": one.end} for one in filled]
    if rows:
        connection.execute(insert(schema.intervals), rows)
