"""Notifications as a server gets them: which come, once, together, and after it was down."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, ExecutionError, UsageError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.plugins.notifications.deliver import send_message, send_notifications
from vde_dagster.plugins.notifications.settings import read_receivers
from vde_dagster.state.db.effects import SystemClock
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.notifications.listening import Receiving, receiving
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long


@pytest.fixture
def shop(tmp_path: Path, server: Receiving) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    told(folder, f"targets.team = {{ url = '{server.url('team')}' }}")
    return folder


def told(folder: ProjectFolder, *settings: str) -> None:
    text = "\n".join(["[tool.vde]", "name = 'shop'", "[tool.vde.notify]", *settings])
    folder.write("pyproject.toml", text)


def apply(workspace: Workspace, environment: str = "prod") -> None:
    workspace.apply(workspace.plan(environment))


def test_a_publication_is_told_once_with_what_to_do(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root) as workspace:
        apply(workspace)
        assert [one.sent for one in send_notifications(workspace)] == [1]
        assert [one.sent for one in send_notifications(workspace)] == [0]
    (one,) = server.got
    assert one["title"] == "[shop] prod is at version 1: 5 models changed, 4 computed"
    assert one["type"] == "success"
    assert "added: raw.orders, staging.orders, marts.customers" in one["message"]
    assert one["message"].endswith("`vde history prod` lists its versions.")


def test_models_that_are_only_recorded_as_filled_are_not_told_as_computed(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod", empty_backfill=True))
        send_notifications(workspace)
    (one,) = server.got
    assert one["title"].endswith("version 1: 5 models changed, 4 recorded as filled")


@pytest.mark.proof
def test_a_call_whose_time_is_up_leaves_the_rest_of_a_receivers_records_to_the_next(
    shop: ProjectFolder, server: Receiving
) -> None:
    told(shop, f"targets.team = {{ url = '{server.url('team')}', environments = ['*'] }}")
    sent: list[int] = []
    with open_fake(shop.root) as workspace:
        for environment in ("prod", "dev", "test"):
            apply(workspace, environment)
        position = workspace.store.outbox.cursor("notify/team")
        while position < workspace.store.outbox.number().newest and len(sent) < 99:
            answers = iter([False])  # the time is up after the first record
            (done,) = send_notifications(workspace, lambda: next(answers, True))  # noqa: B023
            sent.append(done.sent)
            before, position = position, workspace.store.outbox.cursor("notify/team")
            assert position > before
    assert max(sent) == 1
    assert len(sent) > sum(sent) == 3
    assert [title.split()[1] for title in server.titles("team")] == ["prod", "dev", "test"]


def test_a_blocked_audit_is_one_message_for_all_its_models(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root, FakeSpark(["marts.customers", "marts.daily"])) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(VdeError):
            workspace.apply(plan)
        send_notifications(workspace)
    (one,) = server.got
    assert one["title"] == (
        f"[shop] audits of marts.customers, marts.daily block the plan {plan.id} of prod"
    )
    assert one["type"] == "failure"
    assert "marts.customers: unique_values" in one["message"]
    assert "marts.daily: not_null" in one["message"]
    assert f"`vde apply prod --plan {plan.id}`" in one["message"]


def test_what_was_mended_by_then_is_not_told_any_more(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root, FakeSpark(["marts.customers"])) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(VdeError):
            workspace.apply(plan)
    with open_fake(shop.root) as workspace:
        workspace.apply(plan)
        send_notifications(workspace)
    assert server.titles("team") == ["[shop] prod is at version 1: 5 models changed, 4 computed"]


class Broken(FakeSpark):
    """An engine that cannot fill one model."""

    def fill(self, task: FillTask) -> FillResult:
        if "customers" in str(task.table.ref):
            raise ExecutionError("the disk is on fire")
        return super().fill(task)


def test_a_failed_apply_says_why(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root, Broken()) as workspace:
        plan = workspace.plan("prod")
        for _ in ("first", "tried again before the message of the first is sent"):
            with pytest.raises(VdeError):
                workspace.apply(plan)
        send_notifications(workspace)
    (one,) = server.got
    assert one["title"] == f"[shop] the plan {plan.id} of prod failed"
    assert "marts.customers: failed" in one["message"]
    assert "the disk is on fire" in one["message"]


def test_a_rollback_is_told_with_how_it_comes_back(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root) as workspace:
        apply(workspace)
    shop.edit("models/marts/top.sql", "ORDER BY revenue DESC", "ORDER BY revenue")
    with open_fake(shop.root) as workspace:
        apply(workspace)
        workspace.environments.rollback("prod")
        send_notifications(workspace)
    first, second, back = server.titles("team")
    assert first == "[shop] prod is at version 1: 5 models changed, 4 computed"
    assert second.startswith("[shop] prod is at version 2: 1 model changed, 1 computed")
    assert back == "[shop] prod was rolled back: version 3 is a rollback to 1"
    assert "`vde rollback prod` reverts this one" in server.got[1]["message"]
    assert "`vde diff prod`" in server.got[2]["message"]


def test_a_plan_that_waits_is_told_with_what_it_breaks(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root) as workspace:
        apply(workspace)
    shop.edit("models/marts/customers.sql", "sum(amount) AS revenue", "sum(amount) AS total")
    shop.edit(
        "models/marts/top.sql",
        "customer, revenue, rank() OVER (ORDER BY revenue",
        "customer, total, rank() OVER (ORDER BY total",
    )
    told(shop, f"targets.owners = {{ url = '{server.url()}', events = ['contract'] }}")
    with open_fake(shop.root) as workspace:
        looked_at = workspace.plan("prod")
        waits = workspace.plan("prod", author="anna")
        send_notifications(workspace)
        assert looked_at.id not in str(server.got)
        (one,) = server.got
        assert f"the plan {waits.id} waits for an approval" in one["title"]
        assert "proposed by anna" in one["message"]
        assert "breaks: marts.customers.revenue is renamed to total; read by" in one["message"]
        assert f"`vde plan reject {waits.id}`" in one["message"]
        workspace.apply(waits)
        send_notifications(workspace)
    assert "prod is at version 2" in server.got[-1]["title"]
    assert "breaks: marts.customers.revenue" in server.got[-1]["message"]


def test_a_plan_that_was_rejected_by_then_is_not_told(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod", author="anna")
        workspace.store.plans.reject(plan.id, "ben")
        send_notifications(workspace)
    assert server.got == []


def test_other_environments_are_told_of_where_they_are_named(
    shop: ProjectFolder, server: Receiving
) -> None:
    told(
        shop,
        f"targets.prod = {{ url = '{server.url('prod')}' }}",
        f"targets.dev = {{ url = '{server.url('dev')}', environments = ['dev*'] }}",
    )
    with open_fake(shop.root) as workspace:
        apply(workspace, "dev_anna")
        apply(workspace, "prod")
        send_notifications(workspace)
    assert server.titles("dev") == ["[shop] dev_anna is at version 1: 5 models changed, 4 computed"]
    assert server.titles("prod") == ["[shop] prod is at version 1: 5 models changed"]


def test_owners_hear_of_their_own_models(shop: ProjectFolder, server: Receiving) -> None:
    shop.edit("models/marts/customers.sql", "kind FULL", "kind FULL, owner anna")
    shop.edit("models/marts/daily.sql", "cron '@daily'", "cron '@daily', owner ben")
    told(
        shop,
        f"owners.anna = '{server.url('anna')}'",
        f"owners.ben = ['{server.url('ben')}', '{server.url('ben2')}']",
        f"owners.cleo = '{server.url('cleo')}'",
    )
    with open_fake(shop.root, FakeSpark(["marts.customers", "marts.daily"])) as workspace:
        with pytest.raises(VdeError):
            apply(workspace)
        send_notifications(workspace)
    assert sorted(one["path"] for one in server.got) == ["/anna", "/ben", "/ben2"]
    anna = next(one["message"] for one in server.got if one["path"] == "/anna")
    assert "marts.customers: unique_values" in anna
    assert "marts.daily: not_null" not in anna


def test_a_receiver_that_is_down_misses_nothing_and_delays_nobody(
    shop: ProjectFolder, server: Receiving
) -> None:
    with receiving() as other:
        port = other.port
    told(
        shop,
        f"targets.down = {{ url = 'json://127.0.0.1:{port}' }}",
        f"targets.team = {{ url = '{server.url('team')}' }}",
    )
    with open_fake(shop.root) as workspace:
        apply(workspace)
        down, team = send_notifications(workspace)
        assert (down.sent, team.sent) == (0, 1)
        assert "'down' did not accept a message" in down.problem
        with receiving(port) as again:
            again.refuses = True
            assert "did not accept" in send_notifications(workspace)[0].problem
            again.refuses = False
            assert [one.sent for one in send_notifications(workspace)] == [1, 0]
            assert len(again.got) == len(server.got) == 1


@pytest.mark.proof
def test_more_than_an_hours_messages_wait_and_come_as_one(
    shop: ProjectFolder, server: Receiving
) -> None:
    told(shop, "per_hour = 2", f"targets.team = {{ url = '{server.url()}', environments = ['*'] }}")
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        for name in ("prod", "dev_a", "dev_b"):
            apply(workspace, name)
        (done,) = send_notifications(workspace)
        assert (done.sent, done.told) == (1, 3)
        apply(workspace, "dev_c")
        assert send_notifications(workspace)[0].sent == 1
        apply(workspace, "dev_d")
        apply(workspace, "dev_e")
        (done,) = send_notifications(workspace)
        assert (done.sent, done.held) == (0, 2)
        assert len(server.got) == 2, "nothing comes before the hour is over"
        clock.hours += 1
        assert send_notifications(workspace)[0].sent == 2
    titles = server.titles()
    assert titles[0] == "[shop] 3 events"
    assert "- dev_b is at version 1" in server.got[0]["message"]
    assert [one.split()[1] for one in titles[1:]] == ["dev_c", "dev_d", "dev_e"]


def test_a_new_receiver_hears_of_the_last_day(shop: ProjectFolder, server: Receiving) -> None:
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        apply(workspace, "prod")
        clock.hours = 30
        answers = iter([False])  # the time is up after the first record
        assert send_notifications(workspace, lambda: next(answers, True))[0].sent == 0
        assert send_notifications(workspace)[0].sent == 0
        apply(workspace, "prod")
    assert server.got == []


def test_a_new_receiver_that_is_down_for_days_misses_nothing(shop: ProjectFolder) -> None:
    with receiving() as other:
        port = other.port
    told(shop, f"targets.team = {{ url = 'json://127.0.0.1:{port}' }}")
    clock = Hours()
    with open_fake(shop.root, clock=clock) as workspace:
        apply(workspace)
        assert send_notifications(workspace)[0].problem
        clock.hours = 72
        with receiving(port) as again:
            (done,) = send_notifications(workspace)
        assert (done.sent, done.forgotten, done.problem) == (1, 0, "")
    assert again.titles() == ["[shop] prod is at version 1: 5 models changed, 4 computed"]


class Hours(SystemClock):
    """A clock that is put forward by hours."""

    hours = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(hours=self.hours)


def test_one_process_sends_at_a_time(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root) as workspace:
        apply(workspace)
        with workspace.store.leases.holding("notify", "another"), pytest.raises(ConflictError):
            send_notifications(workspace)
        assert server.got == []
        assert send_notifications(workspace)[0].sent == 1


KILLED = """
import os, sys
from pathlib import Path
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.notifications import deliver

