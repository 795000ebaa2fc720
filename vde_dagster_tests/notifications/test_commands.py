"""`vde notify send` and `vde notify test` as people call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.execution.fake_workspace import publish_shop
from vde_dagster_tests.notifications.listening import Receiving

pytestmark = pytest.mark.long

__all__ = ["vde"]


@pytest.fixture
def shop(tmp_path: Path, server: Receiving) -> Path:
    publish_shop(tmp_path)
    targets = f"team = {{ url = ['{server.url('a')}', '{server.url('b')}'] }}"
    text = f"[tool.vde]\nname = 'shop'\n[tool.vde.notify.targets]\n{targets}\n"
    (tmp_path / "pyproject.toml").write_text(text)
    return tmp_path


def test_a_test_goes_to_all_addresses_of_a_target(shop: Path, server: Receiving, vde: Vde) -> None:
    called = vde("notify", "test", "team", "--project", shop)
    assert "team accepted the message" in called.out
    assert server.titles("a") == server.titles("b") == ["[shop] a test of notifications"]


def test_a_target_that_there_is_not(shop: Path, vde: Vde) -> None:
    called = vde("notify", "test", "teem", "--project", shop)
    assert called.code == 2
    assert "'teem' is not a receiver" in called.err
    assert "team" in called.err


def test_a_project_without_targets_gets_the_place_to_declare_one(tmp_path: Path, vde: Vde) -> None:
    publish_shop(tmp_path)
    called = vde("notify", "test", "team", "--project", tmp_path)
    assert called.code == 2
    assert "hint: declare one in [tool.vde.notify.targets]" in called.err


def test_sending_says_who_got_what_and_fails_where_a_service_is_down(
    shop: Path, server: Receiving, vde: Vde
) -> None:
    server.refuses = True
    called = vde("notify", "send", "--project", shop)
    assert called.code == 1
    assert "team: 0 messages; 'team' did not accept a message" in " ".join(called.out.split())
    server.refuses = False
    found = vde("notify", "send", "--project", shop, "--json").json["receivers"]
    assert [(one["receiver"], one["sent"]) for one in found] == [("team", 1), ("team/2", 1)]
    assert "team: 0 messages" in vde("notify", "send", "--project", shop).out
