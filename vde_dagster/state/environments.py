"""Environments with every version they ever had, stored as what changed between versions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarResult,
    bindparam,
    exists,
    insert,
    select,
    union,
    update,
)

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.environment import PRODUCTION, Entry, Environment
from vde_dagster.planning.interval import iso
from vde_dagster.state import schema
from vde_dagster.state.shown import ShownStore


@dataclass(frozen=True, slots=True)
class EnvironmentVersion:
    """One line of an environment's history.

    Args:
        environment: The environment.
        version: Counts publications, from 1; goes on counting after a drop.
        publication_id: The publication that made it.
        plan_id: The plan that was applied, or None.
        published_at: When (UTC).
        published_by: Who.
        note: Text for people.
        added: Models that the version before had not.
        changed: Models with another snapshot or table than before.
        removed: Models that only the version before had.
        dropped: Whether this version is the end of the environment.
    """

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


class EnvironmentStore(ShownStore):
    """Reading and writing environments."""

    def environment(self, name: str, connection: Connection | None = None) -> Environment | None:
        """Return the environment as it is published now, or None when there is none."""
        with self.reading(connection) as conn:
            head = self._head(conn, name)
            if head is None or not head.live:
                return None
            found = self._version(conn, name, head.version)
        return replace(found, expires_at=head.expires_at) if found else None

    def environments(self) -> list[Environment]:
        """Return every environment as it is published now, by name."""
        with self.reading() as conn:
            names: ScalarResult[Any] = conn.execute(
                select(schema.environments.c.environment)
                .where(schema.environments.c.live)
                .order_by(schema.environments.c.environment)
            ).scalars()
            found = [self.environment(str(name), conn) for name in names.all()]
        return [environment for environment in found if environment is not None]

    def has_environment(self, name: str) -> bool:
        """Say whether there is an environment now."""
        with self.reading() as conn:
            head = self._head(conn, name)
        return head is not None and bool(head.live)

    def environment_at(self, name: str, version: int) -> Environment | None:
        """Return an environment as one of its publications left it, or None when unknown."""
        with self.reading() as conn:
            return self._version(conn, name, version)

    def differing_versions(self, name: str, version: int) -> list[int]:
        """Return earlier versions of an environment that may show something else than a version.

        An environment that is run every hour has many versions with the very same entries: of
        such neighbours only the newest is named.

        Args:
            name: The environment.
            version: The version, which is in the history.

        Returns:
            Versions of the history, newest first; two of them may be equal, neighbours are not.
        """
        known, entry = schema.environment_versions.c, schema.entries.c
        versions = (
            select(known.version)
            .where(known.environment == name, known.version < version)
            .order_by(known.version.desc())
        )
        # What a version shows differs from what the one before showed where an entry begins or
        # ends with it, and only there.
        changes = union(
            select(entry.valid_from).where(entry.environment == name),
            select(entry.valid_to).where(entry.environment == name, entry.valid_to.is_not(None)),
        )
        with self.reading() as conn:
            changed_at: list[int] = sorted(conn.execute(changes).scalars())
            earlier: list[int] = list(conn.execute(versions).scalars())
        found: list[int] = []
        latest = bisect_right(changed_at, version)
        for number in earlier:
            place = bisect_right(changed_at, number)
            if place != latest:
                found.append(number)
                latest = place
        return found

    def current_base(self, name: str, base_version: int) -> int | None:
        """Return the version to which a plan that was made against a version can be applied.

        It is the current one, as long as every model is served by the table and snapshot that it
        had then: runs and backfills publish versions that differ in their tables' rows alone.

        Args:
            name: The environment.
            base_version: The version that the plan was made against, 0 for none.

        Returns:
            The current version, or None when the environment has moved on.
        """
        with self.reading() as conn:
            head = self._head(conn, name)
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
            .join_from(
                schema.entries,
                schema.environment_versions,
                (known.environment == entry.environment) & (known.version == entry.valid_from),
            )
            .where(
                entry.environment == name,
                entry.valid_from <= version,
                entry.valid_to.is_(None) | (entry.valid_to > version),
            )
        )
        with self.reading() as conn:
            return {ModelName(row[0], row[1]): row[2] for row in conn.execute(query)}

    def history(self, name: str, limit: int | None = None) -> list[EnvironmentVersion]:
        """Return the versions of an environment, newest first."""
        query = (
            select(schema.environment_versions)
            .where(schema.environment_versions.c.environment == name)
            .order_by(schema.environment_versions.c.version.desc())
            .limit(limit)
        )
        with self.reading() as conn:
            return [
                EnvironmentVersion(
                    environment=row.environment,
                    version=row.version,
                    publication_id=row.publication_id,
                    plan_id=row.plan_id,
                    published_at=row.published_at,
                    published_by=row.published_by,
                    note=row.note,
                    added=row.added,
                    changed=row.changed,
                    removed=row.removed,
                    dropped=row.dropped,
                )
                for row in conn.execute(query)
            ]

    def write_environment_version(
        self, connection: Connection, environment: Environment, base_version: int
    ) -> Environment:
        """Write an environment's next version, as part of the publication's transaction.

        Args:
            connection: The transaction.
            environment: What it becomes; its version number is assigned here.
            base_version: The version that it was made from, 0 when there was no environment.

        Returns:
            The environment with its version number.

        Raises:
            ConflictError: The environment is at another version (the message says who published),
                or the janitor gave up one of its tables.
        """
        head = self._head(connection, environment.name)
        current = head.version if head is not None and head.live else 0
        if current != base_version:
            raise self._lost(connection, environment.name, base_version, current)
        self.require_live(
            connection, [entry.table_id for entry in environment.entries.values() if entry.table_id]
        )
        version = (head.version if head is not None else 0) + 1
        counts = self._write_entries(connection, environment, version)
        connection.execute(
            insert(schema.environment_versions).values(
                environment=environment.name,
                version=version,
                publication_id=environment.publication_id,
                plan_id=environment.plan_id,
                published_at=environment.published_at,
                published_by=environment.published_by,
                expires_at=environment.expires_at,
                note=environment.note,
                added=counts[0],
                changed=counts[1],
                removed=counts[2],
                dropped=False,
            )
        )
        self._write_head(connection, environment.name, version, True, environment.expires_at)
        return replace(environment, version=version)

    def write_environment_drop(
        self, connection: Connection, environment: Environment, base_version: int
    ) -> int:
        """Write that an environment ends, as part of the transaction that drops its views.

        Args:
            connection: The transaction.
            environment: Who drops it, when and why; its entries are ignored.
            base_version: The version that is dropped.

        Returns:
            The number of the version that records the end.

        Raises:
            ConflictError: The environment is at another version.
        """
        empty = replace(environment, entries={})
        written = self.write_environment_version(connection, empty, base_version)
        table = schema.environment_versions
        connection.execute(
            update(table)
            .where(
                table.c.environment == environment.name,
                table.c.version == written.version,
            )
            .values(dropped=True)
        )
        self._write_head(connection, environment.name, written.version, False, None)
        return written.version

    def expire_environment(
        self, name: str, at: datetime | None, connection: Connection | None = None
    ) -> None:
        """Set when the janitor may drop an environment.

        Args:
            name: The environment.
            at: When (UTC), or None for never.
            connection: A transaction to take part in.

        Raises:
            UsageError: It does not exist, or it is production.
        """
        if name == PRODUCTION and at is not None:
            raise UsageError(
                f"'{PRODUCTION}' cannot expire", hint="only other environments can be dropped"
            )

        def work(conn: Connection) -> None:
            table = schema.environments
            changed = conn.execute(
                update(table).where(table.c.environment == name, table.c.live).values(expires_at=at)
            )
            if changed.rowcount == 0:
                raise UsageError(
                    f"there is no environment '{name}'", hint="`vde environments` lists them"
                )

        self.run(connection, work, name="state.expire_environment")

    def invalidate_environment(self, name: str) -> None:
        """Let the janitor drop an environment from now on.

        Raises:
            UsageError: It does not exist, or it is production.
        """
        self.expire_environment(name, self.clock.now())

    def _head(self, conn: Connection, name: str) -> Row[Any] | None:
        table = schema.environments
        query = select(table).where(table.c.environment == name)
        return conn.execute(query).one_or_none()

    def _write_head(
        self,
        conn: Connection,
        name: str,
        version: int,
        live: bool,
        expires_at: datetime | None,
    ) -> None:
        table = schema.environments
        values = {"version": version, "live": live, "expires_at": expires_at}
        changed = conn.execute(update(table).where(table.c.environment == name).values(**values))
        if changed.rowcount == 0:
            conn.execute(insert(table).values(environment=name, **values))

    def _version(self, conn: Connection, name: str, version: int) -> Environment | None:
        table = schema.environment_versions
        row = conn.execute(
            select(table).where(table.c.environment == name, table.c.version == version)
        ).one_or_none()
        if row is None:
            return None
        entry = schema.entries
        valid = (entry.c.valid_from <= version) & (
            entry.c.valid_to.is_(None) | (entry.c.valid_to > version)
        )
        return Environment(
            name=name,
            version=version,
            entries=self._entries(conn, (entry.c.environment == name) & valid)[0],
            publication_id=row.publication_id,
            plan_id=row.plan_id,
            published_at=row.published_at,
            published_by=row.published_by,
            expires_at=row.expires_at,
            note=row.note,
        )

    def _entries(
        self, conn: Connection, where: ColumnElement[bool]
    ) -> tuple[dict[ModelName, Entry], dict[ModelName, int]]:
        """Read entries by model, and since which version they are valid."""
        entry = schema.entries.c
        columns = (entry.model_namespace, entry.model_name, entry.snapshot_id, entry.table_id)
        query = (
            select(*columns, entry.valid_from)
            .where(where)
            .order_by(entry.model_namespace, entry.model_name)
        )
        found: dict[ModelName, Entry] = {}
        since: dict[ModelName, int] = {}
        for row in conn.execute(query):
            name = ModelName(row.model_namespace, row.model_name)
            found[name] = Entry(name, row.snapshot_id, row.table_id)
            since[name] = row.valid_from
        return found, since

    def _write_entries(
        self, conn: Connection, environment: Environment, version: int
    ) -> tuple[int, int, int]:
        """Close the entries that changed, open the new ones; return added, changed, removed."""
        table = schema.entries
        open_entries = (table.c.environment == environment.name) & table.c.valid_to.is_(None)
        before, since = self._entries(conn, open_entries)
        after = environment.entries
        removed = before.keys() - after.keys()
        added = after.keys() - before.keys()
        changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
        self._close(conn, environment.name, removed | changed, since, version)
        opened = [after[name] for name in sorted(added | changed, key=_parts)]
        if opened:
            conn.execute(
                insert(table),
                [
                    {
                        "environment": environment.name,
                        "model_namespace": entry.name.namespace,
                        "model_name": entry.name.name,
                        "valid_from": version,
                        "valid_to": None,
                        "snapshot_id": entry.snapshot_id,
                        "table_id": entry.table_id,
                    }
                    for entry in opened
                ],
            )
        return len(added), len(changed), len(removed)

    def _close(
        self,
        conn: Connection,
        environment: str,
        names: Set[ModelName],
        since: Mapping[ModelName, int],
        version: int,
    ) -> None:
        # By the whole primary key: SQLite would search one by one among all that are open.
        rows = [
            {"ns": name.namespace, "model": name.name, "since": since[name]}
            for name in sorted(names, key=_parts)
        ]
        if rows:
            table = schema.entries
            conn.execute(
                update(table)
                .where(
                    table.c.environment == environment,
                    table.c.model_namespace == bindparam("ns"),
                    table.c.model_name == bindparam("model"),
                    table.c.valid_from == bindparam("since"),
                )
                .values(valid_to=version),
                rows,
            )

    def _lost(self, conn: Connection, name: str, base: int, current: int) -> ConflictError:
        winner = self._version(conn, name, current) if current else None
        if winner is None:
            return ConflictError(
                f"the environment '{name}' no longer is at version {base}: it was dropped",
                hint="plan again",
            )
        plan = f" with plan {winner.plan_id}" if winner.plan_id else ""
        return ConflictError(
            f"the environment '{name}' is at version {current}, not {base}: "
            f"{winner.published_by} published{plan} at {iso(winner.published_at)}",
            hint="plan again",
        )


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


def _parts(name: ModelName) -> tuple[str, str]:
    """Sort names by what they are made of: rows are written in the order of the primary key."""
    return name.namespace, name.name
