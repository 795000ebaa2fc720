"""One login for each right does what it may, and is refused the rest, also by SQL around us."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path

import psycopg
import pytest
import yaml
from psycopg.errors import Error
from sqlalchemy import Connection

from vde_dagster.errors import NotAllowedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db import migrate
from vde_dagster.state.db.guards.write_views import ON_CONFLICT
from vde_dagster.state.db.rights import RIGHTS, Login
from vde_dagster.state.db.schema import SCHEMA_VERSION, VERSION_TABLE, metadata
from vde_dagster.state.store import StateStore
from vde_dagster_tests.access.roles_world import FILES, WHO, World
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server

CASES = yaml.safe_load((Path(__file__).parent / "rights.yaml").read_text())


def _open_plan(workspace: Workspace, environment: str) -> str:
    found = workspace.store.plans.recent(environment)
    return next(one.id for one in found if one.status == "planned")


def _serve(workspace: Workspace) -> object:
    from fastapi.testclient import TestClient

    from vde_dagster.programs.serve.app import make_app

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


RUNS = [case for case in CASES if "runs" in case]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case["runs"])
def test_a_command_is_run_by_who_may_and_refused_to_others(
    world: World,
    case: dict[str, str],
    vde: Vde,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    arguments = case["runs"].replace("OUT", str(tmp_path)).split()
    least, before = WHO.index(case["right"]), world.content()
    for who in WHO[:least]:
        monkeypatch.setenv("VDE_STATE_URL", world.url(who))
        refused = vde(*arguments, "--project", world.project.root)
        assert refused.code == 2, (who, refused)
        words = ("may not", "lacks a right", "right to plan")
        assert any(one in refused.err for one in words), (who, refused)
        assert world.content() == before, f"{who} changed something"
    monkeypatch.setenv("VDE_STATE_URL", world.url(WHO[least]))
    done = vde(*arguments, "--project", world.project.root)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    assert (world.content() == before) == (case["right"] == "read")


@pytest.mark.parametrize("case", [case for case in CASES if "sql" in case], ids=lambda c: c["sql"])
def test_sql_around_the_program_is_held_to_the_same(untouched: World, case: dict[str, str]) -> None:
    least = len(WHO) if case["right"] == "nobody" else WHO.index(case["right"])
    logins = RIGHTS if ON_CONFLICT in case["sql"] else WHO  # Tables have no such column.
    for who in logins:
        state = untouched.try_sql(who, case["sql"])
        assert state == ("42501" if WHO.index(who) < least else ""), who


def test_a_refused_act_is_one_message_before_anything_is_computed(
    world: World, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--project", world.project.root)
    before = world.content()
    monkeypatch.setenv("VDE_STATE_URL", world.url("apply"))
    refused = vde("apply", "prod", "--yes", *at)
    assert refused.code == 2
    assert refused.err == (
        "error: 'u_apply' may not apply a plan to 'prod': that needs the right to publish, which "
        "members of the role vde_publish have; nothing was changed\n"
        "hint: let the tables' owner run: vde roles grant publish u_apply\n"
    )
    assert vde("rollback", "prod", *at).code == 2
    assert vde("janitor", *at).code == 2
    assert vde("token", "create", "prod", *at).code == 2
    assert vde("roles", "grant", "publish", "u_apply", *at).code == 2
    assert vde("roles", "create", *at).code == 2
    assert world.content() == before
    monkeypatch.setenv("VDE_STATE_URL", world.url("read"))
    looked = vde("plan", "prod", *at)
    assert looked.code == 0
    assert "db.total" in looked.out
    assert "the plan is not stored: you lack the right to plan" in looked.err
    assert vde("plan", "prod", "--json", *at).json["stored"] is False
    saved = vde("plan", "prod", "--save", world.project.root / "plan.json", *at)
    assert (saved.code, "right to plan" in saved.err) == (2, True)
    assert world.content() == before
    monkeypatch.setenv("VDE_STATE_URL", world.url("nothing"))
    shut = vde("environments", *at)
    assert shut.code == 2
    assert "'u_nothing' lacks a right in" in shut.err
    assert "permission denied" in shut.err


def test_the_commands_say_who_may_what(
    world: World, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--project", world.project.root)
    monkeypatch.setenv("VDE_STATE_URL", world.url("plan"))
    told = vde("roles", *at, "--json").json
    assert (told["login"], told["owner"], told["may"]) == ("u_plan", False, ["read", "plan"])
    assert told["roles"][2] == {"right": "apply", "role": "vde_apply", "members": ["u_apply"]}
    assert "you are 'u_plan', who may read, plan" in vde("roles", *at).err
    monkeypatch.setenv("VDE_STATE_URL", world.url("owner"))
    sql = vde("roles", "create", "--dry-run", *at).out
    assert 'GRANT SELECT ON "public"."vde_plans" TO "vde_read";' in sql
    assert 'GRANT INSERT ON "vde_write_public"."vde_plans" TO "vde_plan";' in sql
    assert vde("roles", "grant", "apply", "u_read", *at).code == 0
    assert vde("roles", *at, "--json").json["roles"][2]["members"] == ["u_apply", "u_read"]
    assert vde("roles", "revoke", "apply", "u_read", *at).code == 0
    logged = vde("log", *at, "--json", "--limit", 2).json["log"]
    assert [(one["act"], one["user"], one["detail"]["to"]) for one in logged] == [
        ("revoke", "vde", "u_read"),
        ("grant", "vde", "u_read"),
    ]
    wrong = {
        ("grant", "apply", "u_absent"): "the database's server has no login 'u_absent'",
        ("revoke", "apply", "u_read"): "'u_read' is not in the role vde_apply",
        ("grant", "all", "u_read"): "'all' is not a right",
        ("create", "--prefix", "a-b"): "'a-b' is not a valid prefix for names of roles",
    }
    for arguments, message in wrong.items():
        refused = vde("roles", *arguments, *at)
        assert (refused.code, message in refused.err) == (2, True), refused


def test_what_is_changed_by_sql_is_in_the_log(world: World) -> None:
    with world.connect("publish") as conn:
        conn.execute("SET application_name = 'psql'")
        conn.execute("DELETE FROM vde_entries WHERE environment = 'prod'")
        conn.execute("UPDATE vde_environments SET version = 1 WHERE environment = 'prod'")
    with world.open("read") as workspace:
        first, second = workspace.store.log.latest(limit=2)
        assert (first.act, first.db_user, first.who) == ("sql", "u_publish", "psql")
        assert (first.environment, second.act) == ("prod", "grant")
        assert workspace.store.log.verify().wrong is None


def test_a_client_makes_up_neither_user_nor_time_nor_hash(world: World) -> None:
    with psycopg.connect(world.url("apply")) as conn:
        conn.execute("SET application_name = 'anna'")
        conn.execute("SELECT set_config('vde.import', 'on', false)")
        conn.execute("SET search_path = pg_temp, vde_write_public, public")
        conn.execute("CREATE TEMP TABLE vde_rights (name text, role text)")
        conn.execute("INSERT INTO vde_rights VALUES ('publish', 'vde_apply')")
        conn.execute("INSERT INTO vde_tokens VALUES ('t', 'dev', 'h', NULL, 0, 'me', NULL, NULL)")
        about = '{"token": "t"}'
        conn.execute(
            "INSERT INTO vde_log VALUES (7, 0, 'a', 'anna', 'token', 'dev', 5, %s, 'a', 'b')",
            [about],
        )
        conn.commit()
        with pytest.raises(Error, match="that needs the right to publish"):
            conn.execute("DELETE FROM vde_write_public.vde_pins WHERE environment = 'prod'")
    with world.open("read") as workspace:
        made = workspace.store.log.latest(limit=1)[0]
        assert (made.db_user, made.who, made.act) == ("u_apply", "anna", "token")
        assert abs(made.at - datetime.now(timezone.utc)) < timedelta(minutes=5)
        assert workspace.store.log.verify().wrong is None


def test_an_upgrade_by_the_owner_gives_new_tables_their_grants(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(conn: Connection) -> None:
        conn.exec_driver_sql("CREATE TABLE vde_later (a int)")
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{SCHEMA_VERSION}'")

    monkeypatch.setattr(migrate, "_run_migrations", later)
    with psycopg.connect(world.url("owner")) as conn:
        conn.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0017'")
    with pytest.raises(NotAllowedError, match="permission denied"):
        StateStore.open(world.url("publish"))
    StateStore.open(world.url("owner")).close()
    with world.connect("apply") as conn:
        conn.execute("INSERT INTO vde_later VALUES (1)")
    with world.connect("plan") as conn:
        assert conn.execute("SELECT a FROM vde_later").fetchall() == [(1,)]
        with pytest.raises(Error, match="permission denied"):
            conn.execute("DELETE FROM vde_later")


def test_an_owner_who_is_no_superuser_makes_roles(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as server:
        server.execute("CREATE ROLE keeper LOGIN CREATEROLE")
        server.execute("CREATE ROLE reader LOGIN")
        server.execute("CREATE ROLE plain LOGIN")
        server.execute("CREATE DATABASE kept OWNER keeper")
        server.execute("CREATE DATABASE plain OWNER plain")
    store = StateStore.open(postgres.url("kept").replace("vde@", "keeper@"))
    store.rights.create("shop")
    store.rights.grant("read", "reader")
    assert {one.name: one.members for one in store.rights.roles()} == {
        "shop_read": ("reader",),
        "shop_plan": (),
        "shop_apply": (),
        "shop_publish": (),
    }
    with store.database.reading() as conn:
        assert conn.exec_driver_sql("SELECT session_user").scalar() == "keeper"
    store.close()
    other = StateStore.open(postgres.url("kept").replace("vde@", "reader@"))
    assert other.log.verify().rows == 2
    with pytest.raises(NotAllowedError, match="permission denied for view vde_tokens"):
        other.tokens.create("dev", "me", None, None)
    other.close()
    without = StateStore.open(postgres.url("plain").replace("vde@", "plain@"))
    with pytest.raises(NotAllowedError, match="permission denied to create role"):
        without.rights.create("own")
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as server:
        server.execute("ALTER DATABASE plain OWNER TO vde")
    refusal = "plain may not create a schema in the database plain"
    with pytest.raises(NotAllowedError, match=refusal):
        without.rights.create("own")
    assert without.rights.roles() == []
    assert without.rights.login() == Login("plain", True, frozenset(), {})
    with psycopg.connect(postgres.url("plain").replace("vde@", "plain@")) as conn:
        conn.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    without.close()
    other = StateStore.open(postgres.url("plain").replace("vde@", "reader@"))
    assert other.rights.login() == Login("reader", False, frozenset(), {})
    other.close()


def test_a_state_in_a_file_has_no_roles(vde: Vde, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "shop", FILES)
    at = ("--project", project.root)
    assert "SQLite file: any user who can write to it may do everything" in vde("roles", *at).out
    for arguments in (("create",), ("grant", "read", "anna"), ("create", "--dry-run")):
        refused = vde("roles", *arguments, *at)
        assert refused.code == 2
        assert "a state in a SQLite file has no users, so it cannot have roles" in refused.err


def test_every_table_with_rows_of_an_environment_is_guarded(world: World) -> None:
    of_everybody = {"vde_audit_results", "vde_change_cursors"}
    with psycopg.connect(world.url("owner")) as conn:
        guarded = conn.execute(
            "SELECT DISTINCT event_object_table FROM information_schema.triggers "
            "WHERE trigger_name LIKE 'vde_guard_%'"
        ).fetchall()
    named = {table.name for table in metadata.sorted_tables if "environment" in table.c}
    assert named - of_everybody <= {name for (name,) in guarded}
