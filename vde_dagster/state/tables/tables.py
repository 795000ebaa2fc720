"""Physical tables: the ledger of all tables that were created in the lakehouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.table_contents import load_parent_gaps
from vde_dagster.planning.tables.table import (
    PREVIEW_PREFIX,
    Part,
    PhysicalColumn,
    PhysicalTable,
    TableRef,
)
from vde_dagster.state.db import schema
from vde_dagster.state.db.codec import dump_columns, load_columns
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.guards.write_views import writes_by_views
from vde_dagster.state.db.leases import LeaseStore
from vde_dagster.state.db.log import record
from vde_dagster.state.db.outbox import add_record
from vde_dagster.state.db.rights import has_right
from vde_dagster.state.db.rows import among, is_model, ranges_by_key, valid_at, value_from_row
from vde_dagster.state.tables.noted_ranges import note_ranges, read_parts

LIVE = "live"
TOMBSTONED = "tombstoned"
DROPPING = "dropping"
DROPPED = "dropped"

# Built once: building a statement takes longer than running it.
_TABLE, _RANGE = schema.tables.c, schema.intervals.c
_LIVE = sa.select(schema.tables).where(_TABLE.status == LIVE)
_LIVE_IDS = sa.select(_TABLE.table_id).where(_TABLE.status == LIVE)
_OLDEST_FIRST = _LIVE.order_by(_TABLE.registered_at, _TABLE.table_id)
_LIVE_TABLE = _LIVE.where(_TABLE.table_id == sa.bindparam("of"))
_SAME_TABLE = _LIVE.where(
    _TABLE.fill_version == sa.bindparam("fill"), _TABLE.columns_version == sa.bindparam("columns")
)
STATUS = sa.select(_TABLE.status).where(_TABLE.table_id == sa.bindparam("of"))
_UPDATE_LIVE = sa.update(schema.tables).where(
    _TABLE.table_id == sa.bindparam("of"), _TABLE.status == LIVE
)
_RANGES = sa.select(_RANGE.table_id, _RANGE.start_at, _RANGE.end_at)
_FILL = schema.fills.c
_NEWER = schema.fills.alias("newer")
# In the order of an index, so that the first one that counts is found at once.
_NEWEST = (
    sa.select(_NEWER.c.recorded_at)
    .where(_NEWER.c.table_id == _TABLE.table_id, _NEWER.c.undone.is_not(True))
    .order_by(_NEWER.c.recorded_at.desc())
    .limit(1)
    .correlate(schema.tables)
    .scalar_subquery()
)
_PARENT_GAPS = sa.select(_FILL.table_id, _FILL.lacks).where(
    _FILL.table_id == _TABLE.table_id,
    _FILL.recorded_at == _NEWEST,
    _FILL.lacks.is_not(None),
    _FILL.undone.is_not(True),
)


def _grown(column: PhysicalColumn, other: PhysicalColumn) -> PhysicalColumn:
    return other if len(other.fields) > len(column.fields) else column


def columns_version(columns: Iterable[PhysicalColumn]) -> str:
    """Hash the columns of a table, independent of their names and order."""
    return digest("columns", *sorted({column.version for column in columns}))


def content_version(table: PhysicalTable) -> str:
    """Hash a table's columns and origin, to tell live tables of the same fill version apart."""
    if table.mixed:
        # Several definitions filled this table, so its hash must be unique.
        return digest("mixed", table.id)
    version = columns_version(column for column in table.columns if not column.in_place)
    return digest("from", version, *table.computed_from) if table.computed_from else version


