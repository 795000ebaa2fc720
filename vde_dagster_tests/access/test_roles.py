"""One login for each right does what it may, and is refused the rest, also by SQL around us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.errors import Error

from vde_dagster.errors import NotAllowedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state import StateStore
from vde_dagster.state.db.rights import RIGHTS
from vde_dagster.state.db.transfer import tables_of_plugins
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import FakeClock
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server

FILES = {
    "models/orders.sql": """
        MODEL (name db.orders, kind INCREMENTAL_BY_TIME_RANGE (time_column day), cron '@daily',
          start '2024-01-01');
        SELECT '2024-01-01' AS day, 1 AS n
    """,
    "models/total.sql": "MODEL (name db.total, kind FULL);\nSELECT sum(n) AS n FROM db.orders\n",
}
CASES = yaml.safe_load((Path(__file__).parent / "rights.yaml").read_text())
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


@pytest.fixture(scope="module")
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


def _open_plan(workspace: Workspace, environment: str) -> str:
    found = workspace.store.plans.recent(environment)
    return next(one.id for one in found if one.status == "planned")


def _serve(workspace: Workspace) -> object:
    from fastapi.testclient import TestClient

    from vde_dagster.plugins.serve.app import make_app

    app = make_app(workspace, may_be_open=True, log=StringIO())
    client = TestClient(app, base_url="http://localhost")
    answers = [
        client.get(path)
        for path in ("/v1/config?warehouse=prod", "/v1/prod/namespaces/db/tables/total")
    ]
    assert [answer.status_code for answer in answers] == [200, 200], answers
    return answers


ACTS: dict[str, Callable[[Workspace], object]] = {
    "environments": lambda w: w.store.environments.summaries(),
    "history": lambda w: w.environments.history("prod"),
    "look_at_a_plan": lambda w: w.plan("prod"),
    "log": lambda w: w.store.log.verify(),
    "serve": _serve,
    "plan_dev": lambda w: w.store.plans.record(w.plan("dev").id).id,  # type: ignore[union-attr]
    "plan_prod": lambda w: w.store.plans.record(w.plan("prod").id).id,  # type: ignore[union-attr]
    "apply_dev": lambda w: w.apply(w.store.plans.load(_open_plan(w, "dev"))),
    "roll_back_dev": lambda w: w.environments.rollback("dev"),
    "drop_dev": lambda w: w.environments.drop("dev"),
    "freeze": lambda w: w.environments.freeze("prod", "month_end"),
    "reject_dev": lambda w: w.plans.reject(_open_plan(w, "dev")),
    "token_of_dev": lambda w: w.store.tokens.create("dev", "me", None, None),
    "apply_prod": lambda w: w.apply(w.plan("prod", at_once=True)),
    "run_prod": lambda w: w.apply(w.plans.due("prod", at_once=True)),
    "roll_back_prod": lambda w: w.environments.rollback("prod"),
    "reject_prod": lambda w: w.plans.reject(_open_plan(w, "prod")),
    "token_of_prod": lambda w: w.store.tokens.create("prod", "me", None, None),
    "clean_up": lambda w: w.maintenance.janitor(),
    "roles": lambda w: w.store.rights.create("vde"),
    "grant": lambda w: w.store.rights.grant("publish", "u_other"),
}


DOES = [case for case in CASES if "does" in case]


@pytest.mark.parametrize("case", DOES, ids=lambda case: case["does"])
def test_who_has_the_right_does_it_and_nobody_else(world: World, case: dict[str, str]) -> None:
    act, least = ACTS[case["does"]], WHO.index(case["right"])
    before = world.content()
    for who in WHO[1:least]:
        with world.open(who) as workspace, pytest.raises((NotAllowedError, AttributeError)):
            act(workspace)
        assert world.content() == before, f"{who} changed something"
    with world.open(WHO[least]) as workspace:
        act(workspace)
    assert (world.content() == before) == (least == 1)
    with world.open("owner") as workspace:
        assert workspace.store.log.verify().wrong is None


@pytest.mark.parametrize("case", [case for case in CASES if "sql" in case], ids=lambda c: c["sql"])
def test_sql_around_the_program_is_held_to_the_same(world: World, case: dict[str, str]) -> None:
    least = len(WHO) if case["right"] == "nobody" else WHO.index(case["right"])
    for number, who in enumerate(WHO):
        with psycopg.connect(world.url(who)) as conn:
            if number < least:
                with pytest.raises(Error) as raised:
                    conn.execute(case["sql"])
                assert raised.value.sqlstate == "42501", raised.value
            else:
                conn.execute(case["sql"])
            conn.rollback()
