"""Current environments, and writing their next versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, case, func, insert, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import instant_text
from vde_dagster.errors import ConflictError, UsageError
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    require_changeable,
)
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.log import Act, record
from vde_dagster.state.db.outbox import add_record
from vde_dagster.state.db.rows import is_model, row_from_value, upsert, value_from_row
from vde_dagster.state.environments import versions
from vde_dagster.state.tables.tables import TableStore

_HEAD = schema.environments.c
_NAMES = select(_HEAD.environment).where(_HEAD.live).order_by(_HEAD.environment)


@dataclass(frozen=True, slots=True)
class EnvironmentSummary:
    """One row of a list of environments.

    Args:
        frozen: The version that the environment shows permanently, such as `prod@41`; None if the
            environment can change.
    """

    name: str
    version: int
    models: int
    published_at: datetime
    published_by: str
    plan_id: str | None
    expires_at: datetime | None
    note: str
    frozen: str | None = None
    held: int = 0


@dataclass(frozen=True, slots=True)
class EnvironmentStore:
    database: Database
    tables: TableStore

    def get(self, name: str, connection: Connection | None = None) -> Environment | None:
        """Return the current version of an environment, or None if it does not exist."""
        with self.database.reading(connection) as conn:
            head = versions.read_head(conn, name)
            if head is None or not head.live:
                return None
            found = versions.read_version(conn, name, head.version)
        return replace(found, expires_at=head.expires_at) if found else None

    def all(self) -> list[Environment]:
        with self.database.reading() as conn:
            found = [self.get(name, conn) for name in self.names(conn)]
        return [environment for environment in found if environment is not None]

    def require_changeable(self, name: str) -> None:
        """Raise a UsageError if an environment is frozen."""
        with self.database.reading() as conn:
            head = versions.read_head(conn, name)
            if head is not None and head.live:
                require_changeable(name, versions.read_frozen(conn, name, head.version))

    def exists(self, name: str) -> bool:
        return self.current_version(name) is not None

    def current_version(self, name: str) -> int | None:
        """Return the number of an environment's current version, or None if it does not exist."""
        with self.database.reading() as conn:
            head = versions.read_head(conn, name)
        return int(head.version) if head is not None and head.live else None

    def entry(self, name: str, model: ModelName) -> Entry | None:
        entry = schema.entries.c
        query = (
            select(*versions.ENTRY)
            .join_from(schema.entries, schema.environments, _HEAD.environment == entry.environment)
            .where(
                _HEAD.live,
                entry.environment == name,
                is_model(schema.entries, model),
                entry.valid_to.is_(None),
            )
        )
        row = self.database.row(query)
        return versions.read_entry(row) if row is not None else None

    def names(self, connection: Connection | None = None) -> list[str]:
        return self.database.column(_NAMES, connection)

    def summaries(self) -> list[EnvironmentSummary]:
        version, entry = schema.environment_versions.c, schema.entries.c
        shown = (entry.environment == _HEAD.environment, entry.valid_to.is_(None))
        models = select(func.count()).where(*shown).scalar_subquery()
        held = select(func.count(entry.held_schema_id)).where(*shown).scalar_subquery()
        query = (
            select(
                _HEAD.environment.label("name"),
                _HEAD.version,
                models.label("models"),
                case((version.frozen.is_(None), held), else_=0).label("held"),
                version.frozen,
                version.published_at,
                version.published_by,
                version.plan_id,
                _HEAD.expires_at,
                version.note,
            )
            .join_from(
                schema.environments,
                schema.environment_versions,
                (version.environment == _HEAD.environment) & (version.version == _HEAD.version),
            )
            .where(_HEAD.live)
            .order_by(_HEAD.environment)
        )
        return [value_from_row(EnvironmentSummary, row) for row in self.database.rows(query)]

    def write_version(
        self,
        connection: Connection,
        environment: Environment,
        base_version: int,
        *,
        ends: bool = False,
        act: Act | None = None,
    ) -> Environment:
        """Write the next version of an environment, in the transaction of its publication.

        Args:
            ends: Whether the version drops the environment. Such a version has an author, a time
                and a reason, but no entries.
            act: The act to write to the log; None to derive it from the version.

        Raises:
            ConflictError: The environment is at another version (the message names its author), or
                the janitor has marked one of the tables for deletion.
            UsageError: The environment is frozen and `ends` is False, or the machine's clock is
                wrong.
        """
        head = versions.read_head(connection, environment.name)
        current = head.version if head is not None and head.live else 0
        if current != base_version:
            raise _lost(connection, environment.name, base_version, current)
        if current and not ends:
            before = versions.read_frozen(connection, environment.name, current)
            require_changeable(environment.name, before)
        if ends:
            environment = replace(environment, entries={}, frozen=None, kept={})
        self.database.require_right_clock(connection)
        self.tables.require_live(connection, environment.tables)
        environment.require_whole()
        # Published after all previous versions, even if the clock went back.
        environment = _in_order_of_time(connection, environment)
        version = (head.version if head is not None else 0) + 1
        counts = versions.write_entries(connection, environment, version)
        connection.execute(
            insert(schema.environment_versions).values(
                row_from_value(
                    environment,
                    schema.environment_versions,
                    environment=environment.name,
                    version=version,
                    added=counts[0],
                    changed=counts[1],
                    removed=counts[2],
                    dropped=ends,
                )
            )
        )
        row = {
            "environment": environment.name,
            "version": version,
            "live": not ends,
            "expires_at": None if ends else environment.expires_at,
        }
        upsert(connection, schema.environments, [row], "version", "live", "expires_at")
        subject = {"environment": environment.name, "version": version}
        add_record(self.database, connection, "published", **subject, plan=environment.plan_id)
        record(
            self.database,
            connection,
            act or _act(environment, ends=ends),
            environment.name,
            version,
            who=environment.published_by,
            detail={"plan": environment.plan_id, "note": environment.note or None},
        )
        return replace(environment, version=version)

    def expire(self, name: str, at: datetime | None) -> None:
        """Set the time after which the janitor drops an environment; None means never."""
        if name == PRODUCTION and at is not None:
            raise UsageError(f"'{PRODUCTION}' cannot expire", hint="name another environment")

        def work(conn: Connection) -> None:
            table = schema.environments
            changed = conn.execute(
                update(table).where(table.c.environment == name, table.c.live).values(expires_at=at)
            )
            if changed.rowcount == 0:
                raise UsageError(
                    f"the environment '{name}' does not exist",
                    hint="list the environments: vde environments",
                )
            until = instant_text(at) if at is not None else "never"
            record(self.database, conn, "expire", name, detail={"at": until})

        self.database.run_transaction(work, name="state.expire_environment")

    def invalidate(self, name: str) -> None:
        """Let an environment expire now, so that the janitor drops it."""
        self.expire(name, self.database.clock.now())

    def expired(self) -> list[str]:
        over = _HEAD.expires_at <= self.database.clock.now()
        return self.database.column(_NAMES.where(over))


def _act(environment: Environment, *, ends: bool) -> Act:
    if ends:
        return "drop"
    if environment.frozen is not None:
        return "freeze"
    return "publish" if environment.plan_id is not None else "rollback"


def _in_order_of_time(connection: Connection, environment: Environment) -> Environment:
    # Versions are found by their times, so the times must increase.
    version = schema.environment_versions.c
    query = select(version.published_at).where(version.environment == environment.name)
    last = connection.execute(query.order_by(version.version.desc()).limit(1)).scalar()
    if last is None or last < environment.published_at:
        return environment
    return replace(environment, published_at=last + timedelta(microseconds=1))


def _lost(conn: Connection, name: str, base: int, current: int) -> ConflictError:
    winner = versions.read_version(conn, name, current) if current else None
    if winner is None:
        return ConflictError(
            f"the environment '{name}' is no longer at version {base}: it was dropped",
            hint=f"plan again: vde plan {name}",
        )
    plan = f" with plan {winner.plan_id}" if winner.plan_id else ""
    return ConflictError(
        f"the environment '{name}' is at version {current}, not {base}: "
        f"{winner.published_by} published{plan} at {instant_text(winner.published_at)}",
        hint=f"plan again: vde plan {name}",
    )
