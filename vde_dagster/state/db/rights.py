"""Rights: who may read, plan, apply to environments other than production, and publish it.

On PostgreSQL they are the database's own: group roles that may read the state's tables and write
them through views alone (`write_views`), whose rows triggers decide about (`write_guards`). So they
hold for whatever program writes. A state without these roles asks for none: whoever
can write to its tables may do everything, as can the owner of the tables always.

A SQLite file has no users, so it has no rights either.
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
from vde_dagster.state.db.log import record
from vde_dagster.state.db.write_guards import put_guards_of_rights
from vde_dagster.state.db.write_views import Writes, view_statements

Right = Literal["read", "plan", "apply", "publish"]
RIGHTS: tuple[Right, ...] = get_args(Right)
"""Each has those before it."""

_TABLE = "vde_rights"
_WRITES = {
    "vde_log": Writes(insert="plan"),
    "vde_plans": Writes(
        "plan", "apply", "publish", columns=("status", "message", "started_at", "finished_at")
    ),
    # Runs of production execute what these say.
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
"""The least rights that writing a table takes, where `_OTHERS` do not hold."""
_OTHERS = Writes("apply", "apply", "apply")
_LIMITS = {"idle_in_transaction_session_timeout": 60, "lock_timeout": 30}
"""Defaults of the sessions of logins with a right, in seconds."""
_READ_ONLY = (_TABLE, schema.VERSION_TABLE)
_PREFIXES = ("vde_", "iceberg_")


@dataclass(frozen=True, slots=True)
class Role:
    """The role of the database that has a right.

    Args:
        members: Logins and roles that were put into it, without those of the next right.
    """

    right: Right
    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Login:
    """The login that asks.

    Args:
        owns: Whether it owns the state's tables, so that it may do everything.
        roles: The names of roles by right; empty where the state has none.
    """

    user: str
    owns: bool
    held: frozenset[str]
    roles: Mapping[str, str]

    def has(self, right: Right) -> bool:
        """Say whether it has a right."""
        return self.owns or not self.roles or right in self.held


@dataclass(frozen=True, slots=True)
class RightsStore:
    """Asking for rights, and giving them."""

    database: Database

    def login(self) -> Login | None:
        """Return who asks and with which rights; None on SQLite, which has no users."""
        if self.database.is_sqlite:
            return None
        with self.database.reading() as conn:
            return _login(conn)

    def has(self, right: Right) -> bool:
        """Say whether who asks has a right."""
        login = self.login()
        return login is None or login.has(right)

    def require(self, right: Right, what: str) -> None:
        """Make sure that who asks has a right.

        Args:
            what: What is to be done, in the infinitive.

        Raises:
            NotAllowedError: It has not; says which role lacks, and who gives it.
        """
        login = self.login()
        if login is not None and not login.has(right):
            raise NotAllowedError(
                f"'{login.user}' may not {what}: that needs the right to {right}, which members of "
                f"the role {login.roles.get(right)} have; nothing was changed",
                hint=f"who owns the state's tables gives it: vde roles grant {right} {login.user}",
            )

    def require_change(self, environment: str, what: str) -> None:
        """Make sure that who asks may change an environment.

        Raises:
            NotAllowedError: It may not.
        """
        self.require("publish" if environment == PRODUCTION else "apply", what)

    def roles(self) -> list[Role]:
        """Return the roles with their members, by right; none where the state has none."""
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
        """Return the SQL that makes the roles and their grants, for the state as it is.

        Raises:
            UsageError: The state is a SQLite file.
        """
        self._require_users()
        with self.database.reading() as conn:
            names = _names(prefix)
            return [*_statements(conn, names), *_view_statements(conn, names)]

    def create(self, prefix: str, plugins: Iterable[Any] = ()) -> None:
        """Make the roles with their grants and guards; again, where tables came since.

        Args:
            prefix: What their names begin with: `vde` for `vde_read`.
            plugins: Metadata of tables that plug-ins would make when they first write.

        Raises:
            UsageError: The state is a SQLite file, or who asks may not.
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
        """Put a login into the role that has a right.

        Raises:
            UsageError: There are no roles, no such login, or who asks may not.
        """
        self._member(right, user, "grant")

    def revoke(self, right: Right, user: str) -> None:
        """Take a login out of the role that has a right.

        Raises:
            UsageError: There are no roles, it is not in that one, or who asks may not.
        """
        self._member(right, user, "revoke")

    def _member(self, right: Right, user: str, act: Literal["grant", "revoke"]) -> None:
        self._require_users()

        def work(conn: Connection) -> None:
            _require_owner(conn, f"{act} rights")
            role = _login(conn).roles.get(right)
            if role is None:
                raise UsageError(
                    "the state has no roles yet", hint="make them first: vde roles create"
                )
            known = text("SELECT count(*) FROM pg_roles WHERE rolname = :user")
            if not conn.execute(known, {"user": user}).scalar():
                raise UsageError(
                    f"the database's server has no login '{user}'",
                    hint=f'make it there: CREATE ROLE "{user}" LOGIN',
                )
            if act == "revoke" and user not in _members(conn, role, ()):
                raise UsageError(
                    f"'{user}' is not in the role {role}: nothing was changed",
                    hint="`vde roles` lists the members; a higher right has the lower ones",
                )
            to = "TO" if act == "grant" else "FROM"
            sql = f"{act} {quoted(role)} {to} {quoted(user)}"
            conn.exec_driver_sql(sql.replace("%", "%%"))  # One percent sign is a parameter's.
            if act == "grant":
                _limit_sessions(conn, user)
            record(self.database, conn, act, detail={"right": right, "to": user, "role": role})

        self.database.run_transaction(work, name=f"rights.{act}")

    def _require_users(self) -> None:
        if self.database.is_sqlite:
            raise UsageError(
                "a state in a SQLite file has no users, so it can have no roles: who can write to "
                "the file may do everything",
                hint="move it to PostgreSQL (vde state export, state_url, vde state import), or "
                "say by the rights of the file who may write to it",
            )


