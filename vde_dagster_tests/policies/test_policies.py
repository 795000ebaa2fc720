"""Rules over plans: what they see, whom they stop, and what is said of wrong ones."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from vde_dagster.errors import ProjectError, UsageError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.jobs.sensors import applies_itself
from vde_dagster.planning.plan.plan import Objection
from vde_dagster.plugins.policies import rules
from vde_dagster.plugins.policies.gate import plan_facts
from vde_dagster.plugins.policies.rules import make_variables, read_rules
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long

SETTINGS = "[tool.vde.policies]\n"
OWNERS = """
- name: owners
  each: model.namespace == "marts" && model.change != "removed"
  require: model.owner != ""
  message: a mart needs an owner
"""
BREAKS = """
- name: contracts
  each: model.breaks
  require: "false"
  level: ask
  approvers: [owners, carla]
  message: readers will see other values.
"""


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    files = {name: text for name, text in SHOP.items() if "customers" not in name}
    del files["models/marts/top.sql"]
    return ProjectFolder(tmp_path / "shop", {**files, "pyproject.toml": SETTINGS})


def _rules(folder: ProjectFolder, text: str) -> None:
    folder.write("policies.yaml", text)


def _owned(folder: ProjectFolder) -> None:
    folder.edit("models/marts/daily.sql", "cron '@daily'", "cron '@daily', owner anna")


def _refused(workspace: Workspace, **how: Any) -> str:
    plan = workspace.plan("prod")
    with pytest.raises(UsageError, match="was not applied because of rules") as raised:
        workspace.apply(plan, **how)
    assert raised.value.exit_code == 2
    assert workspace.store.environments.get("prod") is None
    return f"{raised.value.message} | {raised.value.hint}"


def test_what_a_rule_refuses_nobody_applies_and_everybody_reads(shop: ProjectFolder) -> None:
    _rules(shop, OWNERS)
    with open_fake(shop.root) as workspace:
        said = "owners: a mart needs an owner (marts.daily); the plan cannot be applied"
        assert said in workspace.plan("prod").notices
        for how in ({}, {"approved": True, "who": "anna"}):
            assert "owners: a mart needs an owner (marts.daily)" in _refused(workspace, **how)
    _owned(shop)
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        assert not [one for one in plan.notices if "owner" in one]
        assert workspace.apply(plan).published


def test_what_a_rule_asks_the_owner_approves_who_read_that_plan(shop: ProjectFolder) -> None:
    _rules(shop, BREAKS)
    _owned(shop)
    with open_fake(shop.root) as workspace:
        assert workspace.apply(workspace.plan("prod")).published, "nothing is published yet"
    shop.edit("models/marts/daily.sql", "sum(amount) AS", "sum(amount * 2) AS")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        (found,) = workspace.plans.gates.objections(plan)
        assert (found.level, found.approvers) == ("ask", ("anna", "carla"))
        assert found.models == ("marts.daily",)
        for how in ({"who": "anna"}, {"who": "bert", "approved": True}):
            with pytest.raises(UsageError, match="readers will see other values") as raised:
                workspace.apply(plan, **how)
            assert raised.value.hint is not None
            assert raised.value.hint.startswith("anna, carla can approve it")
            assert f"--plan {plan.id}" in raised.value.hint
        assert workspace.apply(plan, who="Anna", approved=True).published


def test_where_an_owner_is_asked_and_there_is_none_nobody_approves(shop: ProjectFolder) -> None:
    asked = BREAKS.replace("each: model.breaks", 'each: model.namespace == "marts"')
    _rules(shop, asked.replace(", carla", ""))
    with open_fake(shop.root) as workspace:
        told = _refused(workspace, who="anna", approved=True)
        assert "no model has an owner who could approve it" in told


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('plan.environment != "prod"', "against"),
        ("plan.models.all(m, m.bytes < 1000)", None),
        ("plan.models.all(m, m.money < 1.0 && m.task_seconds < 1.0 && m.bytes_read < 1)", None),
        ("plan.models.exists(m, m.computes)", None),
        ("!plan.models.exists(m, m.computes)", "against"),
        ('plan.models.filter(m, m.kind == "VIEW").size() == 1', None),
        ("now.getDayOfWeek() in [0, 6]", "against"),
        ('now < timestamp("2030-01-01T00:00:00Z")', None),
        ("plan.breaks.size() == 0", None),
    ],
)
def test_expressions_see_the_plan_its_models_and_the_time(
    shop: ProjectFolder, rule: str, message: str | None
) -> None:
    _rules(shop, f"- {{name: r, require: '{rule}', message: against}}")
    with open_fake(shop.root) as workspace:
        (read,) = read_rules(workspace, ("policies.yaml",))
        monday = datetime(2024, 1, 1, tzinfo=timezone.utc)
        found = read.objection(
            make_variables(plan_facts(workspace, workspace.plan("prod")), monday)
        )
        assert (found.message if found else None) == message


def test_earlier_fills_say_what_a_computation_costs(shop: ProjectFolder) -> None:
    _rules(shop, "")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    shop.edit("models/marts/daily.sql", "sum(amount) AS", "sum(amount * 2) AS")
    limit = "- {name: cost, each: model.computes, require: model.rows < %d, message: too much}"
    for most, count in ((1_000_000, 0), (0, 1)):
        _rules(shop, limit % most)
        with open_fake(shop.root) as workspace:
            assert len(workspace.plans.gates.objections(workspace.plan("prod"))) == count


def test_rules_are_for_environments_and_kinds_of_plans_and_may_only_warn(
    shop: ProjectFolder,
) -> None:
    _rules(shop, OWNERS + "  environments: [prod]\n")
    with open_fake(shop.root) as workspace:
        assert workspace.apply(workspace.plan("dev")).published
        _refused(workspace)
    _rules(shop, OWNERS + "  level: warn\n")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        assert "owners: a mart needs an owner (marts.daily)" in plan.notices
        assert applies_itself(plan, "always")
        assert workspace.apply(plan).published
        assert workspace.apply(workspace.plans.due("prod")).published is False


def test_a_project_without_the_table_has_no_rules(shop: ProjectFolder) -> None:
    _rules(shop, OWNERS)
    shop.write("pyproject.toml", "[tool.vde]\n")
    with open_fake(shop.root) as workspace:
        assert workspace.apply(workspace.plan("prod")).published


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: owners", "policies.yaml:1.*rules must be a list"),
        ("- name: a\n  message: m", "policies.yaml:1.*a rule is invalid: .*require"),
        ("- name: a\n  message: m\n  requires: 'true'", "policies.yaml:3.*unknown field"),
        (
            "- name: a\n  message: m\n  require: 'plan.models.'",
            "policies.yaml:3.*not a CEL expression",
        ),
        ("- {name: a, message: m, require: 'true'}\n" * 2, "policies.yaml:2.*occurs twice"),
        (BREAKS.replace("level: ask", "level: warn"), "policies.yaml:5.*approvers, but its level"),
        (
            BREAKS.replace("each: model.breaks", ""),
            "asks the owners of models, but selects no models",
        ),
        ("- {name: a, message: m, require: plan.nothing}", "policies.yaml:1.*cannot be evaluated"),
        ("- {name: a, message: m, require: '1'}", "policies.yaml:1.*not true or false"),
        ("- {name: a, message: m, require: plan.models.all(m)}", "policies.yaml:1.*be evaluated"),
        ("- {name: a, message: m, require: 'plan.models.map(1, 2)'}", "policies.yaml:1.*evaluated"),
        (f"- {{name: a, message: m, require: '{'(' * 300}1{')' * 300}'}}", "policies.yaml:1"),
        (f"- {{name: a, message: m, require: '1{' + 1' * 3000} > 1'}}", "policies.yaml:1"),
        ("- {name: a, message: m, require: modl.name}", "'modl'$"),
        ("- {name: a, message: m, require: plan}", "not true or false: .{200,300}…$"),
        (None, "policies.yaml: No such file"),
    ],
)
def test_a_wrong_rule_is_one_message_with_its_place_and_stops_the_plan(
    shop: ProjectFolder, text: str | None, message: str
) -> None:
    if text is not None:
        _rules(shop, text)
    with open_fake(shop.root) as workspace:
        with pytest.raises(VdeError) as raised:
            workspace.plan("prod")
        assert re.search(message, f"{raised.value.location}: {raised.value.message}", re.DOTALL)
        assert len(raised.value.message) < 5_000
        assert raised.value.hint
        assert raised.value.exit_code == 2


def test_rules_that_are_not_utf_8_are_one_message(shop: ProjectFolder) -> None:
    (shop.root / "policies.yaml").write_bytes("# für alle\n".encode("latin-1"))
    with (
        open_fake(shop.root) as workspace,
        pytest.raises(ProjectError, match=r"policies\.yaml:1: the file is not UTF-8: byte 0xfc"),
    ):
        workspace.plan("prod")


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ([Objection("r", "m", "block")], "level='block'"),  # type: ignore[arg-type]
        (["against"], "it returned 'against'"),
        (None, "TypeError: "),
    ],
)
def test_a_gate_that_returns_something_else_lets_no_plan_pass(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch, returned: Any, why: str
) -> None:
    _rules(shop, "")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        found = SimpleNamespace(find=lambda name: lambda *_: returned)
        monkeypatch.setattr("vde_dagster.execution.plans.gates.GATES", found)
        with pytest.raises(UsageError, match=f"the gate 'policies' cannot decide .*{why}"):
            workspace.apply(plan)
        assert workspace.store.environments.get("prod") is None


@pytest.mark.parametrize(
    "expression",
    [
        "{0}.all(a, {0}.all(b, {0}.all(c, {0}.all(d, a + b + c + d >= 0))))",
        "{0}.map(a, {0}.map(b, {0}.map(c, {0}.map(d, a * b * c * d)))).size() > 0",
        "size({0}.filter(a, {0}.exists(b, {0}.exists(c, {0}.exists(d, a + b + c + d < 0))))) == 0",
    ],
)
def test_a_rule_that_takes_too_long_is_refused_with_its_place(
    shop: ProjectFolder, expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_MOST_SECONDS", 0.2)
    numbers = str(list(range(100)))
    _rules(shop, f"- name: slow\n  require: {expression.format(numbers)!r}\n  message: slow\n")
    with (
        open_fake(shop.root) as workspace,
        pytest.raises(UsageError, match=r"policies.yaml:1: the rule 'slow' .* more than 0.2 s"),
    ):
        workspace.plan("prod")


def test_a_rule_that_takes_too_long_is_told_so_although_its_library_hides_that(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "_MOST_SECONDS", 0.01)

    def evaluate(_: object) -> None:
        with suppress(BaseException):
            sleep(10)
        raise ValueError("no such overload")

    _rules(shop, "- {name: slow, require: 'true', message: slow}\n")
    with open_fake(shop.root) as workspace:
        (rule,) = read_rules(workspace, ("policies.yaml",))
        variables = {"plan": {"kind": "plan", "environment": "prod", "models": []}}
        with pytest.raises(UsageError, match=r"it takes more than 0\.01 s"):
            replace(rule, require=SimpleNamespace(evaluate=evaluate)).objection(variables)


@pytest.mark.parametrize("start", ["'aaaaaaaa'", "[1]", "b'aaaa'"])
def test_a_rule_that_makes_large_texts_is_refused_with_its_place(
    shop: ProjectFolder, start: str
) -> None:
    doubled = f"[{start}]" + ".map(a, a + a)" * 60 + ".size() == 1"
    _rules(shop, f'- name: large\n  require: "{doubled}"\n  message: large\n')
    with (
        open_fake(shop.root) as workspace,
        pytest.raises(
            UsageError, match=r"policies.yaml:1: the rule 'large' .* more than 1,000,000"
        ),
    ):
        workspace.plan("prod")


def test_who_makes_himself_the_owner_does_not_approve_his_change(shop: ProjectFolder) -> None:
    _rules(shop, BREAKS.replace("[owners, carla]", "[owners]"))
    _owned(shop)
    with open_fake(shop.root) as workspace:
        assert workspace.apply(workspace.plan("prod")).published
    shop.edit("models/marts/daily.sql", "sum(amount) AS", "sum(amount * 2) AS")
    shop.edit("models/marts/daily.sql", "owner anna", "owner eve")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(UsageError, match="was not applied because of rules"):
            workspace.apply(plan, who="eve", approved=True)
        assert workspace.apply(plan, who="anna", approved=True).published
