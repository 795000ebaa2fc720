"""What the current versions of all environments show, asked without reading their entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, exists, select

from vde_dagster.planning.environment import Entry
from vde_dagster.planning.table import PREVIEW_PREFIX
from vde_dagster.state import schema
from vde_dagster.state.database import Database
from vde_dagster.state.entries import ENTRY, entry_of
from vde_dagster.state.rows import chunks

_SHOWING = (
    select(schema.entries.c.environment)
    .where(schema.entries.c.table_id == bindparam("of"), schema.entries.c.valid_to.is_(None))
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class ShownStore:
    """Asking which environments show what.

    Args:
        database: Where that is.
    """

    database: Database

    def environments_of(self, snapshot_id: str) -> list[str]:
        """Return the names of the environments whose current version shows a snapshot."""
        entry, head = schema.entries.c, schema.environments.c
        query = (
            select(head.environment)
            .where(
                head.live,
                exists().where(
                    entry.environment == head.environment,
                    entry.valid_to.is_(None),
                    entry.snapshot_id == snapshot_id,
                ),
            )
            .order_by(head.environment)
        )
        with self.database.reading() as conn:
            return list(conn.execute(query).scalars())

    def is_shown(self, connection: Connection, table_id: str) -> bool:
        """Say whether the current version of any environment shows a table."""
        return connection.execute(_SHOWING, {"of": table_id}).first() is not None

    def shown_by(
        self, connection: Connection, environment: str, ids: Iterable[str]
    ) -> frozenset[str]:
        """Return those of some tables that an environment's current version shows."""
        entry = schema.entries.c
        found: set[str] = set()
        for part in chunks(list(dict.fromkeys(ids))):
            query = select(entry.table_id).where(
                entry.environment == environment,
                entry.table_id.in_(part),
                entry.valid_to.is_(None),
            )
            found.update(connection.execute(query).scalars())
        return frozenset(found)

    def others(
        self, environment: str, ids: Iterable[str], connection: Connection | None = None
    ) -> dict[str, set[str]]:
        """Return by table id which other environments show some tables as they are now.

        Those that hold a table at an earlier state are left out: it may be anywhere.
        """
        entry = schema.entries.c
        found: dict[str, set[str]] = {}
        with self.database.reading(connection) as conn:
            for part in chunks(list(dict.fromkeys(ids))):
                query = select(entry.table_id, entry.environment).where(
                    entry.environment != environment,
                    entry.table_id.in_(part),
                    entry.valid_to.is_(None),
                    entry.held_schema_id.is_(None),
                )
                rows: Iterable[Any] = conn.execute(query)
                for table_id, name in rows:
                    found.setdefault(table_id, set()).add(name)
        return found

    def among(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of some tables that the current version of any environment shows."""
        entry = schema.entries.c
        shown: set[str] = set()
        with self.database.reading() as conn:
            for part in chunks(list(dict.fromkeys(ids))):
                query = select(entry.table_id).where(
                    entry.table_id.in_(part), entry.valid_to.is_(None)
                )
                shown.update(conn.execute(query.distinct()).scalars())
        return frozenset(shown)

    def tables(self, connection: Connection | None = None) -> list[str]:
        """Return the tables that the current version of any environment shows, in order."""
        entry = schema.entries.c
        query = (
            select(entry.table_id)
            .where(entry.table_id.is_not(None), entry.valid_to.is_(None))
            .distinct()
            .order_by(entry.table_id)
        )
        with self.database.reading(connection) as conn:
            return list(conn.execute(query).scalars())

    def previews(self) -> list[tuple[str, Entry]]:
        """Return what environments show on branches of production's tables, by environment."""
        table = schema.tables.c
        query = select(table.table_id).where(
            table.name.contains(f"@{PREVIEW_PREFIX}", autoescape=True), table.status == "live"
        )
        with self.database.reading() as conn:
            ids: list[str] = list(conn.execute(query).scalars())
        # What is held is a branch as it was: nobody tries anything on it any more.
        return [found for found in self.entries_of(ids) if found[1].held is None]

    def entries_of(self, table_ids: Iterable[str]) -> list[tuple[str, Entry]]:
        """Return what environments show by some tables now, by environment and model."""
        entry, head = schema.entries.c, schema.environments.c
        found: list[tuple[str, Entry]] = []
        with self.database.reading() as conn:
            for part in chunks(list(table_ids)):
                query = (
                    select(entry.environment, *ENTRY)
                    .join_from(
                        schema.entries,
                        schema.environments,
                        head.environment == entry.environment,
                    )
                    .where(head.live, entry.table_id.in_(part), entry.valid_to.is_(None))
                )
                found.extend((row.environment, entry_of(row)) for row in conn.execute(query))
        return sorted(found, key=lambda item: (item[0], item[1].name))
