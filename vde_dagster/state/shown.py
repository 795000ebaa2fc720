"""What the current versions of all environments show, asked without reading their entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, exists, func, select

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environment import Entry
from vde_dagster.state import schema
from vde_dagster.state.snapshots import chunks
from vde_dagster.state.tables import TableStore

_SHOWING = (
    select(schema.entries.c.environment)
    .where(schema.entries.c.table_id == bindparam("of"), schema.entries.c.valid_to.is_(None))
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class EnvironmentSummary:
    """What is known of an environment without reading its entries.

    Args:
        name: The environment's name.
        version: Counts publications, from 1.
        models: How many models it has.
        published_at: When (UTC).
        published_by: Who.
        plan_id: The plan that was applied, or None for a rollback.
        expires_at: When the janitor may drop it (UTC), or None for never.
        note: Text for people.
    """

    name: str
    version: int
    models: int
    published_at: datetime
    published_by: str
    plan_id: str | None
    expires_at: datetime | None
    note: str


class ShownStore(TableStore):
    """Asking which environments there are, and which of them show what."""

    def environment_names(self) -> list[str]:
        """Return the name of every environment that there is now, in order."""
        table = schema.environments.c
        query = select(table.environment).where(table.live).order_by(table.environment)
        with self.reading() as conn:
            return list(conn.execute(query).scalars())

    def environment_summaries(self) -> list[EnvironmentSummary]:
        """Return what is known of every environment without its entries, by name."""
        head, version, entry = (
            schema.environments.c,
            schema.environment_versions.c,
            schema.entries.c,
        )
        models = (
            select(func.count())
            .where(entry.environment == head.environment, entry.valid_to.is_(None))
            .scalar_subquery()
            .label("models")
        )
        query = (
            select(
                head.environment,
                head.version,
                models,
                version.published_at,
                version.published_by,
                version.plan_id,
                head.expires_at,
                version.note,
            )
            .join_from(
                schema.environments,
                schema.environment_versions,
                (version.environment == head.environment) & (version.version == head.version),
            )
            .where(head.live)
            .order_by(head.environment)
        )
        with self.reading() as conn:
            return [
                EnvironmentSummary(
                    name=row.environment,
                    version=row.version,
                    models=row.models,
                    published_at=row.published_at,
                    published_by=row.published_by,
                    plan_id=row.plan_id,
                    expires_at=row.expires_at,
                    note=row.note,
                )
                for row in conn.execute(query)
            ]

    def environments_showing(self, snapshot_id: str) -> list[str]:
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
        with self.reading() as conn:
            return list(conn.execute(query).scalars())

    def is_shown(self, connection: Connection, table_id: str) -> bool:
        """Say whether the current version of any environment shows a table."""
        return connection.execute(_SHOWING, {"of": table_id}).first() is not None

    def shown_tables(self, ids: Iterable[str]) -> frozenset[str]:
        """Return those of some tables that the current version of any environment shows."""
        entry = schema.entries.c
        shown: set[str] = set()
        with self.reading() as conn:
            for part in chunks(list(dict.fromkeys(ids))):
                query = select(entry.table_id).where(
                    entry.table_id.in_(part), entry.valid_to.is_(None)
                )
                shown.update(conn.execute(query.distinct()).scalars())
        return frozenset(shown)

    def all_shown_tables(self) -> list[str]:
        """Return the tables that the current version of any environment shows, in order."""
        entry = schema.entries.c
        query = (
            select(entry.table_id)
            .where(entry.table_id.is_not(None), entry.valid_to.is_(None))
            .distinct()
            .order_by(entry.table_id)
        )
        with self.reading() as conn:
            return list(conn.execute(query).scalars())

    def showing(self, table_ids: Iterable[str]) -> list[tuple[str, Entry]]:
        """Return what environments show by some tables now, by environment and model."""
        entry, head = schema.entries.c, schema.environments.c
        found: list[tuple[str, Entry]] = []
        with self.reading() as conn:
            for part in chunks(list(table_ids)):
                query = (
                    select(
                        entry.environment,
                        entry.model_namespace,
                        entry.model_name,
                        entry.snapshot_id,
                        entry.table_id,
                    )
                    .join_from(
                        schema.entries,
                        schema.environments,
                        head.environment == entry.environment,
                    )
                    .where(head.live, entry.table_id.in_(part), entry.valid_to.is_(None))
                )
                found.extend(
                    (row[0], Entry(ModelName(row[1], row[2]), row[3], row[4]))
                    for row in conn.execute(query)
                )
        return sorted(found, key=lambda item: (item[0], item[1].name))
