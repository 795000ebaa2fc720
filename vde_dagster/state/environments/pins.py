"""Pins: the snapshots of an environment's tables when it was published.

A *pin* is the Iceberg snapshot of one table that one publication shows. Pins are kept by
difference: a row holds from the version that pinned it up to the version that no longer does, so
that a publication writes as many rows as tables that changed.

A *head* is what the metadata file of a table says: the snapshot that readers see, and the schema.
It is noted whenever a publication moves a table, or shows it first, so that which pins differ is
one query, and no metadata file is read for a table that stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from vde_dagster.planning.environments.environment import HeldState
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import among, chunks, made_of, upsert
from vde_dagster.state.environments.entries import valid_at
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
class Head:
    """The current snapshot of a table by its metadata file."""

    table_id: str
    location: str
    snapshot_id: int | None
    schema_id: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Growth:
    """Rows added and removed between two snapshots of a table."""

    before: int | None
    added: int | None
    removed: int | None


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
    """Reading and writing pins."""

    database: Database

    def pinned(self, connection: Connection, environment: str) -> set[str]:
        """Return the ids of the tables that an environment's last version pinned."""
        return set(connection.execute(_PINNED, {"of": environment}).scalars())

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
        growths: Mapping[str, Growth],
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
                before, growth = pinned.get(table_id), growths.get(table_id)
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