sent = deliver.send_message
def die(*given):
    sent(*given)
    if "version 2" in given[1]:
        os._exit(9)
deliver.send_message = die
with Workspace.open(Path(sys.argv[1])) as workspace:
    deliver.send_notifications(workspace)
"""


@pytest.mark.proof
def test_a_killed_sender_repeats_the_message_it_was_at_and_loses_none(
    shop: ProjectFolder, server: Receiving
) -> None:
    with open_fake(shop.root) as workspace:
        apply(workspace)
    for old, new in (("rank()", "row_number()"), ("row_number()", "dense_rank()")):
        shop.edit("models/marts/top.sql", old, new)
        with open_fake(shop.root) as workspace:
            apply(workspace)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(shop.root)], check=False)
    assert ended.returncode == 9
    clock = Hours()
    clock.hours = 1  # the dead process' lease has ended
    with open_fake(shop.root, clock=clock) as workspace:
        send_notifications(workspace)
    assert [one.split("version ")[1][0] for one in server.titles("team")] == ["1", "2", "2", "3"]


def test_secrets_are_in_no_message(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch, server: Receiving
) -> None:
    monkeypatch.setenv("PASSWORD", "hush-hush")
    server.refuses = True
    url = f"json://user:${{PASSWORD}}@127.0.0.1:{server.port}/hush-hush"
    told(shop, f"targets.team = {{ url = '{url}' }}")
    with open_fake(shop.root) as workspace:
        apply(workspace)
        (done,) = send_notifications(workspace)
        assert "503" in done.problem
        assert "hush-hush" not in f"{done}{workspace.settings}"
    monkeypatch.delenv("PASSWORD")
    with open_fake(shop.root) as workspace:
        assert "PASSWORD, which is not set" in send_notifications(workspace)[0].problem


def test_a_quoted_value_calls_nobody(shop: ProjectFolder, server: Receiving) -> None:
    with open_fake(shop.root) as workspace:
        (team,) = read_receivers(workspace.settings)
    send_message(
        team, "it failed", "cannot cast '<!channel> <@U1> @everyone' of anna@here.example", "info"
    )
    assert server.got[0]["message"].replace("\u200b", "~") == (
        "cannot cast '<!~channel> <@~U1> @~everyone' of anna@here.example"
    )


def test_without_receivers_it_is_one_message(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", "[tool.vde]\nname = 'shop'\n")
    with (
        open_fake(shop.root) as workspace,
        pytest.raises(UsageError, match="no receivers of notifications"),
    ):
        send_notifications(workspace)


def test_an_address_that_no_service_has(shop: ProjectFolder) -> None:
    told(shop, "targets.team = { url = 'carrier-pigeon://hush' }")
    with open_fake(shop.root) as workspace:
        apply(workspace)
        (done,) = send_notifications(workspace)
    assert "not valid for Apprise" in done.problem
    assert "hush" not in done.problem


def test_who_was_left_out_for_lack_of_time_comes_first_the_next_time(
    shop: ProjectFolder, server: Receiving
) -> None:
    told(
        shop,
        f"targets.a = {{ url = '{server.url('a')}' }}",
        f"targets.b = {{ url = '{server.url('b')}' }}",
    )
    with open_fake(shop.root) as workspace:
        apply(workspace)
        assert [
            one.receiver for one in send_notifications(workspace, lambda: bool(server.got))
        ] == ["a"]
        assert [one.receiver for one in send_notifications(workspace)] == ["b", "a"]
    assert [one["path"] for one in server.got] == ["/a", "/b"]
