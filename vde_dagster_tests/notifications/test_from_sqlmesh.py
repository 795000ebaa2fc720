"""SQLMesh's notification targets, in YAML and in Python, become receivers that send."""

from __future__ import annotations

from pathlib import Path

import apprise
import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.notifications.deliver import send_notifications
from vde_dagster.plugins.notifications.settings import read_receivers
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

HOOK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
YAML = """
model_defaults: {dialect: spark}
notification_targets:
- type: slack_webhook
  url: "{{ env_var('SLACK_HOOK') }}"
  notify_on: [apply_start, apply_failure, run_failure]
- type: slack_api
  token: "{{ env_var('SLACK_TOKEN') }}"
  channel: "#data"
  notify_on: [apply_end]
- type: smtp
  host: mail.example.org
  user: vde
  password: "{{ env_var('MAIL_PASSWORD') }}"
  sender: vde@example.org
  recipients: [anna@example.org, ben@example.org]
  notify_on: [audit_failure]
- type: teams_webhook
  url: https://example.org
  notify_on: [apply_end]
- type: smtp
  host: mail.example.org
  notify_on: [apply_end]
- type: console
  notify_on: [run_start]
users:
- username: anna
  notification_targets:
  - {type: console, notify_on: [audit_failure, run_end]}
- username: ben
"""
PYTHON = """
import os
from sqlmesh.core.config import Config, ModelDefaultsConfig
from sqlmesh.core.notification_target import (
    BasicSMTPNotificationTarget, ConsoleNotificationTarget, SlackApiNotificationTarget,
)
from sqlmesh.core.config import NotificationEvent
from sqlmesh.core.user import User

config = Config(
    model_defaults=ModelDefaultsConfig(dialect="spark"),
    notification_targets=[
        SlackApiNotificationTarget(
            token=os.environ["SLACK_TOKEN"], channel="#data",
            notify_on=[NotificationEvent.RUN_FAILURE],
        ),
        ConsoleNotificationTarget(notify_on=["apply_end"]),
    ],
    users=[User(username="anna", notification_targets=[
        BasicSMTPNotificationTarget(
            host="mail.example.org", sender="vde@example.org", recipients=["anna@example.org"],
            password=os.environ["MAIL_PASSWORD"], user="vde", notify_on={"audit_failure"},
        ),
    ])],
)
"""


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_HOOK", HOOK)
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-1234-1234-4ddbc191d40ee098cbaae6f3523ada2d")
    monkeypatch.setenv("MAIL_PASSWORD", "p@ss/w:rd")


def test_targets_in_yaml(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, {"config.yaml": YAML})
    with Workspace.open(folder.root) as workspace:
        settings = workspace.settings
        found = {one.name: one for one in read_receivers(settings)}
    assert {name: set(one.events) for name, one in found.items()} == {
        "slack_webhook": {"run_failed", "audit_blocked"},
        "slack_api": {"publication", "rollback"},
        "smtp": {"audit_blocked"},
        "owner:anna": {"audit_blocked", "run"},
    }
    assert found["slack_webhook"].url == "${SLACK_HOOK}"
    assert found["slack_api"].url == "slack://${SLACK_TOKEN}/#data"
    assert all(one.wants_environment("dev_anna", settings) for one in found.values())
    assert settings.config_warnings == (
        "3 keys have no effect: notification_targets.3 (teams_webhook), "
        "notification_targets.4 (smtp), notification_targets.5 (console)",
    )
    kept = str(settings.plugins)
    assert "p@ss/w:rd" not in kept
    assert "xoxb" not in kept
    assert "T1JJ3T3L2" not in kept


def test_targets_in_python(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, {"config.py": PYTHON})
    with Workspace.open(folder.root) as workspace:
        found = {one.name: one for one in read_receivers(workspace.settings)}
        warnings = workspace.settings.config_warnings
    assert set(found) == {"slack_api", "console", "owner:anna"}
    mail = found["owner:anna"].url
    assert mail["password"] == "${MAIL_PASSWORD}"  # type: ignore[index]
    assert warnings == ()


def test_apprise_takes_their_addresses(tmp_path: Path) -> None:
    from vde_dagster.api.values import expand_secrets

    folder = ProjectFolder(tmp_path, {"config.yaml": YAML})
    with Workspace.open(folder.root) as workspace:
        urls = {one.name: one.url for one in read_receivers(workspace.settings)}
    hook, api, mail = (
        apprise.Apprise.instantiate(expand_secrets(urls[name]))
        for name in ("slack_webhook", "slack_api", "smtp")
    )
    assert (hook.mode, hook.token_a) == ("hook", "T1JJ3T3L2")
    assert (api.mode, api.channels) == ("bot", ["#data"])
    assert (mail.smtp_host, mail.port, mail.secure_mode) == ("mail.example.org", 465, "ssl")
    assert (mail.user, mail.password) == ("vde", "p@ss/w:rd")
    assert [address for _, address in mail.targets] == ["anna@example.org", "ben@example.org"]


def test_the_console_gets_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = "notification_targets: [{type: console, notify_on: [apply_end]}]\n"
    folder = ProjectFolder(tmp_path, {**SHOP, "config.yaml": f"project: shop\n{config}"})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev"))
        assert [one.sent for one in send_notifications(workspace)] == [1]
    assert "[shop] dev is at version 1" in capfd.readouterr().err


def test_an_address_that_is_none_is_one_message_with_its_place(tmp_path: Path) -> None:
    config = "notification_targets:\n- {type: slack_webhook, url: hush, notify_on: [run_end]}\n"
    folder = ProjectFolder(tmp_path, {"config.yaml": f"project: shop\n{config}"})
    with pytest.raises(ProjectError) as raised, Workspace.open(folder.root) as workspace:
        assert workspace.settings
    (one,) = raised.value.mistakes
    assert one.message == "setting 'notify.targets.slack_webhook.url' is not a URL"
    assert str(one.location) == "config.yaml:2"
    assert "hush" not in str(one)
