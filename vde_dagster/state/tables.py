"""Physical tables: the ledger of everything that was ever created in the lakehouse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, select, update

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ConflictError, StoreError
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.table import PhysicalColumn, PhysicalTable, TableRef
from vde_dagster.state import schema
from vde_dagster.state.codec import dump_columns, load_columns
from vde_dagster.state.snapshots import SnapshotStore, chunks

LIVE = "live"
TOMBSTONED = "tombstoned"
DROPPING = "dropping"
DROPPED = "dropped"

# Built once: building a statement takes longer than running it.
_TABLE, _RANGE, _FILL = schema.tables.c, schema.intervals.c, schema.fills.c
_LIVE_TABLE = select(schema.tables).where(_TABLE.table_id == bindparam("of"), _TABLE.status == LIVE)
_SAME_TABLE = select(schema.tables).where(
    _TABLE.fill_version == bindparam("fill"),
    _TABLE.columns_version == bindparam("columns"),
    _TABLE.status == LIVE,
)
_STATUS = select(_TABLE.status).where(_TABLE.table_id == bindparam("of"))
_UPDATE_LIVE = update(schema.tables).where(
    _TABLE.table_id == bindparam("of"), _TABLE.status == LIVE
)
_RANGES = select(_RANGE.start_at, _RANGE.end_at).where(_RANGE.table_id == bindparam("of"))
_TOUCHING = (
    (_RANGE.table_id == bindparam("of"))
    & (_RANGE.start_at <= bindparam("of_end"))
    & (_RANGE.end_at >= bindparam("of_start"))
)
_TOUCHING_RANGES = select(_RANGE.start_at, _RANGE.end_at).where(_TOUCHING)
_DELETE_TOUCHING = delete(schema.intervals).where(_TOUCHING)
_DELETE_FILL = delete(schema.fills).where(
    _FILL.table_id == bindparam("of"),
    _FILL.start_at == bindparam("of_start"),
    _FILL.end_at == bindparam("of_end"),
    _FILL.plan_id == bindparam("of_plan"),
)


def columns_version(columns: Iterable[PhysicalColumn]) -> str:
    """Hash which values a table holds, whatever their columns are called or ordered."""
    return digest("columns", *sorted({column.version for column in columns}))


class TableStore(SnapshotStore):
    """Reading and writing physical tables and what is filled in them."""

    def ensure_table(
        self, table: PhysicalTable, connection: Connection | None = None
    ) -> PhysicalTable:
        """Register a table, or return the live one that holds the same rows and columns.

        Raises:
            ConflictError: The table's id was used before, by a table that is no longer live.
        """
        version = columns_version(table.columns)

        def work(conn: Connection) -> PhysicalTable:
            same = {"fill": table.fill_version, "columns": version}
            row = conn.execute(_SAME_TABLE, same).first()
            if row is not None:
                return self._with_ranges(conn, row)
            if conn.execute(_STATUS, {"of": table.id}).first() is not None:
                raise ConflictError(
                    f"the table {table.ref} was cleaned up or changed since the plan was made",
                    hint="plan again",
                )
            conn.execute(
                insert(schema.tables),
                {
                    "table_id": table.id,
                    "namespace": table.ref.namespace,
                    "name": table.ref.name,
                    "fill_version": table.fill_version,
                    "columns_version": version,
                    "columns": dump_columns(table.columns),
                    "snapshot_id": table.snapshot_id,
                    "created": False,
                    "status": LIVE,
                    "registered_at": self.clock.now(),
                },
            )
            return replace(table, intervals=IntervalSet(), created=False)

        return self.run(connection, work, name="state.ensure_table")

    def table(self, table_id: str, connection: Connection | None = None) -> PhysicalTable:
        """Read a live table with its filled intervals.

        Raises:
            StoreError: The table is unknown or was given up to the janitor.
        """
        with self.reading(connection) as conn:
            row = conn.execute(_LIVE_TABLE, {"of": table_id}).first()
            if row is None:
                raise _not_live(table_id)
            return self._with_ranges(conn, row)

    def tables(
        self, ids: Iterable[str], connection: Connection | None = None
    ) -> dict[str, PhysicalTable]:
        """Read live tables, with their filled intervals, by id; others are left out."""
        found: dict[str, PhysicalTable] = {}
        with self.reading(connection) as conn:
            for part in chunks(list(dict.fromkeys(ids))):
                query = select(schema.tables).where(
                    schema.tables.c.table_id.in_(part), schema.tables.c.status == LIVE
                )
                found.update((table.id, table) for table in self._read_tables(conn, query))
        return found

    def tables_by_fill(
        self, fill_versions: Iterable[str], connection: Connection | None = None
    ) -> list[PhysicalTable]:
        """Read every live table with one of the fill versions, oldest first."""
        found: list[PhysicalTable] = []
        with self.reading(connection) as conn:
            for part in chunks(list(dict.fromkeys(fill_versions))):
                query = (
                    select(schema.tables)
                    .where(schema.tables.c.fill_version.in_(part), schema.tables.c.status == LIVE)
                    .order_by(schema.tables.c.registered_at, schema.tables.c.table_id)
                )
                found.extend(self._read_tables(conn, query))
        return found

    def mark_created(
        self,
        table: PhysicalTable,
        columns: Iterable[tuple[str, str]],
        connection: Connection | None = None,
    ) -> PhysicalTable:
        """Record that a table exists in the catalog, with the types that it really has.

        Args:
            table: The table.
            columns: (name, Spark SQL type) of its columns; others than its own are ignored.
            connection: A transaction to take part in.

        Raises:
            StoreError: The table is unknown or was dropped.
        """
        types = dict(columns)

        typed = tuple(
            replace(column, type=types.get(column.name, column.type)) for column in table.columns
        )

        def work(conn: Connection) -> None:
            values = {"of": table.id, "created": True, "columns": dump_columns(typed)}
            if conn.execute(_UPDATE_LIVE, values).rowcount == 0:
                raise _not_live(table.id)

        self.run(connection, work, name="state.mark_created")
        return replace(table, columns=typed, created=True)

    def rehash_table(self, table: PhysicalTable) -> bool:
        """Store the hashes that a newer canonicaliser gives to what a table holds.

        Args:
            table: The table with its new fill version and columns' versions.

        Returns:
            False when another live table has just these hashes; then nothing is stored, and the
            other one serves from now on.
        """
        version = columns_version(table.columns)

        def work(conn: Connection) -> bool:
            known = schema.tables.c
            taken = conn.execute(
                select(known.table_id).where(
                    known.fill_version == table.fill_version,
                    known.columns_version == version,
                    known.status == LIVE,
                    known.table_id != table.id,
                )
            ).first()
            if taken is not None:
                return False
            conn.execute(
                update(schema.tables)
                .where(known.table_id == table.id)
                .values(
                    fill_version=table.fill_version,
                    columns_version=version,
                    columns=dump_columns(table.columns),
                )
            )
            return True

        return self.run_transaction(work, name="state.rehash_table")

    def record_intervals(
        self,
        table_id: str,
        interval: Interval,
        plan_id: str,
        iceberg_snapshot_id: int | None = None,
        rows: int | None = None,
        connection: Connection | None = None,
    ) -> None:
        """Record that a range of a table is filled and audited; recording it twice is harmless.

        Args:
            table_id: The table.
            interval: What was filled (UTC, half-open).
            plan_id: The plan that filled it.
            iceberg_snapshot_id: The commit that holds the rows, when there was one.
            rows: Rows in the range, when counted.
            connection: A transaction to take part in.

        Raises:
            StoreError: The table is unknown or was given up to the janitor.
        """

        def work(conn: Connection) -> None:
            status = conn.execute(_STATUS, {"of": table_id}).scalar()
            if status != LIVE:
                raise _not_live(table_id)
            start, end = interval.start, interval.end
            key = {"of": table_id, "of_start": start, "of_end": end, "of_plan": plan_id}
            conn.execute(_DELETE_FILL, key)
            conn.execute(
                insert(schema.fills),
                {
                    "table_id": table_id,
                    "start_at": start,
                    "end_at": end,
                    "plan_id": plan_id,
                    "iceberg_snapshot_id": iceberg_snapshot_id,
                    "row_count": rows,
                    "recorded_at": self.clock.now(),
                },
            )
            self._change_intervals(conn, table_id, interval, add=True)

        self.run(connection, work, name="state.record_intervals")

    def remove_intervals(
        self, table_id: str, interval: Interval, connection: Connection | None = None
    ) -> None:
        """Record that a range of a table has to be filled again."""
        self.run(
            connection,
            lambda conn: self._change_intervals(conn, table_id, interval, add=False),
            name="state.remove_intervals",
        )

    def fills(self, table_id: str) -> list[Row[Any]]:
        """Return the log of fills of a table, newest first.

        Rows have `start_at`, `end_at`, `plan_id`, `iceberg_snapshot_id`, `row_count` and
        `recorded_at`.
        """
        query = (
            select(schema.fills)
            .where(schema.fills.c.table_id == table_id)
            .order_by(schema.fills.c.recorded_at.desc(), schema.fills.c.start_at.desc())
        )
        with self.reading() as conn:
            return list(conn.execute(query))

    def _change_intervals(
        self, conn: Connection, table_id: str, interval: Interval, *, add: bool
    ) -> None:
        """Replace the stored ranges that touch the interval by their union or difference."""
        touching = {"of": table_id, "of_start": interval.start, "of_end": interval.end}
        rows = conn.execute(_TOUCHING_RANGES, touching).all()
        before = IntervalSet.of(Interval(row[0], row[1]) for row in rows)
        change = IntervalSet((interval,))
        after = before | change if add else before - change
        if after == before:
            return
        conn.execute(_DELETE_TOUCHING, touching)
        if after:
            conn.execute(
                insert(schema.intervals),
                [
                    {"table_id": table_id, "start_at": part.start, "end_at": part.end}
                    for part in after
                ],
            )

    def require_live(self, connection: Connection, ids: Iterable[str]) -> None:
        """Make sure, inside a commit's transaction, that the janitor gave up none of the tables.

        Raises:
            ConflictError: It did.
        """
        table = schema.tables.c
        wanted = sorted(set(ids))
        live: set[str] = set()
        for part in chunks(wanted):
            query = select(table.table_id).where(table.table_id.in_(part), table.status == LIVE)
            if not self.is_sqlite:
                query = query.with_for_update(read=True)
            live.update(connection.execute(query).scalars())
        gone = [table_id for table_id in wanted if table_id not in live]
        if gone:
            raise ConflictError(
                f"{len(gone)} of the tables to publish were cleaned up: {', '.join(gone[:5])}",
                hint="plan again",
            )

    def _with_ranges(self, conn: Connection, row: Row[Any]) -> PhysicalTable:
        ranges = conn.execute(_RANGES, {"of": row.table_id})
        return _table(row, [(found[0], found[1]) for found in ranges])

    def _read_tables(self, conn: Connection, query: Select[Any]) -> list[PhysicalTable]:
        rows = conn.execute(query).all()
        filled = self._read_intervals(conn, [row.table_id for row in rows])
        return [_table(row, filled.get(row.table_id, [])) for row in rows]

    def _read_intervals(
        self, conn: Connection, ids: Sequence[str]
    ) -> dict[str, list[tuple[datetime, datetime]]]:
        table = schema.intervals.c
        found: dict[str, list[tuple[datetime, datetime]]] = {}
        for part in chunks(ids):
            query = select(table.table_id, table.start_at, table.end_at)
            for row in conn.execute(query.where(table.table_id.in_(part))):
                found.setdefault(row[0], []).append((row[1], row[2]))
        return found


def _not_live(table_id: str) -> StoreError:
    return StoreError(
        f"the state store has no live table {table_id}",
        hint="the janitor may have dropped it meanwhile: plan again",
    )


def _table(row: Row[Any], ranges: list[tuple[datetime, datetime]]) -> PhysicalTable:
    return PhysicalTable(
        id=row.table_id,
        ref=TableRef(row.namespace, row.name),
        fill_version=row.fill_version,
        columns=load_columns(row.columns),
        snapshot_id=row.snapshot_id,
        intervals=IntervalSet.of(Interval(start, end) for start, end in ranges),
        created=row.created,
    )
