"""What messages say: audits of what is published, rules, models that go, stops, links."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError, VdeError
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.plugins.notifications.deliver import send_notifications
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.notifications.listening import Receiving
from vde_dagster_tests.notifications.test_sending import Hours, told
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long


@pytest.fixture
def shop(tmp_path: Path, server: Receiving) -> ProjectFolder:
    """The shop, published, of which anna owns the customers; she and the team are told."""
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    told(
        folder,
        "dagster_url = 'https://dagster.example/'",
        f"targets.team = {{ url = '{server.url('team')}' }}",
        f"owners.anna = '{server.url('anna')}'",
    )
    folder.edit("models/marts/customers.sql", "kind FULL", "kind FULL, owner anna")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        send_notifications(workspace)
    server.got.clear()
    return folder


def test_audits_of_what_is_published_are_told(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root, FakeSpark(["marts.customers"])) as workspace:
        workspace.environments.audit("prod")
        send_notifications(workspace)
    assert [one["path"] for one in server.got] == ["/team", "/anna"]
    assert server.titles("team") == ["[shop] audits of marts.customers found failing rows in prod"]
    assert "unique_values(columns=(customer)) found 1 row" in server.got[0]["message"]
    assert "`vde apply prod --restate marts.customers --start …" in server.got[0]["message"]


def test_audits_that_find_nothing_are_not(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root) as workspace:
        workspace.environments.audit("prod")
        send_notifications(workspace)
    assert server.got == []


def test_an_audit_that_does_not_block_is_a_line_of_the_publication(
    shop: ProjectFolder, server: Receiving
) -> None:
    shop.edit("models/marts/daily.sql", "not_null(columns", "not_null(blocking := false, columns")
    shop.edit("models/marts/daily.sql", "sum(amount)", "max(amount)")
    with open_fake(shop.root, FakeSpark(["marts.daily"])) as workspace:
        workspace.apply(workspace.plan("prod"))
        send_notifications(workspace)
    (one,) = server.got
    assert "prod is at version 2" in one["title"]
    assert "marts.daily: not_null" in one["message"]
    assert "which does not block" in one["message"]


def test_the_owner_of_a_model_that_goes_is_told(shop: ProjectFolder, server: Receiving) -> None:
    for path in ("models/marts/customers.sql", "models/marts/top.sql"):
        shop.remove(path)
    with open_fake(shop.root) as workspace:
        workspace.plan("prod", author="ben")
        send_notifications(workspace)
    anna = next(one for one in server.got if one["path"] == "/anna")
    assert anna["title"].endswith("2 models changed, 2 breaking changes")
    assert "breaks: marts.customers is no longer shown" in anna["message"]
    assert "removed: marts.customers, marts.top" in anna["message"]


def test_who_may_approve_a_plan_is_told_by_which_rule(
    shop: ProjectFolder, server: Receiving
) -> None:
    settings = (shop.root / "pyproject.toml").read_text()
    shop.write(
        "pyproject.toml", f"{settings}\nowners.cleo = '{server.url('cleo')}'\n[tool.vde.policies]\n"
    )
    rule = "- {name: careful, require: 'false', level: ask, approvers: [cleo], message: read it}\n"
    shop.write("policies.yaml", rule)
    shop.edit("models/marts/daily.sql", "sum(amount)", "max(amount)")
    with open_fake(shop.root) as workspace:
        workspace.plan("prod", author="ben")
        send_notifications(workspace)
    assert sorted(one["path"] for one in server.got) == ["/cleo", "/team"]
    (cleo,) = [one["message"] for one in server.got if one["path"] == "/cleo"]
    assert "careful: read it; the plan waits for an approval of cleo" in cleo


@pytest.mark.parametrize(
    ("level", "says", "next_"),
    [
        ("refuse", "rules refuse the plan", "plan again: `vde plan prod`"),
        ("ask", "rules require an approval of the plan", "approve it with `vde apply prod --plan"),
    ],
)
def test_what_rules_hold_is_told_once_a_day(
    shop: ProjectFolder, server: Receiving, level: str, says: str, next_: str
) -> None:
    settings = (shop.root / "pyproject.toml").read_text()
    shop.write("pyproject.toml", f"{settings}\n[tool.vde.policies]\n")
    rule = (
        f"- {{name: same, each: model.breaks, require: 'false', level: {level}, message: wait}}\n"
    )
    shop.write("policies.yaml", rule)
    shop.edit("models/marts/customers.sql", "sum(amount) AS", "max(amount) AS")
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        for hours in (0, 20, 30, 40):
            clock.hours = hours
            with pytest.raises(UsageError):
                workspace.apply(workspace.plan("prod"))
            send_notifications(workspace)
    assert [one["path"] for one in server.got] == ["/team", "/anna"] * 2
    assert says in server.got[0]["title"]
    assert "same: wait" in server.got[0]["message"]
    assert next_ in server.got[0]["message"]


class Stopped(FakeSpark):
    """An engine during whose work somebody presses Ctrl-C."""

    def fill(self, task: FillTask) -> FillResult:
        raise KeyboardInterrupt


def test_a_stop_is_told_as_one_and_a_run_of_dagster_is_linked(
    shop: ProjectFolder, server: Receiving
) -> None:
    shop.edit("models/marts/daily.sql", "sum(amount)", "max(amount)")
    run = str(uuid.uuid4())
    with open_fake(shop.root, Stopped()) as workspace:
        workspace.work_for(f"instance/{run}")
        plan = workspace.plan("prod")
        with pytest.raises((KeyboardInterrupt, VdeError)):
            workspace.apply(plan)
        send_notifications(workspace)
    (one,) = server.got
    assert one["title"] == f"[shop] the plan {plan.id} of prod was stopped"
    assert one["message"].endswith(f"\nhttps://dagster.example/runs/{run}")
