"""Promises of freshness: what is late is told once, until it was filled again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.planning.plan.plan import Category
from vde_dagster.plugins.notifications.deliver import send_notifications
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.notifications.listening import Receiving
from vde_dagster_tests.notifications.test_sending import Hours, told
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long

CUSTOMERS = "models/marts/customers.sql"


@pytest.fixture
def shop(tmp_path: Path, server: Receiving) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    told(
        folder,
        f"targets.team = {{ url = '{server.url('team')}', events = ['late'] }}",
        f"owners.anna = '{server.url('anna')}'",
    )
    promise(folder, CUSTOMERS, "cron '@hourly', freshness '2 hours', owner anna")
    promise(folder, "models/marts/top.sql", "cron '@hourly', freshness '3h'")
    return folder


def promise(folder: ProjectFolder, path: str, properties: str) -> None:
    folder.edit(path, "kind FULL", f"kind FULL, {properties}")


def test_what_is_late_is_told_once_until_it_was_filled(
    shop: ProjectFolder, server: Receiving
) -> None:
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
        clock.hours = 1
        send_notifications(workspace)
        assert server.got == [], "all is as promised"
        clock.hours = 5
        send_notifications(workspace)
        send_notifications(workspace)
        assert server.titles("team") == ["[shop] marts.customers, marts.top of prod are late"]
        (anna,) = [one for one in server.got if one["path"] == "/anna"]
        assert "marts.customers: not filled since" in anna["message"]
        assert "promised within 2 hours" in anna["message"]
        assert "marts.top:" not in anna["message"]
        assert "`vde run prod`" in anna["message"]
        clock.hours = 6
        send_notifications(workspace)
        assert len(server.titles("team")) == 1
        workspace.apply(workspace.plans.due("prod", full=True))
        send_notifications(workspace)
        clock.hours = 8.5
        send_notifications(workspace)
    assert server.titles("team")[1:] == ["[shop] marts.customers of prod is late"]


def test_a_run_that_finds_nothing_new_keeps_the_promise(
    shop: ProjectFolder, server: Receiving
) -> None:
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
        for _ in range(4):
            clock.hours += 1
            workspace.apply(workspace.plans.due("prod"))
            send_notifications(workspace)
    assert server.got == []


def test_what_was_filled_before_it_could_be_sent_is_not_told(
    shop: ProjectFolder, server: Receiving
) -> None:
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
        clock.hours = 5
        server.refuses = True
        send_notifications(workspace)
        workspace.apply(workspace.plans.due("prod", full=True))
        server.refuses = False
        send_notifications(workspace)
    assert server.got == []


def test_a_promise_is_metadata_and_dagsters_policy(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    shop.edit(CUSTOMERS, "2 hours", "1 day")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        (model,) = [one for one in plan.models if str(one.name) == "marts.customers"]
        assert model.category is Category.METADATA
        assert not plan.builds
    policies = {
        key.to_user_string(): spec.freshness_policy
        for spec in vde_definitions(shop.root).resolve_all_asset_specs()
        if (key := spec.key) and spec.freshness_policy is not None
    }
    assert {key: one.fail_window.to_timedelta() for key, one in policies.items()} == {
        "marts/customers": timedelta(days=1),
        "marts/top": timedelta(hours=3),
    }


WRONG = {
    "kind FULL, freshness 'soon'": "'soon' is not a length of time",
    "kind FULL, freshness '0 hours'": "'0 hours' is not a length of time",
    "kind FULL, cron '@daily', freshness '2 hours'": "is shorter than the time between two ticks",
    "kind VIEW, freshness '2 days'": "filled repeatedly, unlike kind VIEW",
    "kind EMBEDDED, freshness '2 days'": "filled repeatedly, unlike kind EMBEDDED",
}


@pytest.mark.parametrize(("properties", "said"), WRONG.items())
def test_a_wrong_promise_is_one_message(tmp_path: Path, properties: str, said: str) -> None:
    text = f"MODEL (\n  name a.b,\n  {properties}\n);\nSELECT 1 AS x"
    folder = ProjectFolder(tmp_path, {"models/b.sql": text})
    with pytest.raises(ProjectError) as raised, Workspace.open(folder.root) as workspace:
        assert workspace.project
    (one,) = raised.value.mistakes
    assert said in one.message
    assert str(one.location).startswith("models/b.sql:3:")
    assert one.hint


def test_a_python_model_promises_too(tmp_path: Path) -> None:
    code = """
    from vde_dagster import model

    @model("a.b", kind="FULL", columns={"x": "INT"}, freshness="36 hours")
    def execute(context, start, end, execution_time, **kwargs):
        return []
    """
    folder = ProjectFolder(tmp_path, {"models/b.py": code})
    with Workspace.open(folder.root) as workspace:
        (found,) = workspace.project.models.values()
    assert found.freshness == 36 * 3600
