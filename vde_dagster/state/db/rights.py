"""Rights to read, to plan, to apply to environments other than production, and to publish.

On PostgreSQL, rights are group roles of the database. Roles read the state's tables and write them
only through views (`guards.write_views`), whose triggers decide about each row (`guards.rights`),
so rights apply to every program. A state without these roles checks no rights: any login that can
write to its tables may do everything, as the owner of the tables always may. A SQLite file has no
users, so it has no rights either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from vde_dagster.errors import NotAllowedError, UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.guards.rights import put_guards_of_rights
from vde_dagster.state.db.guards.write_views import Writes, quoted_name, view_statements
from vde_dagster.state.db.log import record

Right = Literal["read", "plan", "apply", "publish"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Rights in ascending order; each right includes the previous ones."""

_TABLE = "vde_rights"
_WRITES = {
    "vde_log": Writes(insert="plan"),
    "vde_plans": Writes(
        "plan", "apply", "publish", columns=("status", "message", "started_at", "finished_at")
    ),
    # Runs of production execute the content of these rows.
    "vde_snapshots": Writes("plan", "publish", "publish"),
    "vde_view_types": Writes("apply", "apply", "publish"),
    "vde_news": Writes(insert="plan", delete="apply"),
    "vde_environment_versions": Writes(insert="apply", delete="publish"),
    "vde_environments": Writes("apply", "apply"),
    "vde_entries": Writes("apply", "apply", "publish"),
    "vde_tables": Writes("apply", "apply", "publish"),
    "vde_leases": Writes("apply", "apply"),
    "vde_project": Writes("apply", "publish"),
    "vde_audit_results": Writes(insert="apply", delete="apply"),
    "vde_signatures": Writes("plan", "plan", "publish"),
    "vde_ci_deploys": Writes("publish", "publish", "publish"),
}
"""Minimum rights for writing a table; `_OTHERS` is the default."""
_OTHERS = Writes("apply", "apply", "apply")
_LIMITS = {"idle_in_transaction_session_timeout": 60, "lock_timeout": 30}
"""Session defaults for logins with a right, in seconds."""
_READ_ONLY = (_TABLE, schema.VERSION_TABLE)
_PREFIXES = ("vde_", "iceberg_")


@dataclass(frozen=True, slots=True)
class Role:
    """Database role that has a right.

    Args:
        members: Logins and roles that are members; the role of the next higher right is left out.
    """

    right: Right
    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Login:
    """Database user of the current connection, with its rights.

    Args:
        owns: Whether the login owns the state's tables.
        roles: The names of roles by right; empty if the state has none.
    """

    user: str
    owns: bool
    held: frozenset[str]
    roles: Mapping[str, str]

    def has(self, right: Right) -> bool:
        return self.owns or not self.roles or right in self.held