def renew(connection: Connection, names: Mapping[Right, str] | None = None) -> None:
    """Give the roles their grants and put the guards on the tables that there are now.

    Args:
        names: The names of the roles by right; those that there are by default.
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
    """Say whether a database has roles of ours."""
    return connection.dialect.name == "postgresql" and inspect(connection).has_table(_TABLE)


def has_right(connection: Connection, right: Right) -> bool:
    """Return whether the login of a connection has a right."""
    return connection.dialect.name == "sqlite" or _login(connection).has(right)


def quoted(name: str) -> str:
    """Quote a name for PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def _names(prefix: str) -> dict[Right, str]:
    if not prefix.replace("_", "").isalnum() or len(prefix) > 40:
        raise UsageError(
            f"'{prefix}' cannot begin the names of roles",
            hint="take letters, digits and underscores, such as --prefix shop",
        )
    return {right: f"{prefix}_{right}" for right in RIGHTS}


def _login(conn: Connection) -> Login:
    user: str = conn.execute(text("SELECT session_user")).scalar_one()
    if not has_rights(conn):
        return Login(user, False, frozenset(), {})
    query = text(
        f"SELECT r.name, r.role, pg_has_role(session_user, r.role, 'MEMBER'), vde_is_owner() "
        f"FROM {_TABLE} r JOIN pg_roles p ON p.rolname = r.role"
    )
    rows = conn.execute(query).all()
    return Login(
        user,
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
            hint=f"let '{owner}' do it: with its login in state_url, or VDE_STATE_URL",
        )


def _require_schema(conn: Connection) -> None:
    """Make sure that the owner can make the schema of the write views.

    Raises:
        NotAllowedError: It may make none in this database.
    """
    query = text(
        "SELECT has_database_privilege(current_database(), 'CREATE'), "
        "quote_ident(current_database()), quote_ident(current_user)"
    )
    may, database, user = conn.execute(query).one()
    if not may:
        raise NotAllowedError(
            f"{user} may not make a schema in the database {database}, and roles write through "
            "views in a schema of their own; nothing was changed",
            hint=f"let a superuser run: GRANT CREATE ON DATABASE {database} TO {user}",
        )


def _limit_sessions(conn: Connection, user: str) -> None:
    """Limit how long a login's sessions hold up others by default, where the owner may set that.

    A session can lift the limits, so that `vde_end_stalled` ends what they do not.
    """
    database: str = conn.execute(text("SELECT current_database()")).scalar_one()
    for name, seconds in _LIMITS.items():
        sql = (
            f"ALTER ROLE {quoted(user)} IN DATABASE {quoted(database)} SET {name} = '{seconds}s'"
        ).replace("%", "%%")
        with suppress(DBAPIError), conn.begin_nested():
            conn.exec_driver_sql(sql)


def _members(conn: Connection, role: str, without: Iterable[str]) -> list[str]:
    # From PostgreSQL 16 on, who made a role may put others in and is not in it himself.
    query = text(
        "SELECT DISTINCT m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid "
        "JOIN pg_roles m ON m.oid = a.member WHERE r.rolname = :role AND (coalesce("
        "(to_jsonb(a) ->> 'set_option')::boolean, true) OR (to_jsonb(a) ->> 'inherit_option')"
        "::boolean) ORDER BY m.rolname"
    )
    found: Iterable[str] = conn.execute(query, {"role": role}).scalars()
    return [name for name in found if name not in set(without)]


def _statements(conn: Connection, names: Mapping[Right, str]) -> list[str]:
    """Return the SQL of roles and grants; each run also revokes grants that were removed since."""
    place = quoted(conn.execute(text("SELECT current_schema()")).scalar_one())
    roles = {right: quoted(name) for right, name in names.items()}
    every = ", ".join(roles.values())
    made = [
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') "
        f"THEN CREATE ROLE {quoted(name)} NOLOGIN; END IF; END $$"
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
        own = f"{place}.{quoted(table)}"
        made.append(f"REVOKE ALL ON {own} FROM PUBLIC, {every}")
        made.append(f"GRANT SELECT ON {own} TO {roles['read']}")
    for sequence in inspect(conn).get_sequence_names():
        if sequence.startswith("vde_"):
            made.append(f"REVOKE ALL ON SEQUENCE {place}.{quoted(sequence)} FROM PUBLIC, {every}")
    return made


def _view_statements(conn: Connection, names: Mapping[Right, str]) -> list[str]:
    """Return the SQL of the write views and their grants, once guards and tables are there."""
    place: str = conn.execute(text("SELECT current_schema()")).scalar_one()
    tables = [name for name in inspect(conn).get_table_names() if name.startswith(_PREFIXES)]
    writes = {name: _WRITES.get(name, _OTHERS) for name in tables if name not in _READ_ONLY}
    roles: dict[str, str] = {right: quoted(name) for right, name in names.items()}
    return view_statements(conn, place, roles, writes)
