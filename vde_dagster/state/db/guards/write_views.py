"""Write views: PostgreSQL logins that do not own the state change it only through these views.

Logins have only SELECT on the tables. Next to the tables' schema there is another schema,
`vde_write_<schema>`, with a view of the same name for each table that roles may write. A view reads
with the caller's rights, and its triggers write with the owner's rights. So the guards on the table
(`rights`) check every row, and PostgreSQL refuses statements that no guard can check:
TRUNCATE, LOCK TABLE, and SELECT with a row lock need rights on the table itself.

The connections of roles' members have the views' schema first in their search path, so that the
program's statements are the same for members, owners and SQLite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, Text, text

from vde_dagster.state.db.guards.acts import read_statements

PREFIX = "vde_write_"
"""Prefix of the schema with the write views of another schema."""
ON_CONFLICT = "vde_on_conflict"
"""Column of a write view that selects how INSERT treats an existing key."""
NOTHING = "-"
"""Value of `ON_CONFLICT` that keeps the existing row."""
_ROW_ID = "vde_row"
_SECURITY_INVOKER = 150_000
"""The first version of PostgreSQL whose views can read with the caller's rights."""

SEARCH_PATH = "vde_search_path"
"""Key in `Connection.info`: the search path that begins with the write views."""
WRITE_SCHEMA_QUERY = f"""
SELECT quote_ident(v.nspname), current_setting('search_path') FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_namespace v ON v.nspname = '{PREFIX}' || n.nspname
WHERE c.oid = to_regclass('vde_log') AND NOT pg_has_role(session_user, c.relowner, 'MEMBER')
"""
"""Finds the write views' schema, quoted, for a login that does not own the tables."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Rights required for writing a table; None allows only the owner.

    Args:
        columns: The columns that UPDATE may change; all by default.
    """

    insert: str | None = None
    update: str | None = None
    delete: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shape:
    columns: tuple[str, ...]
    key: tuple[str, ...]
    defaults: Mapping[str, str]


def writes_by_views(connection: Connection) -> bool:
    """Return whether a connection writes through views, as its login is not the owner."""
    return bool(connection.info.get(SEARCH_PATH))


def write_schema(place: str) -> str:
    """Return the name of the schema with write views: `vde_write_public` for tables in `public`."""
    return f"{PREFIX}{place}"[:63]


@cache
def with_conflict_column(table: Table) -> Table:
    """Return a table with the additional column `ON_CONFLICT` of its write view.

    An INSERT sets it to the columns to update if the key exists, or to `NOTHING`.
    """
    columns = (Column(column.name, column.type) for column in table.c)
    return Table(table.name, MetaData(), *columns, Column(ON_CONFLICT, Text))


def view_statements(
    connection: Connection, place: str, roles: Mapping[str, str], writes: Mapping[str, Writes]
) -> list[str]:
    """Build the SQL that creates or replaces the write views of a schema's tables.

    Args:
        roles: Quoted names of the roles, by right.
    """
    own, tables = quoted_name(place), quoted_name(write_schema(place))
    made = [
        f"DROP SCHEMA IF EXISTS {tables} CASCADE",
        f"CREATE SCHEMA {tables}",
        f"GRANT USAGE ON SCHEMA {tables} TO {roles['read']}",
    ]
    version: int = connection.execute(
        text("SELECT current_setting('server_version_num')::int")
    ).scalar_one()
    reads = " WITH (security_invoker = true)" if version >= _SECURITY_INVOKER else ""
    for name, rights in sorted(writes.items()):
        shape = _shape(connection, place, name)
        view = f"{tables}.{quoted_name(name)}"
        function = f"{tables}.{quoted_name(f'write_{name}'[:63])}"
        listed = ", ".join(f"t.{quoted_name(one)}" for one in shape.columns)
        made += [
            f"CREATE VIEW {view}{reads} AS SELECT {listed}, t.ctid AS {_ROW_ID}, "
            f"NULL::text AS {ON_CONFLICT} FROM {own}.{quoted_name(name)} AS t",
            f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
            f"SET search_path = {own}, pg_temp AS $write$\n{_body(name, shape, rights)}\n$write$",
            f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC",
            f"CREATE TRIGGER vde_write INSTEAD OF INSERT OR UPDATE OR DELETE ON {view} "
            f"FOR EACH ROW EXECUTE FUNCTION {function}()",
            f"GRANT SELECT ON {view} TO {roles['read']}",
        ]
        changed = f" ({', '.join(map(quoted_name, rights.columns))})" if rights.columns else ""
        for what, right in (
            ("INSERT", rights.insert),
            (f"UPDATE{changed}", rights.update),
            ("DELETE", rights.delete),
        ):
            if right is not None:
                made.append(f"GRANT {what} ON {view} TO {roles[right]}")
    return made


def _shape(connection: Connection, place: str, name: str) -> _Shape:
    query = text(
        "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid), "
        "coalesce(a.attnum = ANY(i.indkey), false) FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "
        "LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
        "WHERE n.nspname = :place AND c.relname = :name AND a.attnum > 0 AND NOT a.attisdropped "
        "ORDER BY a.attnum"
    )
    rows: Sequence[Any] = connection.execute(query, {"place": place, "name": name}).all()
    return _Shape(
        tuple(row[0] for row in rows),
        tuple(row[0] for row in rows if row[2]),
        {row[0]: row[1] for row in rows if row[1] is not None},
    )


def _body(name: str, shape: _Shape, rights: Writes) -> str:
    table, quoted = quoted_name(name), {one: quoted_name(one) for one in shape.columns}
    changed = [one for one in rights.columns or shape.columns if one in quoted]
    values = ", ".join(f"NEW.{quoted[one]}" for one in shape.columns)
    into = f"INSERT INTO {table} AS t ({', '.join(quoted.values())}) VALUES ({values})"
    defaults = "\n".join(
        f"    NEW.{quoted[one]} := coalesce(NEW.{quoted[one]}, {default});"
        for one, default in shape.defaults.items()
    )
    body, conflict = read_statements("write_view")
    names = {"table": table, "into": into, "on_conflict": ON_CONFLICT}
    return body.format(
        **names,
        row_id=_ROW_ID,
        changes=", ".join(f"{quoted[one]} = NEW.{quoted[one]}" for one in changed),
        defaults=defaults,
        conflict=conflict.format(**names, nothing=NOTHING, **_on_conflict(shape, rights, quoted))
        if shape.key
        else "  RAISE EXCEPTION 'the table has no key';",
    )


def _on_conflict(shape: _Shape, rights: Writes, quoted: Mapping[str, str]) -> dict[str, str]:
    rest = [one for one in shape.columns if one not in shape.key]
    keys = ", ".join(quoted[one] for one in shape.key)
    same = " AND ".join(
        f"('{one}' <> ALL (renewed) OR known.{quoted[one]} IS NOT DISTINCT FROM NEW.{quoted[one]})"
        for one in rest
    )
    renew = ", ".join(
        f"{quoted[one]} = CASE WHEN '{one}' = ANY (renewed) THEN excluded.{quoted[one]} "
        f"ELSE t.{quoted[one]} END"
        for one in rest
    )
    return {
        "key": " AND ".join(f"t.{quoted[one]} = NEW.{quoted[one]}" for one in shape.key),
        "keys": keys,
        "same": same or "true",
        "right": rights.update or "own",
        "allowed": ", ".join(f"'{one}'" for one in rights.columns or rest),
        "renew": f"ON CONFLICT ({keys}) DO UPDATE SET {renew}" if renew else "",
    }


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
