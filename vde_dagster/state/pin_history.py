"""What pins say together: what versions keep of a table, and what each changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, func, select

from vde_dagster.base.names import ModelName
from vde_dagster.planning.table import PREVIEW_PREFIX, TableRef
from vde_dagster.state import schema
from vde_dagster.state.database import Database

_PIN, _TABLE, _HEAD = schema.pins.c, schema.tables.c, schema.environments.c
_VERSION = schema.environment_versions.c
_END = schema.environment_versions.alias("the_end")
_BEFORE_END = exists().where(
    _END.c.environment == _VERSION.environment, _END.c.version >= _VERSION.version, _END.c.dropped
)
"""Versions of before an environment was dropped keep nothing, though there be one of that name."""
_KEPT = (
    schema.pins.join(schema.tables, _TABLE.table_id == _PIN.table_id)
    .join(schema.environments, _HEAD.environment == _PIN.environment)
    .join(
        schema.environment_versions,
        (_VERSION.environment == _PIN.environment)
        & (_VERSION.version >= _PIN.valid_from)
        & (_PIN.valid_to.is_(None) | (_VERSION.version < _PIN.valid_to)),
    )
)
"""Pins with the versions that they hold for."""
_LIVE = _HEAD.live & _PIN.iceberg_snapshot_id.is_not(None) & ~_BEFORE_END


@dataclass(frozen=True, slots=True)
class PinChange:
    """A table that a version pins otherwise than the version before.

    Args:
        version: The version.
        table_id: The physical table.
        snapshot_id: The Iceberg snapshot that it pins; None for a table without any.
        rows: Rows in it, when known.
        is_new: Whether the version before did not show the table.
        is_back: Whether one before that did, as after a rollback.
        before: The snapshot that was pinned before.
        added: Rows that were added since, when known.
        removed: Rows that were removed since, when known.
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


@dataclass(frozen=True, slots=True)
class PinHistory:
    """Reading the pins of many versions.

    Args:
        database: Where they are.
    """

    database: Database

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
        with self.database.reading() as conn:
            rows = conn.execute(query).all()
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
        with self.database.reading() as conn:
            return set(conn.execute(query).scalars())

    def models(
        self, environment: str, table_ids: Collection[str]
    ) -> list[tuple[str, int, int | None, ModelName]]:
        """Return (table, first version, first version without it, model) of what showed tables."""
        entry = schema.entries.c
        name = (entry.model_namespace, entry.model_name)
        query = select(entry.table_id, entry.valid_from, entry.valid_to, *name).where(
            entry.environment == environment, entry.table_id.is_not(None)
        )
        with self.database.reading() as conn:
            return [
                (row[0], row[1], row[2], ModelName(row[3], row[4]))
                for row in conn.execute(query.order_by(*name))
                if row[0] in table_ids
            ]

    def kept(
        self, ref: TableRef, forgotten: Collection[tuple[str, int]] = ()
    ) -> dict[int, list[tuple[str, int, int]]]:
        """Return the Iceberg snapshots of a table that versions of live environments pin.

        Args:
            ref: The table's place, which previews of it share.
            forgotten: (environment, version) that are about to be forgotten.

        Returns:
            By snapshot (environment, first version, last version) of those that pin it.
        """
        preview = _TABLE.name.startswith(f"{ref.name}@{PREVIEW_PREFIX}", autoescape=True)
        versions = (
            select(_PIN.iceberg_snapshot_id, _PIN.environment, _VERSION.version)
            .select_from(_KEPT)
            .where(
                _LIVE,
                _TABLE.namespace == ref.namespace,
                (_TABLE.name == ref.name) | preview,
            )
            .order_by(_PIN.environment, _VERSION.version)
        )
        found: dict[int, dict[str, list[int]]] = {}
        with self.database.reading() as conn:
            rows: Iterable[Any] = conn.execute(versions)
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
                    schema.environments, _HEAD.environment == _PIN.environment
                ).outerjoin(ends, ends.c.environment == _PIN.environment)
            )
            .where(
                _HEAD.live,
                _PIN.iceberg_snapshot_id.is_not(None),
                _PIN.valid_to.is_(None) | of_kept,
            )
            .distinct()
        )
        rows: Iterable[Any] = connection.execute(query)
        return [(table_id, snapshot) for table_id, snapshot in rows]
