"""The versions that an environment ever had."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, exists, func, select, true, union

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import is_model, made_of
from vde_dagster.state.environments.entries import read_head, read_version, valid_at

_WITH_FIRST_VERSION = schema.entries.join(
    schema.environment_versions,
    (schema.environment_versions.c.environment == schema.entries.c.environment)
    & (schema.environment_versions.c.version == schema.entries.c.valid_from),
)
"""What environments show, with the version that showed it first."""


@dataclass(frozen=True, slots=True)
class EnvironmentVersion:
    """One line of an environment's history."""

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
    """Reading the history of environments."""

    database: Database

    def at(self, name: str, version: int) -> Environment | None:
        """Return an environment as one of its publications left it, or None when unknown."""
        with self.database.reading() as conn:
            return read_version(conn, name, version)

    def require_kept(self, connection: Connection, name: str, version: int) -> None:
        """Make sure that a version's pins are kept, and go on being so until a transaction ends.

        Who forgets the version has to wait for the transaction, and then finds what that pinned.

        Raises:
            ConflictError: The version is forgotten, or its environment was dropped.
        """
        known, head = schema.environment_versions.c, schema.environments.c
        kept = (
            select(known.version)
            .where(known.environment == name, known.version == version)
            .with_for_update()
        )
        live = select(head.live).where(head.environment == name).with_for_update()
        there = connection.execute(kept).first()
        alive = there is not None and connection.execute(live).scalar()
        if not alive or self.is_before_end(name, version, connection):
            raise ConflictError(
                f"version {version} of '{name}' is no longer kept",
                hint=f"see which are: vde history {name}",
            )

    def history(
        self, name: str, limit: int | None = None, until: int | None = None
    ) -> list[EnvironmentVersion]:
        """Return the versions of an environment, newest first."""
        last = schema.environment_versions.c.version <= until if until is not None else true()
        query = (
            select(schema.environment_versions)
            .where(schema.environment_versions.c.environment == name, last)
            .order_by(schema.environment_versions.c.version.desc())
            .limit(limit)
        )
        return [made_of(EnvironmentVersion, row) for row in self.database.rows(query)]

    def number_at(self, name: str, at: datetime) -> int | None:
        """Return the version that an environment was at, or None when it had none that is kept."""
        known = schema.environment_versions.c
        own = known.environment == name
        # What came before the first later one, also where earlier releases let instants go back.
        later = select(func.min(known.version)).where(own, known.published_at > at)
        before = known.version < func.coalesce(later.scalar_subquery(), known.version + 1)
        found: int | None = self.database.value(select(func.max(known.version)).where(own, before))
        return found

    def differing(self, name: str, version: int, *, data: bool = False) -> list[int]:
        """Return earlier versions of an environment that may show something else than a version.

        An environment that is run every hour has many versions with the very same entries: of
        such neighbours only the newest is named.
        """
        known = schema.environment_versions.c
        versions = (
            select(known.version)
            .where(known.environment == name, known.version < version)
            .order_by(known.version.desc())
        )
        # What a version shows differs from what the one before showed where an entry begins or
        # ends with it, and only there.
        parts = [
            select(version).where(table.c.environment == name, version.is_not(None))
            for table in ((schema.entries, schema.pins) if data else (schema.entries,))
            for version in (table.c.valid_from, table.c.valid_to)
        ]
        with self.database.reading() as conn:
            changed_at: list[int] = sorted(conn.execute(union(*parts)).scalars())
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
        """Return the id of the publication that made a version, or None when it is unknown."""
        known = schema.environment_versions.c
        query = select(known.publication_id).where(
            known.environment == name, known.version == version, ~known.dropped
        )
        found: str | None = self.database.value(query)
        return found

    def is_end(self, name: str, version: int) -> bool:
        """Say whether a version is the one by which an environment was dropped."""
        known = schema.environment_versions.c
        query = select(known.dropped).where(known.environment == name, known.version == version)
        return bool(self.database.value(query))

    def is_before_end(self, name: str, version: int, connection: Connection | None = None) -> bool:
        """Say whether an environment was dropped since a version: what that pinned is not kept."""
        known = schema.environment_versions.c
        query = select(known.version).where(
            known.environment == name, known.version >= version, known.dropped
        )
        return self.database.row(query.limit(1), connection) is not None

    def changed(self, name: str, version: int) -> set[ModelName]:
        """Return the models of which a version of an environment shows something new."""
        entry = schema.entries.c
        query = select(entry.model_namespace, entry.model_name).where(
            entry.environment == name, entry.valid_from == version
        )
        return {ModelName(row[0], row[1]) for row in self.database.rows(query)}

    def first_change(
        self, name: str, version: int, model: ModelName
    ) -> tuple[datetime, str | None] | None:
        """Return when (UTC), and by which plan, a model first looked otherwise after a version."""
        known, entry = schema.environment_versions.c, schema.entries.c
        query = (
            select(known.published_at, known.plan_id)
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
        """Return the version to which a plan can be applied; None once that moved on.

        It is the current one, as long as every model is served by the table and snapshot that it
        had then: runs and backfills publish versions that differ in their tables' rows alone.
        """
        with self.database.reading() as conn:
            head = read_head(conn, name)
            current = int(head.version) if head is not None and head.live else 0
            if current == base_version:
                return current
            kept = current and conn.execute(select(kept_since(name, base_version))).scalar()
        return current if kept else None

    def shown_since(self, name: str, version: int) -> dict[ModelName, datetime]:
        """Return since when (UTC) a version of an environment shows what it does, by model.

        Models are left out whose version was introduced by a publication that is forgotten.
        """
        entry, known = schema.entries.c, schema.environment_versions.c
        query = (
            select(entry.model_namespace, entry.model_name, known.published_at)
            .select_from(_WITH_FIRST_VERSION)
            .where(*valid_at(schema.entries, name, version))
        )
        return {ModelName(row[0], row[1]): row[2] for row in self.database.rows(query)}


def kept_since(
    environment: str | ColumnElement[str], version: int | ColumnElement[int]
) -> ColumnElement[bool]:
    """Return the condition that no entry of an environment was opened or closed since a version.

    Not true of a version that was forgotten: what was closed since then is forgotten, too.
    """
    entry, known = schema.entries.c, schema.environment_versions.c
    moved = exists().where(
        entry.environment == environment, (entry.valid_from > version) | (entry.valid_to > version)
    )
    kept = exists().where(known.environment == environment, known.version == version)
    return kept & ~moved