@dataclass(frozen=True, slots=True)
class RightsStore:
    """Checks the rights of the current login, and grants rights to others."""

    database: Database

    def login(self) -> Login | None:
        """Return the current login with its rights, or None on SQLite, which has no users."""
        if self.database.is_sqlite:
            return None
        with self.database.reading() as conn:
            return _login(conn)

    def has(self, right: Right) -> bool:
        login = self.login()
        return login is None or login.has(right)

    def require(self, right: Right, what: str) -> None:
        """Raise NotAllowedError, which names the missing role, if the login lacks a right.

        `what` is the intended act as an infinitive, such as `clean up`.
        """
        login = self.login()
        if login is not None and not login.has(right):
            raise NotAllowedError(
                f"'{login.user}' may not {what}: that needs the right to {right}, which members of "
                f"the role {login.roles.get(right)} have; nothing was changed",
                hint=f"let the tables' owner run: vde roles grant {right} {login.user}",
            )

    def require_change(self, environment: str, what: str) -> None:
        """Raise NotAllowedError if the login may not change an environment."""
        self.require("publish" if environment == PRODUCTION else "apply", what)

    def roles(self) -> list[Role]:
        """Return the roles with their members, by right, or an empty list without roles."""
        if self.database.is_sqlite:
            return []
        with self.database.reading() as conn:
            login = _login(conn)
            own = set(login.roles.values())
            return [
                Role(right, login.roles[right], tuple(_members(conn, login.roles[right], own)))
                for right in RIGHTS
                if right in login.roles
            ]

    def statements(self, prefix: str) -> list[str]:
        """Build the SQL that creates the roles and their grants on all existing tables.

        Raises:
            UsageError: The state is a SQLite file.
        """
        self._require_users()
        with self.database.reading() as conn:
            names = _names(prefix)
            return [*_statements(conn, names), *_view_statements(conn, names)]

    def create(self, prefix: str, plugins: Iterable[Any] = ()) -> None:
        """Create the roles, their grants and the triggers. Call this again after tables were added.

        Args:
            prefix: Prefix of the roles' names: `vde` for `vde_read`.
            plugins: Metadata of tables that plug-ins would create when they first write.

        Raises:
            UsageError: The state is a SQLite file.
            NotAllowedError: The current login does not own the tables.
        """
        self._require_users()

        def work(conn: Connection) -> None:
            _require_owner(conn, "make roles")
            for metadata in plugins:
                metadata.create_all(conn)
            renew(conn, _names(prefix))
            record(self.database, conn, "roles", detail={"roles": sorted(_names(prefix).values())})

        self.database.run_transaction(work, name="rights.create")

    def grant(self, right: Right, user: str) -> None:
        """Add a login to the role of a right.

        Raises:
            UsageError: Roles were not created, or the login does not exist.
            NotAllowedError: The current login may not grant rights.
        """
        self._member(right, user, "grant")

    def revoke(self, right: Right, user: str) -> None:
        """Remove a login from the role of a right.

        Raises:
            UsageError: Roles were not created, or the login is not in that role.
            NotAllowedError: The current login may not revoke rights.
        """
        self._member(right, user, "revoke")

    def _member(self, right: Right, user: str, act: Literal["grant", "revoke"]) -> None:
        self._require_users()

        def work(conn: Connection) -> None:
            _require_owner(conn, f"{act} rights")
            role = _login(conn).roles.get(right)
            if role is None:
                raise UsageError(
                    "the state has no roles yet", hint="create the roles first: vde roles create"
                )
            known = text("SELECT count(*) FROM pg_roles WHERE rolname = :user")
            if not conn.execute(known, {"user": user}).scalar():
                raise UsageError(
                    f"the database's server has no login '{user}'",
                    hint=f'create the login on that server: CREATE ROLE "{user}" LOGIN',
                )
            if act == "revoke" and user not in _members(conn, role, ()):
                raise UsageError(
                    f"'{user}' is not in the role {role}: nothing was changed",
                    hint="list the members with `vde roles`; a higher right includes lower ones",
                )
            to = "TO" if act == "grant" else "FROM"
            sql = f"{act} {quoted_name(role)} {to} {quoted_name(user)}"
            conn.exec_driver_sql(sql.replace("%", "%%"))  # A single % starts a parameter.
            if act == "grant":
                _limit_sessions(conn, user)
            record(self.database, conn, act, detail={"right": right, "to": user, "role": role})

        self.database.run_transaction(work, name=f"rights.{act}")

    def _require_users(self) -> None:
        if self.database.is_sqlite:
            raise UsageError(
                "a state in a SQLite file has no users, so it cannot have roles: any user who can "
                "write to the file may do everything",
                hint="move the state to PostgreSQL (vde state export, state_url, vde state import) "
                "or restrict write access with the permissions of the file",
            )


def renew(connection: Connection, names: Mapping[Right, str] | None = None) -> None:
    """Create the roles, their grants, the write views and the triggers again.

    `names` is by default the names of the existing roles.
    """
    if names is None:
        known = _login(connection).roles
        names = {right: known[right] for right in RIGHTS if right in known}
    if not names:
        return
    _require_schema(connection)
    for statement in _statements(connection, names):
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"DELETE FROM {_TABLE}")
    connection.execute(
        text(f"INSERT INTO {_TABLE} VALUES (:name, :role)"),
        [{"name": right, "role": role} for right, role in names.items()],
    )
    put_guards_of_rights(connection)
    for statement in _view_statements(connection, names):
        connection.exec_driver_sql(statement.replace("%", "%%"))


