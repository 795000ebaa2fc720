"""Roles, tables and statements: each login writes the rows that it may, through views alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from vde_dagster_tests.access.roles_world import WHO, World

pytestmark = pytest.mark.server

SHOWN = (
    "SELECT e.table_id FROM public.vde_entries e "
    "WHERE e.environment = 'prod' AND e.valid_to IS NULL AND e.table_id IS NOT NULL"
)
MATRIX: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "write_matrix.yaml").read_text().replace("SHOWN)", f"{SHOWN})")
)
MODES = (
    "ROW SHARE",
    "ROW EXCLUSIVE",
    "SHARE UPDATE EXCLUSIVE",
    "SHARE",
    "SHARE ROW EXCLUSIVE",
    "EXCLUSIVE",
    "ACCESS EXCLUSIVE",
)
ROW_LOCKS = ("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE")
REFUSED, TAKEN, NOT_A_TABLE, NO_DEFAULT = "42501", "23505", "42809", "0A000"
SEEDS = (
    "INSERT INTO vde_tables SELECT 'other', 'vde__other', 'other', 'f', 'c', columns, snapshot_id, "
    "false, 'live', 1, NULL, NULL FROM vde_tables LIMIT 1",
    "INSERT INTO vde_leases VALUES ('table/other', 'me', 1, 0, 0, 0)",
    "INSERT INTO vde_intervals VALUES ('other', 0, 1)",
    "INSERT INTO vde_fills (table_id, start_at, end_at, plan_id, recorded_at) "
    "VALUES ('other', 0, 1, 'p', 0)",
    "INSERT INTO vde_heads VALUES ('other', 'file', 1, 1, 1)",
    "INSERT INTO vde_view_types VALUES ('s', '[]')",
    "INSERT INTO vde_signatures VALUES ('p', 'k', 'n', 'a', 's')",
    "INSERT INTO vde_ci_checks VALUES ('p', 1, 'p', 'c', 0)",
    "INSERT INTO vde_ci_deploys VALUES ('p', 'c', 'p', 0)",
    "INSERT INTO vde_sync_cursors VALUES ('p', 'prod', 's', 1, '', '', NULL, 0, 0, 0, now())",
    "INSERT INTO vde_sync_letters VALUES (1, 'p', 'prod', 's', 1, '', '', now())",
    *(
        statement.replace("ENV", environment)
        for environment in ("prod", "dev")
        for statement in (
            "INSERT INTO vde_audit_results (plan_id, model_namespace, model_name, audit, blocking, "
            "start_at, end_at, failed_rows, sample, seconds, recorded_at, environment) "
            "VALUES ('p', 'db', 'total', 'a', true, 0, 1, 0, '[]', 0, 0, 'ENV')",
            "INSERT INTO vde_change_cursors VALUES ('ENV', 'db', 'total', 'c', 1, 0, 'me')",
            "INSERT INTO vde_journal (plan_id, step, detail, at) "
            "VALUES ('p', 'on virtual update ENV', '[]', 0)",
            "INSERT INTO vde_mirrored_views VALUES ('c', 'n_ENV', 'v', 'ENV', 'h', 'd', 0)",
            "INSERT INTO vde_tokens VALUES ('ENV', 'ENV', 'h', NULL, 0, 'me', NULL, NULL)",
        )
    ),
    *(
        f"INSERT INTO {table} SELECT table_id, 0, 1, {values} FROM vde_tables"
        for table, values in (("vde_outdated", "0"), ("vde_parts", "'HOUR', 0"))
    ),
    "INSERT INTO vde_pending_intervals (plan_id, table_id, start_at, end_at, branch, recorded_at) "
    "SELECT 'p', table_id, 0, 1, '', 0 FROM vde_tables",
)


@pytest.fixture(scope="module")
def seeded(untouched: World) -> World:
    """A world with rows about production, and others, in every table."""
    with psycopg.connect(untouched.url("owner")) as conn:
        conn.execute("ALTER TABLE vde_leases DISABLE TRIGGER USER")
        for statement in SEEDS:
            conn.execute(statement)
        conn.execute("ALTER TABLE vde_leases ENABLE TRIGGER USER")
    return untouched


def tables(world: World) -> list[str]:
    """Return the names of all tables of the state's schema."""
    with psycopg.connect(world.url("owner")) as conn:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return [row[0] for row in conn.execute(query)]


