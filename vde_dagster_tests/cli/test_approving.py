"""Approving on purpose: what asks, what needs a word more without a terminal, what is rejected."""

from __future__ import annotations

import io

import pytest

from vde_dagster.base.texts import closest_by_one_letter
from vde_dagster.cli import applying
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import publish_shop
from vde_dagster_tests.projects import Prepared, ProjectFolder

TOP = "models/marts/top.sql"


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    """A project that was published, without Spark."""
    return prepared(publish_shop)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal at which somebody presses Enter; `setattr` types something else."""
    monkeypatch.setattr(applying, "is_interactive", lambda output: not output.as_json)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    return monkeypatch


def version(folder: ProjectFolder, vde: Vde) -> int:
    """Return production's version."""
    listed = vde("environments", "--project", folder.root, "--json").json["environments"]
    return int(next(one["version"] for one in listed if one["name"] == "prod"))


def drop_a_column(folder: ProjectFolder) -> None:
    folder.edit(TOP, "customer, revenue,", "customer,")


def test_a_plan_names_first_what_it_breaks(shop: ProjectFolder, vde: Vde) -> None:
    shop.edit("models/marts/customers.sql", "AS revenue", "AS turnover")
    shop.edit(TOP, "customer, revenue,", "customer, turnover AS revenue,")
    shop.edit(TOP, "ORDER BY revenue", "ORDER BY turnover")
    told = "marts.customers.revenue is renamed to turnover; read by marts.top (revenue, place)"
    shown = vde("plan", "prod", "--project", shop.root).out.splitlines()
    assert "breaking changes" in shown[1]
    assert told in shown[2]
    plan = vde("plan", "prod", "--project", shop.root, "--json").json
    assert list(plan).index("breaks") < list(plan).index("models")
    assert plan["breaks"] == [
        {
            "model": "marts.customers",
            "column": "revenue",
            "change": "renamed",
            "renamed_to": "turnover",
            "exposures": [],
            "syncs": [],
            "metrics": [],
            "from": "STRING",
            "to": None,
            "readers": [{"model": "marts.top", "columns": ["revenue", "place"]}],
        }
    ]


def test_without_a_terminal_a_break_needs_a_word_more(shop: ProjectFolder, vde: Vde) -> None:
    drop_a_column(shop)
    refused = vde("apply", "prod", "--project", shop.root, "--json")
    assert refused.code == 2
    assert (
        "it breaks published columns: marts.top.revenue is removed"
        in refused.json["error"]["message"]
    )
    assert "--yes" in refused.json["error"]["hint"]
    assert version(shop, vde) == 1
    assert vde("apply", "prod", "--yes", "--project", shop.root).code == 0
    assert version(shop, vde) == 2


def test_a_plans_id_approves_what_it_breaks(shop: ProjectFolder, vde: Vde) -> None:
    drop_a_column(shop)
    plan = vde("plan", "prod", "--project", shop.root, "--json").json["id"]
    assert vde("apply", "prod", "--plan", plan, "--project", shop.root).code == 0
    assert version(shop, vde) == 2


def test_a_new_environment_breaks_nothing_yet(shop: ProjectFolder, vde: Vde) -> None:
    drop_a_column(shop)
    assert vde("apply", "dev", "--project", shop.root).code == 0


@pytest.mark.parametrize(
    ("before", "after", "published"),
    [
        ("customer, revenue,", "customer,", 1),
        ("customer, revenue,", "revenue AS customer, customer AS revenue,", 1),
        ("customer, revenue,", "customer, revenue, customer AS who,", 2),
    ],
)
def test_at_a_terminal_enter_means_no_where_something_breaks(
    before: str,
    after: str,
    published: int,
    shop: ProjectFolder,
    vde: Vde,
    answer: pytest.MonkeyPatch,
) -> None:
    shop.edit(TOP, before, after)
    asked = vde("apply", "prod", "--project", shop.root)
    assert asked.code == 0
    assert ("[y/N]" if published == 1 else "[Y/n]") in asked.err
    assert ("not applied; to apply it, run: vde apply prod --plan" in asked.err) is (published == 1)
    assert version(shop, vde) == published


def test_at_a_terminal_yes_publishes_what_breaks(
    shop: ProjectFolder, vde: Vde, answer: pytest.MonkeyPatch
) -> None:
    drop_a_column(shop)
    answer.setattr("sys.stdin", io.StringIO("y\n"))
    assert vde("apply", "prod", "--project", shop.root).code == 0
    assert version(shop, vde) == 2


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_new_environment_one_letter_from_another_needs_create(
    command: str, shop: ProjectFolder, vde: Vde
) -> None:
    drop_a_column(shop)
    refused = vde(command, "prdo", "--project", shop.root, "--json")
    assert refused.code == 2
    said = refused.json["error"]
    assert said["message"] == "environment 'prdo' does not exist; did you mean 'prod'?"
    assert "--create" in said["hint"]
    made = vde(command, "prdo", "--create", "--project", shop.root, "--json")
    assert made.code == 0
    assert made.json.get("plan", made.json)["environment"] == "prdo"


@pytest.mark.parametrize(("typed", "planned"), [("\n", "prod"), ("n\n", "prdo")])
def test_at_a_terminal_a_mistyped_environment_is_asked_about(
    typed: str, planned: str, shop: ProjectFolder, vde: Vde, answer: pytest.MonkeyPatch
) -> None:
    drop_a_column(shop)
    answer.setattr("sys.stdin", io.StringIO(typed))
    shown = vde("plan", "prdo", "--project", shop.root)
    assert "Environment 'prdo' does not exist; did you mean 'prod'? [Y/n]" in shown.err
    assert f"plan for {planned}" in shown.out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("prdo", "prod"),
        ("pro", "prod"),
        ("prodd", "prod"),
        ("prot", "prod"),
        ("prod", None),
        ("pord2", None),
        ("dve", "dev"),
        ("dev_ana", "dev_anna"),
        ("dev1", None),
        ("dev_anna1", None),
        ("test", None),
        ("pdor", None),
    ],
)
def test_what_is_one_letter_away(typed: str, meant: str | None) -> None:
    assert closest_by_one_letter(typed, ["dev", "dev_anna", "dev2", "prod"]) == meant


def test_a_rejected_plan_says_who_when_and_why(shop: ProjectFolder, vde: Vde) -> None:
    drop_a_column(shop)
    plan = vde("plan", "prod", "--project", shop.root, "--json").json["id"]
    reject = ("plan", "reject", plan, "--reason", "the office needs it", "--project", shop.root)
    done = vde(*reject, "--json")
    assert done.code == 0
    assert done.json["status"] == "rejected"
    assert done.json["at"]
    assert done.json["message"].endswith(": the office needs it")
    refused = vde("apply", "prod", "--plan", plan, "--project", shop.root, "--json")
    assert refused.code == 1
    said = refused.json["error"]["message"]
    assert said.startswith(f"the plan {plan} was rejected by ")
    assert "the office needs it (2" in said
    assert said.endswith(" UTC)")
    assert version(shop, vde) == 1
    assert vde(*reject).code == 1, "it was rejected already"
    again = vde("plan", "prod", "--project", shop.root, "--json").json["id"]
    assert vde("apply", "prod", "--plan", again, "--project", shop.root).code == 0


def test_an_unknown_plan_cannot_be_rejected_and_needs_its_id(shop: ProjectFolder, vde: Vde) -> None:
    assert vde("plan", "reject", "prod-nothing", "--project", shop.root).code == 2
    missing = vde("plan", "reject", "--project", shop.root)
    assert missing.code == 2
    assert "ID" in missing.err