@dataclass(frozen=True, slots=True)
class TableStore:
    database: Database

    def mislabeled(self) -> Iterator[tuple[PhysicalTable, str]]:
        """Yield the live tables whose columns do not match their stored hash, with the reason."""
        with self.database.reading() as conn:
            rows = list(conn.execute(sa.select(schema.tables).where(_TABLE.status == LIVE)))
            for row, table in zip(rows, _read_tables(conn, rows), strict=True):
                if row.columns_version != content_version(table):
                    yield table, "its columns do not match their stored hash"

    def ensure(
        self, table: PhysicalTable, connection: sa.Connection | None = None
    ) -> PhysicalTable:
        """Store a new table, or return the stored table with the same rows and columns.

        Raises:
            ConflictError: The id belongs to a table that was cleaned up or changed since the plan.
        """
        version = content_version(table)

        def work(conn: sa.Connection) -> PhysicalTable:
            same = {"fill": table.fill_version, "columns": version}
            row = conn.execute(_SAME_TABLE, same).first()
            if row is not None:
                there = _read_tables(conn, [row])[0]
                if content_version(there) != version:
                    raise _mislabeled(there)
                return there
            if conn.execute(STATUS, {"of": table.id}).first() is not None:
                raise ConflictError(
                    f"the table {table.ref} was cleaned up or changed since the plan was made",
                    hint="plan again: vde plan ENV",
                )
            conn.execute(
                sa.insert(schema.tables),
                {
                    "table_id": table.id,
                    "namespace": table.ref.namespace,
                    "name": _place(table),
                    "fill_version": table.fill_version,
                    "columns_version": version,
                    "columns": dump_columns(table),
                    "snapshot_id": table.snapshot_id,
                    "created": False,
                    "status": LIVE,
                    "registered_at": self.database.clock.now(),
                },
            )
            return replace(table, intervals=IntervalSet(), created=False)

        return self.database.run(connection, work, name="state.ensure_table")

    def ensure_all(self, tables: Iterable[PhysicalTable]) -> dict[str, PhysicalTable]:
        listed = list(tables)
        return self.database.run_transaction(
            lambda conn: {table.id: self.ensure(table, conn) for table in listed},
            name="state.ensure_tables",
        )

    def get(self, table_id: str, connection: sa.Connection | None = None) -> PhysicalTable:
        """Read a live table with its filled ranges.

        Raises:
            StoreError: The table is unknown, or the janitor has marked it for deletion.
        """
        with self.database.reading(connection) as conn:
            row = conn.execute(_LIVE_TABLE, {"of": table_id}).first()
            if row is None:
                raise not_live(table_id)
            return _read_tables(conn, [row])[0]

    def load(
        self, ids: Iterable[str], connection: sa.Connection | None = None
    ) -> dict[str, PhysicalTable]:
        """Read live tables with their filled ranges, by id. Other ids are left out."""
        with self.database.reading(connection) as conn:
            found = _read_tables(conn, among(conn, _LIVE, _TABLE.table_id, ids))
        return {table.id: table for table in found}

    def live(self, connection: sa.Connection) -> dict[str, PhysicalTable]:
        return {table.id: table for table in _read_tables(connection, connection.execute(_LIVE))}

    def with_fill_versions(self, fill_versions: Iterable[str]) -> list[PhysicalTable]:
        """Read the live tables with one of the given fill versions, oldest first."""
        with self.database.reading() as conn:
            rows = among(conn, _OLDEST_FIRST, _TABLE.fill_version, fill_versions)
            return _read_tables(conn, rows)

    def own_tables(self, name: ModelName) -> list[PhysicalTable]:
        """Read the live tables of a model, oldest first, without preview branches."""
        snapshot = schema.snapshots.c
        query = (
            _LIVE.join(schema.snapshots, snapshot.snapshot_id == _TABLE.snapshot_id)
            .where(is_model(schema.snapshots, name), _TABLE.created)
            .order_by(_TABLE.registered_at, _TABLE.table_id)
        )
        with self.database.reading() as conn:
            found = _read_tables(conn, conn.execute(query))
        return [table for table in found if table.preview is None]

    def mark_created(
        self, table: PhysicalTable, columns: Iterable[tuple[str, str]]
    ) -> PhysicalTable:
        """Record that a table was created in the catalog, with its column types."""
        types = dict(columns)
        typed = tuple(
            column._replace(type=types.get(column.name, column.type)) for column in table.columns
        )
        created = replace(table, columns=typed, created=True)
        self.database.run_transaction(
            lambda conn: _update(conn, created, created=True), name="state.mark_created"
        )
        return created

    def add_columns(
        self, connection: sa.Connection, table_id: str, columns: Iterable[PhysicalColumn]
    ) -> None:
        """Record the columns and nested fields that were added to a table in the catalog."""
        known = self.get(table_id, connection)
        given = {column.name: column for column in columns}
        kept = (_grown(column, given.pop(column.name, column)) for column in known.columns)
        _update(connection, replace(known, columns=(*kept, *given.values())))

    def branch_off(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Store a new preview branch in the transaction that creates the branch in Iceberg."""
        assert table.preview is not None
        base = self.get(table.preview.of, connection)
        # The preview fills partly filled units itself.
        inherited = base.with_ranges_for_unit(IntervalUnit.FIVE_MINUTE).intervals
        preview = replace(table.preview, inherited=inherited)
        _update(connection, replace(table, preview=preview, created=True), created=True)

    def note_parts(self, parts: Iterable[tuple[str, Part]]) -> None:
        """Record partly filled intervals of tables before they are filled."""
        listed, since = list(parts), self.database.clock.now()

        def work(conn: sa.Connection) -> None:
            for table_id, (interval, unit) in listed:
                note_ranges(conn, schema.parts, table_id, [(interval, unit.name)], since)

        if listed:
            self.database.run_transaction(work, name="state.note_parts")

    def disinherit(self, connection: sa.Connection, table_id: str, intervals: IntervalSet) -> None:
        """Remove ranges that a preview took over from `main`. Does nothing for other tables."""
        known = self.load([table_id], connection).get(table_id)
        if known is None or known.preview is None:
            return
        inherited = known.preview.inherited - intervals
        _update(connection, replace(known, preview=replace(known.preview, inherited=inherited)))

    def deploy(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Record, when publishing, that a new definition of the model fills a table from now on."""
        known = self.get(table.id, connection)
        there = {column.name: column for column in known.columns}
        own = [_grown(column, there.pop(column.name, column)) for column in table.columns]
        changed = replace(
            known, columns=(*own, *there.values()), snapshot_id=table.snapshot_id, mixed=True
        )
        _update(
            connection,
            changed,
            columns_version=content_version(changed),
            snapshot_id=changed.snapshot_id,
        )

    def rehash(self, table: PhysicalTable) -> bool:
        """Store a table's new hashes. Returns False if another live table has the same hashes."""
        version = content_version(table)

        def work(conn: sa.Connection) -> bool:
            same = {"fill": table.fill_version, "columns": version}
            others = _SAME_TABLE.where(_TABLE.table_id != table.id)
            if conn.execute(others, same).first() is not None:
                return False
            if writes_by_views(conn) and not has_right(conn, "publish"):
                return True  # The next plan of a login that may publish stores them.
            conn.execute(
                sa.update(schema.tables)
                .where(_TABLE.table_id == table.id)
                .values(
                    fill_version=table.fill_version,
                    columns_version=version,
                    columns=dump_columns(table),
                )
            )
            return True

        return self.database.run_transaction(work, name="state.rehash_table")

    def require_live(self, connection: sa.Connection, ids: Iterable[str]) -> None:
        """Raise ConflictError if the janitor has marked one of the tables for deletion."""
        query = _LIVE_IDS
        if not self.database.is_sqlite and not writes_by_views(connection):
            query = query.with_for_update(read=True)
        wanted = sorted(set(ids))
        live = {row.table_id for row in among(connection, query, _TABLE.table_id, wanted)}
        gone = [table_id for table_id in wanted if table_id not in live]
        if gone:
            raise ConflictError(
                f"{len(gone)} of the tables to publish were cleaned up: {', '.join(gone[:5])}",
                hint="plan again: vde plan ENV",
            )


def _mislabeled(table: PhysicalTable) -> StoreError:
    return StoreError(
        f"the row of the table {table.ref} does not match the stored hash of its columns: a "
        "program other than vde wrote it",
        hint="`vde fsck` lists all rows that other programs wrote; delete these rows as "
        "the owner of the state's tables",
    )


def not_live(table_id: str) -> StoreError:
    """Build the error for a table that is unknown, or that the janitor has marked for deletion."""
    return StoreError(
        f"the state store has no live table {table_id}",
        hint="the janitor may have dropped the table meanwhile. Plan again: vde plan ENV",
    )


def _update(conn: sa.Connection, table: PhysicalTable, **values: Any) -> None:
    stored = {"of": table.id, "columns": dump_columns(table), **values}
    if conn.execute(_UPDATE_LIVE, stored).rowcount == 0:
        raise not_live(table.id)


def _read_tables(conn: sa.Connection, rows: Iterable[sa.Row[Any]]) -> list[PhysicalTable]:
    rows = list(rows)
    ids = [row.table_id for row in rows]
    filled, parts = filled_ranges(conn, ids), read_parts(conn, ids)
    lacks = among(conn, _PARENT_GAPS, _TABLE.table_id, ids)
    missing = {row.table_id: load_parent_gaps(row.lacks) for row in lacks}
    found = []
    for row, key in zip(rows, ids, strict=True):
        stored = load_columns(row.columns)
        table = PhysicalTable(
            id=key,
            ref=TableRef(row.namespace, parse_place(row.name)[0]),
            fill_version=row.fill_version,
            columns=stored.columns,
            snapshot_id=row.snapshot_id,
            intervals=filled.get(key, IntervalSet()),
            created=row.created,
            preview=stored.preview,
            computed_from=stored.computed_from,
            mixed=stored.mixed,
            lacks=missing.get(key, {}),
            parts=parts.get(key, ()),
        )
        found.append(table)
    return found


def filled_ranges(conn: sa.Connection, ids: Iterable[str]) -> dict[str, IntervalSet]:
    """Return the filled ranges of tables, by id. Tables without ranges are left out."""
    return ranges_by_key(among(conn, _RANGES, _RANGE.table_id, ids))


def _place(table: PhysicalTable) -> str:
    return table.ref.name if table.branch is None else f"{table.ref.name}@{table.branch}"


def parse_place(name: str) -> tuple[str, str | None]:
    """Split a stored table name into the table's name and the preview's branch, if any."""
    own, _, rest = name.rpartition(f"@{PREVIEW_PREFIX}")
    return (own, f"{PREVIEW_PREFIX}{rest}") if own else (name, None)


_ENTRY = schema.entries.c
_SHOWING = (
    sa.select(_ENTRY.environment)
    .where(_ENTRY.table_id == sa.bindparam("of"), _ENTRY.valid_to.is_(None))
    .limit(1)
)


def is_shown(connection: sa.Connection, table_id: str) -> bool:
    """Check whether the current version of any environment shows a table."""
    return connection.execute(_SHOWING, {"of": table_id}).first() is not None


_VERSION, _END = schema.environment_versions.c, schema.environment_versions.alias("the_end")
# Versions from before the end of an environment keep nothing.
BEFORE_END = sa.exists().where(
    _END.c.environment == _VERSION.environment, _END.c.version >= _VERSION.version, _END.c.dropped
)
"""Condition that the environment was dropped in this version or in a later one."""
_KEPT_VERSION = sa.exists().where(
    *valid_at(schema.entries, _VERSION.environment, _VERSION.version), ~BEFORE_END
)
_REACHED = (
    sa.union_all(
        sa.select(sa.literal(1)).where(
            _ENTRY.table_id == sa.bindparam("of"), _ENTRY.valid_to.is_(None)
        ),
        sa.select(sa.literal(1)).where(
            _ENTRY.table_id == sa.bindparam("of"),
            _ENTRY.environment == schema.environments.c.environment,
            schema.environments.c.live,
            _KEPT_VERSION,
        ),
        sa.select(sa.literal(1)).where(schema.pending.c.table_id == sa.bindparam("of")),
    )
).limit(1)


def is_reached(connection: sa.Connection, table_id: str) -> bool:
    """Check whether a kept version shows a table, or fills of the table wait for a publication."""
    return connection.execute(_REACHED, {"of": table_id}).first() is not None


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """Record of a physical table or preview branch, with its status."""

    id: str
    ref: TableRef
    status: str
    created: bool
    location: str | None
    tombstoned_at: datetime | None
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerStore:
    """Reads the records of physical tables of any status, and records their deletion."""

    database: Database
    leases: LeaseStore

    def tables(
        self, statuses: Iterable[str] = (LIVE,), connection: sa.Connection | None = None
    ) -> list[LedgerTable]:
        """Return the physical tables with one of the statuses, oldest first."""
        query = (
            sa.select(schema.tables)
            .where(_TABLE.status.in_(list(statuses)))
            .order_by(_TABLE.registered_at, _TABLE.namespace, _TABLE.name)
        )
        found = []
        for row in self.database.rows(query, connection):
            name, branch = parse_place(row.name)
            ref = TableRef(row.namespace, name)
            found.append(value_from_row(LedgerTable, row, id=row.table_id, ref=ref, branch=branch))
        return found

    def places(self, table_ids: Iterable[str]) -> dict[str, TableRef]:
        """Look up the names of tables by id, without preview branches."""
        query = sa.select(_TABLE.table_id, _TABLE.namespace, _TABLE.name)
        found = {}
        for row in self.database.among(query, _TABLE.table_id, sorted(set(table_ids))):
            name, branch = parse_place(row.name)
            if branch is None:
                found[row.table_id] = TableRef(row.namespace, name)
        return found

    def start_dropping(
        self, connection: sa.Connection, table_id: str, location: str | None
    ) -> bool:
        """Reserve a tombstoned table for deletion. Returns False if it is reached or leased."""
        if is_reached(connection, table_id) or table_id in self.leases.tables(connection):
            return False
        changed = connection.execute(
            sa.update(schema.tables)
            .where(
                schema.tables.c.table_id == table_id,
                schema.tables.c.status.in_((TOMBSTONED, DROPPING)),
            )
            .values(status=DROPPING, location=location)
        )
        return changed.rowcount == 1

    def finish_dropping(self, table_id: str) -> None:
        """Record that a table was deleted. Its id and name are never used again."""

        def work(conn: sa.Connection) -> None:
            of_it = schema.tables.c.table_id == table_id
            changed = conn.execute(
                sa.update(schema.tables)
                .where(of_it, schema.tables.c.status == DROPPING)
                .values(status=DROPPED)
            )
            if changed.rowcount:
                one = conn.execute(
                    sa.select(_TABLE.namespace, _TABLE.name, _TABLE.location).where(of_it)
                ).one()
                about = {"table": table_id, "name": f"{one.namespace}.{one.name}"}
                add_record(self.database, conn, "dropped", **about, location=one.location)
                record(self.database, conn, "remove", who="janitor", detail=about)
            for table in (
                schema.intervals,
                schema.fills,
                schema.outdated,
                schema.parts,
                schema.heads,
            ):
                conn.execute(sa.delete(table).where(table.c.table_id == table_id))

        self.database.run_transaction(work, name="janitor.dropped")
