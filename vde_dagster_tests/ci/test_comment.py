"""What a comment has beside the plan: failures at their lines, rules, links, and its limits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from vde_dagster.plugins.ci.checking import CheckResult, check_pull_request
from vde_dagster.plugins.ci.comment import check_comment, comment_marker, replace_status
from vde_dagster.plugins.ci.deploying import deploy
from vde_dagster.plugins.ci.forges.choose import choose_forge
from vde_dagster.plugins.ci.settings import CiSettings
from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.ci.servers import FakeGitHub
from vde_dagster_tests.execution.answering import AnsweringSpark
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

CUSTOMERS = "models/marts/customers.sql"
DOUBLED = (CUSTOMERS, "sum(amount) AS", "sum(amount * 2) AS")
TEST = """
test_sums:
  model: marts.customers
  inputs:
    staging.orders: {rows: [{id: 1, customer: 10, amount: 2.0, day: 2024-01-01}]}
  outputs:
    query: {rows: [{customer: 10, revenue: 2.0}]}
"""
POLICIES = """
- name: contracts
  each: model.breaks
  require: "false"
  level: ask
  approvers: [carla]
  environments: [prod]
  message: readers will see other values
- name: owners
  each: model.change == "modified"
  require: model.owner != ""
  level: {level}
  environments: [prod]
  message: a mart needs an owner
