"""A published project over a state with roles, with a login for each right."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db.guards.write_views import write_schema
from vde_dagster.state.db.rights import RIGHTS
from vde_dagster.state.db.transfer import tables_of_plugins
from vde_dagster.state.store import StateStore
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

FILES = {
    "models/orders.sql": """
        MODEL (name db.orders, kind INCREMENTAL_BY_TIME_RANGE (time_column day), cron '@daily',
          start '2024-01-01');
        SELECT '2024-01-01' AS day, 1 AS n
    """,
    "models/total.sql": "MODEL (name db.total, kind FULL);\nSELECT sum(n) AS n FROM db.orders\n",
}
WHO = ("nothing", *RIGHTS, "owner")
"""Logins by what they may; `nobody` is more than the owner may without taking guards away."""


class World:
    """A published project over a state with roles.

    Args:
        template: The database to copy.
    """

    def __init__(self, server: PostgresServer, project: ProjectFolder, template: str) -> None:
        self.server = server
        self.project = project
        self.name = server.create_database(template)

    def url(self, who: str) -> str:
        """The state as a login sees it."""
        login = "vde" if who == "owner" else f"u_{who}"
        return self.server.url(self.name).replace("vde@", f"{login}@")

    def open(self, who: str) -> Workspace:
        """Open the project as a login, on an engine without Spark."""
        return open_fake(self.project.root, state_url=self.url(who))

    def connect(self, who: str) -> psycopg.Connection[Any]:
        """Connect as a login, with the search path that the program sets for it."""
        path = "public" if who == "owner" else f"{write_schema('public')},public"
        return psycopg.connect(self.url(who), options=f"-c search_path={path}")

    def try_sql(self, who: str, sql: str) -> str:
        """Execute a statement, take it back, and return the SQLSTATE of its failure or nothing."""
        with self.connect(who) as conn:
            try:
                conn.execute(sql)
                conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
            except psycopg.Error as error:
                return error.sqlstate or "unknown"
            finally:
                conn.rollback()
        return ""

    def content(self) -> dict[str, list[Any]]:
        """All rows of the state, but for who works just now."""
        with psycopg.connect(self.url("owner")) as conn:
            names = conn.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
            ).fetchall()
            return {
                name: sorted(map(repr, conn.execute(f"SELECT * FROM {name}").fetchall()))
                for (name,) in names
                if name != "vde_leases"
            }


@pytest.fixture(scope="session")
def published(
    postgres: PostgresServer, empty_postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ProjectFolder, str]:
    """A project with two versions of dev and of production, an open plan of each, and roles."""
    project = ProjectFolder(tmp_path_factory.mktemp("project"), FILES)
    name = postgres.create_database(empty_postgres)
    project.write(
        "pyproject.toml",
        '[tool.vde]\nid = "0123456789abcdef"\ncatalog = "lakehouse"\n'
        f'warehouse = "{project.root}/warehouse"\nstate_url = "{postgres.url(name)}"\n',
    )
    clock = FakeClock(datetime.now(timezone.utc) - timedelta(days=2))
    for function in ("max(n)", "min(n)", "count(n)"):
        project.write(
            "models/total.sql",
            f"MODEL (name db.total, kind FULL);\nSELECT {function} AS n FROM db.orders\n",
        )
        with open_fake(project.root, clock=clock) as workspace:
            for environment in ("prod", "dev"):
                plan = workspace.plan(environment)
                if function != "count(n)":
                    workspace.apply(plan)
        clock.advance(minutes=5)
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as server:
        for who in ("nothing", "other", *RIGHTS):
            server.execute(f"CREATE ROLE u_{who} LOGIN")
    store = StateStore.open(postgres.url(name))
    store.rights.create("vde", tables_of_plugins())
    for right in RIGHTS:
        store.rights.grant(right, f"u_{right}")
    store.close()
    return project, name


@pytest.fixture
def world(postgres: PostgresServer, published: tuple[ProjectFolder, str]) -> Iterator[World]:
    made = World(postgres, *published)
    yield made
    postgres.drop_database(made.name)


@pytest.fixture(scope="module")
def untouched(postgres: PostgresServer, published: tuple[ProjectFolder, str]) -> Iterator[World]:
    """A world for tests that leave it as it is."""
    made = World(postgres, *published)
    yield made
    postgres.drop_database(made.name)