def state_of(conn: psycopg.Connection[Any], statement: str, rows: bytes | None = None) -> str:
    """Execute a statement, take it back, and return the SQLSTATE of its failure or nothing."""
    try:
        if rows is None:
            conn.execute(statement)
        else:
            with conn.cursor().copy(statement) as copy:
                copy.write(rows)
        conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except psycopg.Error as error:
        return error.sqlstate or "unknown"
    finally:
        conn.rollback()
    return ""


def direct(table: str, column: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield the statements that change or lock a table without going through its view."""
    yield f"INSERT INTO public.{table} SELECT * FROM public.{table} LIMIT 0", None
    yield f"UPDATE public.{table} SET {column} = {column} WHERE false", None
    yield f"DELETE FROM public.{table} WHERE false", None
    yield f"TRUNCATE public.{table}", None
    yield f"COPY public.{table} FROM STDIN", b""
    for mode in MODES:
        yield f"LOCK TABLE public.{table} IN {mode} MODE NOWAIT", None
    for lock in ROW_LOCKS:
        yield f"SELECT FROM public.{table} FOR {lock}", None


def test_no_login_writes_or_locks_a_table_directly(seeded: World) -> None:
    found = tables(seeded)
    assert set(found) == set(MATRIX), "write_matrix.yaml has to list every table of the state"
    for who in WHO[:-1]:
        with seeded.connect(who) as conn:
            for table in found:
                column = columns(seeded, table)[0]
                for statement, rows in direct(table, column):
                    assert state_of(conn, statement, rows) == REFUSED, (who, statement)


def test_no_login_locks_through_a_write_view(seeded: World) -> None:
    with psycopg.connect(seeded.url("owner")) as conn:
        query = "SELECT viewname FROM pg_views WHERE schemaname = 'vde_write_public'"
        views = [row[0] for row in conn.execute(query)]
    assert set(views) == set(MATRIX) - {"vde_alembic_version", "vde_rights"}
    for who in WHO[:-1]:
        with seeded.connect(who) as conn:
            for view in views:
                for mode in MODES:
                    lock = f"LOCK TABLE vde_write_public.{view} IN {mode} MODE NOWAIT"
                    assert state_of(conn, lock) == REFUSED, (who, lock)
                for lock in ROW_LOCKS:
                    read = f"SELECT FROM vde_write_public.{view} FOR {lock}"
                    assert state_of(conn, read) in (REFUSED, NO_DEFAULT), (who, read)
                state = state_of(conn, f"TRUNCATE vde_write_public.{view}")
                assert state in (NOT_A_TABLE, REFUSED), (who, view, state)


def columns(world: World, table: str) -> list[str]:
    """Return the columns of a table in order."""
    with psycopg.connect(world.url("owner")) as conn:
        query = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = %s ORDER BY ordinal_position"
        )
        return [row[0] for row in conn.execute(query, [table])]


KINDS = [
    (table, kind) for table in MATRIX for kind in ("production", "other") if kind in MATRIX[table]
]


def test_each_role_writes_just_the_rows_that_it_may(seeded: World) -> None:
    wrong = []
    with ExitStack() as stack:
        owner = stack.enter_context(seeded.connect("owner"))
        logins = [(who, stack.enter_context(seeded.connect(who))) for who in WHO[:-1]]
        for table, kind in KINDS:
            case = MATRIX[table]
            where = case.get("rows", "true")
            if kind == "other":
                where = case.get("others", f"NOT ({where})")
            names = columns(seeded, table)
            listed = ", ".join(names)
            choice = f"SELECT {listed} FROM public.{table} WHERE {where} LIMIT 1"
            with owner.cursor().copy(f"COPY ({choice}) TO STDOUT") as copy:
                row = b"".join(map(bytes, copy))
            assert row, f"{table} has no row where {where}"
            insert, update, delete = case[kind]
            changed = "status" if table == "vde_plans" else names[0]
            if table in ("vde_environment_versions", "vde_log", "vde_news"):
                changed = names[-1]
            for least, statement, rows in (
                (insert, f"INSERT INTO {table} ({listed}) {choice}", None),
                (insert, f"COPY {table} ({listed}) FROM STDIN", row),
                (update, f"UPDATE {table} SET {changed} = {changed} WHERE {where}", None),
                (delete, f"DELETE FROM {table} WHERE {where}", None),
            ):
                for who, conn in logins:
                    may = WHO.index(who) >= WHO.index(least)
                    state = state_of(conn, statement, rows)
                    if (state in ("", TAKEN)) != may or state not in ("", TAKEN, REFUSED):
                        wrong.append((table, kind, who, least, state, statement))
    assert wrong == []