"""


def _checked(
    folder: ProjectFolder, number: int = 7, engine: FakeSpark | None = None
) -> CheckResult:
    with open_fake(folder.root, engine) as workspace:
        return check_pull_request(workspace, choose_forge(workspace), number)


def _branch(team: Team, settings: str = "", **files: str) -> ProjectFolder:
    clone = team.clone("anna")
    clone.edit(*DOUBLED)
    for path, text in files.items():
        clone.write(path.replace("__", "/").replace("_yaml", ".yaml"), text)
    pyproject = clone.root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text() + settings)
    team.commit(clone, "doubled")
    return clone


def test_a_unit_test_that_failed_is_told_at_its_line(team: Team, github: FakeGitHub) -> None:
    team.publish()
    clone = _branch(team, tests__test_customers_yaml=TEST)
    github.heads[7] = git(clone.root, "rev-parse", "HEAD")
    done = _checked(clone, engine=AnsweringSpark(right=False))
    assert not done.passed
    (remark,) = github.runs[0]["output"]["annotations"]
    path = "tests/test_customers.yaml"
    lines = (clone.root / path).read_text().splitlines()
    assert remark["path"] == path
    assert "test_sums" in lines[remark["start_line"] - 1]
    assert remark["title"] == "unit test test_sums of marts.customers"
    assert remark["message"].startswith("the model returns no column customer, revenue")
    (body,) = github.bodies(7)
    assert f"`{path}:{remark['start_line']}` unit test test_sums of marts.customers" in body


@pytest.mark.parametrize(("level", "passes"), [("warn", True), ("refuse", False)])
def test_rules_that_are_against_it_are_told_and_a_refusal_fails_the_check(
    team: Team, level: str, passes: bool
) -> None:
    pytest.importorskip("celpy")
    team.publish()
    policies = POLICIES.replace("{level}", level)
    clone = _branch(team, "[tool.vde.policies]\n", policies_yaml=policies)
    done = _checked(clone)
    assert done.passed is passes
    rules = done.comment.partition("### Rules")[2].partition("\n\n<")[0]
    assert "- **ask**: contracts: readers will see other values (marts.customers);" in (rules)
    assert f"- **{level}**: owners: a mart needs an owner (marts.customers)" in rules
    assert ("### Problems" in done.comment) is not passes


def test_a_rule_that_asks_stops_the_deployment_until_its_approver_applies_the_plan(
    team: Team,
) -> None:
    pytest.importorskip("celpy")
    team.publish()
    policies = POLICIES.replace("{level}", "warn")
    done = _checked(_branch(team, "[tool.vde.policies]\n", policies_yaml=policies))
    engine = FakeSpark()
    with open_fake(team.merge("doubled").root, engine) as workspace:
        waits = deploy(workspace, choose_forge(workspace))
        assert (waits.outcome, engine.statements) == ("waiting", 0)
        assert [reason.split(":")[0] for reason in waits.reasons] == ["contracts"]
        plan = workspace.store.plans.load(waits.plan_id)
        assert plan.entries == workspace.store.plans.load(done.plan_id).entries
        workspace.apply(plan, who="carla", approved=True)
        assert deploy(workspace, choose_forge(workspace)).outcome == "published"


def test_links_lead_to_the_environment_in_dagster_and_to_its_documentation(team: Team) -> None:
    team.publish()
    settings = (
        '[tool.vde.dagster]\nprefix = "shop"\n[tool.vde.ci]\n'
        'dagster_url = "https://dagster.example.org/"\n'
        'docs_url = "https://docs.example.org/{environment}/"\n'
    )
    comment = _checked(_branch(team, settings)).comment
    first = "https://dagster.example.org/assets/shop/vde/environment?view=partitions"
    assert f"[Dagster]({first}&partition=pr_7)" in comment
    assert "[documentation](https://docs.example.org/pr_7/)" in comment
    assert "](http" not in _checked(team.clone("bert")).comment


def _wide(number: int, plus: str) -> str:
    columns = ",\n".join(f"  amount + {plus} AS column_number_{one}" for one in range(150))
    return f"MODEL (name wide.model_{number}, kind FULL);\nSELECT id,\n{columns}\nFROM raw.orders"


def test_a_comment_is_short_enough_for_the_forge_and_says_what_it_left_out(
    team: Team, github: FakeGitHub
) -> None:
    first = ProjectFolder(team.folder / "first")
    for number in range(12):
        first.write(f"models/wide/model_{number}.sql", _wide(number, "1"))
    team.commit(first, "main")
    team.publish()
    clone = _branch(team)
    for number in range(12):
        clone.write(f"models/wide/model_{number}.sql", _wide(number, "2"))
    github.heads[7] = team.commit(clone, "doubled")
    assert _checked(clone).passed
    (body,) = github.bodies(7)
    assert 20_000 < len(body) < 65_536
    assert "Reasons and changes: 14 models" in body
    assert 3 < body.count("column_number_149") < 24, "of some models, both lines"
    assert re.search(r"… and \d+ more", body)
    assert "| `wide.model_11`" in body
    for number in range(12):
        text = _wide(number, "2").replace("amount + 2 AS column_number_7", "amout AS other")
        clone.write(f"models/wide/model_{number}.sql", "\n".join([text, "WHERE nope > 1"]))
    for number in range(40):
        clone.write(f"models/few_{number}.sql", f"MODEL (name few.m{number}); SELECT x FROM no.t")
    github.heads[7] = team.commit(clone, "doubled")
    assert not _checked(clone).passed
    (body,) = github.bodies(7)
    assert body.count("\n- `models/") == 30
    assert "\n- and " in body


def test_parts_that_have_no_room_are_counted_and_later_ones_still_told(team: Team) -> None:
    with open_fake(team.folder / "first") as workspace:
        text = check_comment(workspace, 7, "pr_7", "fine", ["x" * 70_000, "short"])
        assert text.startswith(f"{comment_marker(workspace, 7)}\n")
        assert "short" in text
        assert text.endswith("… 1 section left out: the comment would be too long\n")


def test_nobody_is_mentioned_and_no_text_is_taken_for_the_status(team: Team) -> None:
    with open_fake(team.folder / "first") as workspace:
        text = check_comment(workspace, 7, "pr_7", "by @anna", ["see @bert `@carla`"])
        assert "@anna" not in text
        assert "@bert" not in text
        later = replace_status(workspace, 7, text, r"done \1 \g<0>")
        assert r"done \1 \g<0>" in later
        assert later.count("<!-- vde status -->") == 1
        assert "see @" in later
        assert "by @" not in later


def test_a_long_status_has_room_in_a_comment_that_is_full(team: Team) -> None:
    with open_fake(team.folder / "first") as workspace:
        before = check_comment(workspace, 7, "pr_7", "fine", ["x" * 59_000])
        reasons = "\n".join(f"- reason {number} {'y' * 300}" for number in range(30))
        text = replace_status(workspace, 7, before, f"## waits\n{reasons}")
    assert len(text) < 65_536
    assert reasons in text
    assert text.startswith(before.partition("\n")[0])
    assert text.endswith("… the rest is left out: the comment would be too long\n")


def test_each_project_of_a_repository_has_a_comment_of_its_own(team: Team) -> None:
    team.publish()
    clone = _branch(team)
    with open_fake(clone.root) as workspace:
        first = comment_marker(workspace, 7)
    text = (clone.root / "pyproject.toml").read_text()
    (clone.root / "pyproject.toml").write_text(text.replace('id = "shop"', 'id = "a --> b"'))
    with open_fake(clone.root) as workspace:
        other = comment_marker(workspace, 7)
    assert first == "<!-- vde ci shop 7 -->"
    assert other != first
    assert other.count("-->") == 1


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"forge": "gitea"}, "forge"),
        ({"prefix": "pr-"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"samples": -1}, "samples"),
        ({"remote": "--upload-pack=touch x"}, "remote"),
        ({"dagster_url": "javascript:alert(1)"}, "dagster_url"),
        ({"docs_url": "docs"}, "docs_url"),
    ],
)
def test_settings_that_say_nothing_are_mistakes(settings: dict[str, Any], key: str) -> None:
    ((found, _, hint),) = CiSettings(**settings).mistakes()
    assert (found, bool(hint)) == (key, True)
    assert list(CiSettings().mistakes()) == []