def has_rights(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql" and inspect(connection).has_table(_TABLE)


def has_right(connection: Connection, right: Right) -> bool:
    """Check whether a connection's login has a right."""
    return connection.dialect.name == "sqlite" or _login(connection).has(right)


def _names(prefix: str) -> dict[Right, str]:
    if not prefix.replace("_", "").isalnum() or len(prefix) > 40:
        raise UsageError(
            f"'{prefix}' is not a valid prefix for names of roles",
            hint="use at most 40 letters, digits and underscores, such as --prefix shop",
        )
    return {right: f"{prefix}_{right}" for right in RIGHTS}


def _login(conn: Connection) -> Login:
    first = text(
        "SELECT session_user, (SELECT pg_has_role(session_user, relowner, 'MEMBER') "
        "FROM pg_class WHERE oid = to_regclass('vde_log'))"
    )
    known = conn.execute(first).one()
    if not has_rights(conn):
        return Login(known[0], bool(known[1]), frozenset(), {})
    query = text(
        f"SELECT r.name, r.role, pg_has_role(session_user, r.role, 'MEMBER'), vde_is_owner() "
        f"FROM {_TABLE} r JOIN pg_roles p ON p.rolname = r.role"
    )
    rows = conn.execute(query).all()
    return Login(
        known[0],
        any(row[3] for row in rows),
        frozenset(row[0] for row in rows if row[2]),
        {row[0]: row[1] for row in rows},
    )


def _require_owner(conn: Connection, what: str) -> None:
    query = text(
        "SELECT session_user, pg_has_role(session_user, c.relowner, 'MEMBER'), "
        "pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'vde_log'::regclass"
    )
    user, owns, owner = conn.execute(query).one()
    if not owns:
        raise NotAllowedError(
            f"'{user}' may not {what}: the state's tables belong to '{owner}'; nothing was changed",
            hint=f"run the command as '{owner}': set state_url or VDE_STATE_URL to that login",
        )


def _require_schema(conn: Connection) -> None:
    query = text(
        "SELECT has_database_privilege(current_database(), 'CREATE'), "
        "quote_ident(current_database()), quote_ident(current_user)"
    )
    may, database, user = conn.execute(query).one()
    if not may:
        raise NotAllowedError(
            f"{user} may not create a schema in the database {database} for the views through "
            "which roles write; nothing was changed",
            hint=f"let a superuser run: GRANT CREATE ON DATABASE {database} TO {user}",
        )


def _limit_sessions(conn: Connection, user: str) -> None:
    database: str = conn.execute(text("SELECT current_database()")).scalar_one()
    # A session can lift these limits. `vde_end_stalled` then ends it.
    for name, seconds in _LIMITS.items():
        sql = (
            f"ALTER ROLE {quoted_name(user)} IN DATABASE {quoted_name(database)} "
            f"SET {name} = '{seconds}s'"
        ).replace("%", "%%")
        # The current login may lack the right to set limits.
        with suppress(DBAPIError), conn.begin_nested():
            conn.exec_driver_sql(sql)


def _members(conn: Connection, role: str, without: Iterable[str]) -> list[str]:
    # From PostgreSQL 16 on, the creator of a role can add members without being one.
    query = text(
        "SELECT DISTINCT m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid "
        "JOIN pg_roles m ON m.oid = a.member WHERE r.rolname = :role AND (coalesce("
        "(to_jsonb(a) ->> 'set_option')::boolean, true) OR (to_jsonb(a) ->> 'inherit_option')"
        "::boolean) ORDER BY m.rolname"
    )
    found: Iterable[str] = conn.execute(query, {"role": role}).scalars()
    return [name for name in found if name not in set(without)]


def _statements(conn: Connection, names: Mapping[Right, str]) -> list[str]:
    place = quoted_name(conn.execute(text("SELECT current_schema()")).scalar_one())
    roles = {right: quoted_name(name) for right, name in names.items()}
    every = ", ".join(roles.values())
    made = [
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') "
        f"THEN CREATE ROLE {quoted_name(name)} NOLOGIN; END IF; END $$"
        for name in names.values()
    ]
    made += [f"GRANT {roles[lower]} TO {roles[higher]}" for lower, higher in pairwise(RIGHTS)]
    made += [
        f"CREATE TABLE IF NOT EXISTS {place}.{_TABLE} "
        "(name varchar(16) PRIMARY KEY, role varchar(63) NOT NULL)",
        f"REVOKE CREATE ON SCHEMA {place} FROM PUBLIC",
        f"GRANT USAGE ON SCHEMA {place} TO {roles['read']}",
    ]
    tables = [name for name in inspect(conn).get_table_names() if name.startswith(_PREFIXES)]
    for table in sorted({*tables, _TABLE}):
        own = f"{place}.{quoted_name(table)}"
        made.append(f"REVOKE ALL ON {own} FROM PUBLIC, {every}")
        made.append(f"GRANT SELECT ON {own} TO {roles['read']}")
    for sequence in inspect(conn).get_sequence_names():
        if sequence.startswith("vde_"):
            made.append(
                f"REVOKE ALL ON SEQUENCE {place}.{quoted_name(sequence)} FROM PUBLIC, {every}"
            )
    return made


def _view_statements(conn: Connection, names: Mapping[Right, str]) -> list[str]:
    place: str = conn.execute(text("SELECT current_schema()")).scalar_one()
    tables = [name for name in inspect(conn).get_table_names() if name.startswith(_PREFIXES)]
    writes = {name: _WRITES.get(name, _OTHERS) for name in tables if name not in _READ_ONLY}
    roles: dict[str, str] = {right: quoted_name(name) for right, name in names.items()}
    return view_statements(conn, place, roles, writes)
