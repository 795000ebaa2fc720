"""What a login can try by SQL against others: old pointers, stalled writers, rows under an act."""

from __future__ import annotations

import time

import psycopg
import pytest
from psycopg.errors import Error

from vde_dagster.errors import NotAllowedError
from vde_dagster.state.db import database
from vde_dagster.state.db.guards.rights import put_guards_of_rights
from vde_dagster.state.store import StateStore
from vde_dagster_tests.access.roles_world import World
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.state.builders import environment, plan

pytestmark = pytest.mark.server


def test_fsck_finds_a_pointer_that_does_not_follow_what_production_pinned(world: World) -> None:
    with world.open("read") as workspace:
        assert workspace.maintenance.fsck() == ()
    with world.connect("publish") as conn:
        moved = conn.execute(
            "UPDATE iceberg_tables SET metadata_location = previous_metadata_location WHERE "
            "iceberg_type = 'TABLE' AND previous_metadata_location IS NOT NULL RETURNING table_name"
        ).fetchall()
        conn.commit()
    with world.open("read") as workspace:
        found = workspace.maintenance.fsck()
    wrong = [one for one in found if one.problem in ("pointer_moved", "pin_gone")]
    assert moved
    assert wrong, found
    assert any("prod" in one.detail for one in wrong)
    assert all(one.is_damage for one in wrong)


def test_a_row_of_the_log_hides_no_change_by_sql(world: World) -> None:
    with world.connect("publish") as conn:
        conn.execute(
            "INSERT INTO vde_signatures VALUES ('p', 'k', 'n', 'a', 's')",
        )
        conn.execute(
            "INSERT INTO vde_log VALUES (0, 0, '', 'me', 'sign', 'prod', NULL, "
            """'{"plan": "p"}', '', '')"""
        )
        conn.execute("UPDATE vde_environments SET version = 1 WHERE environment = 'prod'")
    with world.open("read") as workspace:
        latest = workspace.store.log.latest(limit=2)
    assert [one.act for one in latest] == ["sql", "sign"]
    with world.connect("publish") as conn:
        conn.execute(
            "INSERT INTO vde_log VALUES (0, 0, '', 'me', 'publish', 'prod', 2, '{}', '', '')"
        )
        with pytest.raises(Error, match="only in the transaction"):
            conn.commit()


def test_a_lease_is_written_by_the_login_that_took_it(world: World) -> None:
    with world.open("publish") as workspace:
        taken = workspace.store.leases.acquire("table/mine", "somebody")
    with world.connect("apply") as conn:
        with pytest.raises(Error, match="another login"):
            conn.execute("UPDATE vde_leases SET owner = 'me' WHERE resource = 'table/mine'")
        conn.rollback()
        held = conn.execute("SELECT vde_hold_lease('table/mine')").fetchall()
        assert held == [("",)]
        with psycopg.connect(world.url("owner")) as other:
            other.execute("SELECT FROM vde_leases WHERE resource = 'table/mine' FOR UPDATE NOWAIT")
    with world.open("publish") as workspace:
        workspace.store.leases.heartbeat(taken)
        workspace.store.leases.release(taken)
    with world.open("apply") as workspace:
        again = workspace.store.leases.acquire("table/mine", "me")
        assert again.token == taken.token + 1


@pytest.mark.parametrize("idle", [True, False])
def test_an_open_transaction_of_a_lesser_login_stalls_nobody_for_long(
    world: World, idle: bool
) -> None:
    with world.open("owner") as workspace:
        workspace.store.database.run_transaction(
            lambda conn: put_guards_of_rights(conn, stalled=1 if idle else 60, longest=2)
        )
    stalling = world.connect("apply")
    stalling.execute("SET idle_in_transaction_session_timeout = 0")
    stalling.execute("INSERT INTO vde_tokens VALUES ('t', 'dev', 'h', NULL, 0, 'me', NULL, NULL)")
    stalling.execute(
        "INSERT INTO vde_log VALUES (0, 0, '', 'me', 'token', 'dev', NULL, "
        """'{"token": "t"}', '', '')"""
    )
    began = time.monotonic()
    store = StateStore(database.Database(database.make_engine(world.url("publish"), 3.0)))
    token, _ = store.tokens.create("prod", "anna", None, None)
    taken = time.monotonic() - began
    assert store.log.latest(limit=1)[0].details["token"] == token.id
    store.close()
    with pytest.raises(psycopg.OperationalError):
        stalling.execute("SELECT 1")
    stalling.close()
    assert taken < 15, taken


def test_a_login_with_a_right_leaves_no_transaction_idle_by_default(world: World) -> None:
    with world.open("owner") as workspace:
        workspace.store.rights.grant("apply", "u_other")
    with psycopg.connect(world.url("other")) as conn:
        shown = conn.execute("SHOW idle_in_transaction_session_timeout").fetchone()
        assert shown == ("1min",)
    with world.open("owner") as workspace:
        workspace.store.rights.revoke("apply", "u_other")


def test_logins_that_only_read_end_no_transaction(world: World) -> None:
    with world.connect("read") as conn, pytest.raises(Error, match="right to plan"):
        conn.execute("SELECT vde_end_stalled()")


def test_whose_types_of_views_are_taken_depends_on_who_stored_them(world: World) -> None:
    types = {"a": (("n", "INT"),)}
    with world.open("apply") as workspace:
        workspace.store.snapshots.save_view_types(types)
        assert workspace.store.snapshots.view_types(["a"]) == types
    with world.open("publish") as workspace:
        assert workspace.store.snapshots.view_types(["a"]) == {}
        workspace.store.snapshots.save_view_types(types)
        assert workspace.store.snapshots.view_types(["a"]) == types
    with world.open("apply") as workspace:
        workspace.store.snapshots.save_view_types(types)
        with pytest.raises(NotAllowedError, match="right to publish"):
            workspace.store.snapshots.save_view_types({"a": (("n", "STRING"),)})


def test_a_preview_on_a_table_of_productions_needs_the_right_to_publish(
    world: World, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = world.project
    kind = "time_column day, forward_only true, on_destructive_change allow"
    text = (project.root / "models/orders.sql").read_text()
    changed = text.replace("time_column day", kind, 1)
    try:
        project.write("models/orders.sql", changed.replace("1 AS n", "1 AS n, 2 AS m"))
        with open_fake(project.root, state_url=world.url("apply")) as workspace:
            previewed = workspace.plan("dev")
            bases = [one.table.preview for one in previewed.models if one.table is not None]
            assert any(bases), previewed.models
            before = world.content()
            with pytest.raises(NotAllowedError, match="may not preview a change in place of"):
                workspace.apply(previewed)
        changed_rows = {k: v for k, v in world.content().items() if v != before[k]}
        assert changed_rows == {}
        with open_fake(project.root, state_url=world.url("publish")) as workspace:
            assert workspace.apply(workspace.plan("dev")).published
    finally:
        project.write("models/orders.sql", text)


def test_members_write_through_views_and_owners_do_not(world: World) -> None:
    with world.open("owner") as workspace:
        assert workspace.store.database.search_path() is None
    with world.open("apply") as workspace:
        path = workspace.store.database.search_path()
        assert path is not None
        assert path.startswith("vde_write_public, ")
        saved = plan("p9", "dev")
        workspace.store.plans.save(saved)
        workspace.store.plans.save(saved)
        assert workspace.store.outbox.number().newest > 0
        value = environment("other", by="me")
        workspace.store.database.run_transaction(
            lambda conn: workspace.store.environments.write_version(conn, value, 0)
        )
        assert workspace.store.log.latest(limit=1)[0].act == "rollback"
