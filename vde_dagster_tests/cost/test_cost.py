"""What was spent and saved, how good estimates were, and budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.work import Work
from vde_dagster.errors import ExecutionError, ProjectError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.changes.refresh import Estimate, Refresh, RefreshCode, RefreshSizes
from vde_dagster.planning.table_contents import FillFacts, dump_facts
from vde_dagster.plugins.cost.accuracy import measure_accuracy
from vde_dagster.plugins.cost.spending import list_work, total_by_group
from vde_dagster.project.loading.loader import read_settings
from vde_dagster.state.fills.fills import FillStore
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

PRICES = "[tool.vde.cost]\ncore_hour = 36.0\ncores = 2\nterabyte = 1e6\ncurrency = 'CHF'\n"
DAILY = "models/marts/daily.sql"


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "shop", {**SHOP, "pyproject.toml": PRICES})


def _set_costs(workspace: Workspace, seconds: float, written: int, **more: Any) -> None:
    """Let every fill have cost the same: the engine of these tests writes no file."""
    from sqlalchemy import update

    from vde_dagster.state.db import schema

    with workspace.store.database.transaction() as connection:
        connection.execute(update(schema.fills).values(seconds=seconds, byte_count=written, **more))


def _span(workspace: Workspace) -> tuple[Any, Any]:
    now = workspace.store.database.clock.now()
    return now - timedelta(days=1), now + timedelta(days=1)


def test_what_was_computed_skipped_and_reused_is_added_up(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        first = workspace.plan("prod")
        workspace.apply(first)
        _set_costs(workspace, 10.0, 1_000_000)
        second = workspace.plan("dev")
        workspace.apply(second)
        items = list_work(workspace, *_span(workspace))
        by_plan = total_by_group(items, "plan")
        tables = len(first.builds)
        done, reused = by_plan[first.id], by_plan[second.id]
        work = Work(10.0 * tables, 0.0, 10.0 * tables, 1e6 * tables)
        assert (done.fills, done.work) == (tables, work)
        assert (done.saved_fills, reused.fills) == (0, 0)
        assert (reused.saved_fills, reused.saved) == (tables, work)
        assert total_by_group(items, "environment")["dev"].saved == work
        assert set(total_by_group(items, "model")) == {str(model.name) for model in first.builds}
        (month,) = total_by_group(items, "month").values()
        assert month.work == done.work
        assert list_work(workspace, *_span(workspace), "dev") == [
            item for item in items if item.environment == "dev"
        ]


def test_a_reused_table_saves_what_it_would_have_cost_then(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plan("prod", restate=["marts.customers"]))
        _set_costs(workspace, 10.0, 1_000_000)
        workspace.apply(workspace.plan("dev"))
        tables = len(workspace.store.environments.get("dev").tables)  # type: ignore[union-attr]
        for _ in range(2):
            items = list_work(workspace, *_span(workspace))
            assert total_by_group(items, "environment")["dev"].saved.seconds == 10.0 * tables
            workspace.apply(workspace.plan("prod", restate=["marts.customers"]))
            _set_costs(workspace, 10.0, 1_000_000)


def test_refreshes_from_changes_are_counted_with_the_bytes_that_they_left_unread(
    shop: ProjectFolder, vde: Vde
) -> None:
    sizes = RefreshSizes(inputs=3_000_000, table=1, changed=1, scanned=1)
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        workspace.apply(plan)
        estimate = Estimate(whole=12.5, changes=8.0)
        facts = FillFacts(
            refresh=Refresh(RefreshCode.CHEAPER, tables=("m.a",), sizes=sizes, estimate=estimate)
        )
        refresh = dump_facts(facts)["refresh"]
        _set_costs(workspace, 10.0, 1, bytes_read=1_000_000, refresh=refresh)
        tables = len(plan.builds)
        (total,) = total_by_group(list_work(workspace, *_span(workspace)), "plan").values()
        assert (total.refreshed_fills, total.unread_bytes) == (tables, 2_000_000 * tables)
        assert total.unspent_seconds == 2.5 * tables
    said = vde("cost", "--project", shop.root).out
    assert f"{tables} fills refreshed from changes and left about {tables * 2.0} MB of" in said
    assert f"they took about {2.5 * tables} s less than computing all rows" in said
    json = vde("cost", "--project", shop.root, "--json").json["total"]
    assert json["unspent_seconds"] == 2.5 * tables
    assert (json["refreshed_fills"], json["unread_bytes"]) == (tables, 2_000_000 * tables)


def test_a_plan_tells_what_it_will_cost_and_on_what_that_stands(
    shop: ProjectFolder, vde: Vde
) -> None:
    with open_fake(shop.root) as workspace:
        assert workspace.plans.estimate(workspace.plan("prod")).models == {}
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    shop.write("models/new.sql", "MODEL (name marts.new, kind FULL); SELECT 1 AS x")
    said = vde("plan", "prod", "--project", shop.root, "--json").json["estimate"]
    assert said["seconds"] == {"low": 5.0, "expected": 10.0, "high": 20.0}
    # Two cores for ten seconds, and a megabyte.
    assert said["money"]["expected"] == pytest.approx(10 / 3600 * 2 * 36 + 1)
    assert said["currency"] == "CHF"
    assert said["unknown"] == ["marts.new"]
    assert said["models"]["marts.daily"]["fills"] == 1
    told = vde("plan", "prod", "--project", shop.root).err
    assert "about 10 s (5 to 20) of work" in told
    cost = "1.0 MB (500.0 kB to 2.0 MB) written, 1.20 CHF (0.60 CHF to 2.40 CHF)"
    assert f"{cost}, based on 1 earlier fill" in told
    assert "unknown for marts.new" in told


def test_money_is_that_of_tasks_and_of_bytes_both_ways_where_they_are_known(
    shop: ProjectFolder, vde: Vde
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000, task_seconds=15.0, bytes_read=2_000_000)
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    # Fifteen seconds of a core, and three megabytes.
    money = pytest.approx(15 / 3600 * 36 + 3)
    told = vde("plan", "prod", "--project", shop.root, "--json").json["estimate"]
    assert told["money"]["expected"] == money
    assert told["models"]["marts.daily"]["task_seconds"]["expected"] == 15.0
    assert told["bytes_read"]["expected"] == 2_000_000
    said = vde("plan", "prod", "--project", shop.root).err
    assert "about 10 s (5 to 20) of work, 15 s (8 to 30) of tasks" in said
    assert "2.0 MB (1.0 MB to 4.0 MB) read, 3.15 CHF (1.57 CHF to 6.30 CHF)" in said
    spent = vde("cost", "--project", shop.root, "--json").json
    assert spent["parts"]["marts.daily"]["money"] == money
    assert spent["total"]["untold_seconds"] == 0


def test_a_sum_of_fills_with_and_without_task_time_costs_what_each_of_them_does(
    shop: ProjectFolder,
) -> None:
    with open_fake(shop.root) as workspace:
        prices = workspace.settings.cost
    told, untold = Work.from_fill(10.0, 15.0, 1e6, 2e6), Work.from_fill(4.0, None, None, None)
    assert prices.price(told + untold) == pytest.approx(prices.price(told) + prices.price(untold))
    assert prices.price(untold) == pytest.approx(4 / 3600 * 2 * 36)


def test_a_plan_is_estimated_once_and_its_gates_are_asked_once(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch, vde: Vde
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    budget = "plan = [{ seconds = 9, level = 'ask' }]"
    shop.write("pyproject.toml", f"{PRICES}[tool.vde.budgets]\n{budget}\n")
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    asked: list[str] = []

    def counted(self: FillStore, tables: Iterable[str], *more: Any, **named: Any) -> Any:
        asked.append("fills")
        return recent(self, tables, *more, **named)

    recent = FillStore.recent
    monkeypatch.setattr(FillStore, "recent", counted)
    said = vde("plan", "prod", "--project", shop.root, "--json").json
    assert asked == ["fills"]
    (objection,) = said["objections"]
    assert objection["rule"] == "budget of a plan"
    assert any("budget of a plan" in warning for warning in said["warnings"])
    with open_fake(shop.root) as workspace:
        stored = workspace.store.plans.load(said["id"])
        assert [one.to_json() for one in stored.objections or ()] == [objection]
        assert workspace.plans.estimate(stored) is workspace.plans.estimate(stored)
        # What an apply is held against is asked anew.
        with pytest.raises(UsageError, match="was not applied because of rules: budget of a plan"):
            workspace.apply(stored)


def test_the_page_of_an_applied_plan_tells_what_the_plan_told(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        told = workspace.plans.estimate(plan).models
        assert list(map(str, told)) == ["marts.daily"]
        workspace.apply(plan)
        assert workspace.plans.estimate(plan).models == told


def test_estimates_are_held_against_what_happened(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
        assert measure_accuracy(workspace, *_span(workspace))["seconds"].fills == ()
        workspace.apply(workspace.plan("prod", restate=["marts.customers"]))
        by_quantity = measure_accuracy(workspace, *_span(workspace))
        assert by_quantity["task_seconds"].fills == ()
        found = by_quantity["seconds"]
        assert {one.model for one in found.fills} >= {"marts.customers"}
        assert all(one.expected == 10.0 for one in found.fills)
        assert all(one.factor >= 1 for one in found.fills)
        assert found.to_json()["fills"] == len(found.fills)
        last = max(one.at for one in found.fills)
        earlier = measure_accuracy(workspace, _span(workspace)[0], last)["seconds"]
        assert all(one.at < last for one in earlier.fills)


def test_the_command_prints_tables_and_one_json_object(shop: ProjectFolder, vde: Vde) -> None:
    words = ("--project", shop.root)
    assert vde("cost", *words).out == "nothing was computed or saved in this time\n"
    refused = vde("cost", "--accuracy", "--env", "prod", *words)
    assert (refused.code, "remove --env" in refused.err) == (2, True)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    said = vde("cost", "--by", "environment", *words, "--json").json
    assert set(said["parts"]) == {"prod"}
    assert vde("cost", "--env", "Prod", *words, "--json").json["total"] == said["total"]
    assert said["parts"]["prod"] == said["total"]
    assert said["total"]["money"] == pytest.approx(
        said["total"]["fills"] * (10 / 3600 * 2 * 36 + 1)
    )
    shown = vde("cost", *words)
    assert re.split(" {3,}", shown.out.splitlines()[1].strip()) == [
        *("model", "fills", "seconds", "task seconds", "written", "read"),
        *("saved fills", "saved seconds", "saved bytes", "cost", "saved cost"),
    ]
    assert "CHF" in shown.out
    assert shown.err.startswith("in the last 30 days\nseconds: total duration of all fills\n")
    assert (
        "nothing to compare: estimates need earlier fills" in vde("cost", "--accuracy", *words).out
    )
    assert vde("cost", "--by", "week", *words).code == 2
    assert vde("cost", "--days", "999999", *words).code == 2


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ("plan = [{ seconds = 9 }]", "10 s (5 s to 20 s), but the limit is 9 s"),
        ("plan = [{ bytes = 1e5, level = 'warn' }]", "to 2.0 MB), but the limit is 100.0 kB"),
        ("plan = [{ money = 1 }]", "to 2.40 CHF), but the limit is 1.00 CHF"),
        ("plan = [{ seconds = 11 }]", None),
        ("day = [{ seconds = 15 }]", "after 40 s already spent, but the limit is 15 s"),
        ("month = [{ seconds = 51 }]", None),
        ("environment = [{ seconds = 30, environments = ['prod'] }]", "after 40 s"),
        ("environment = [{ seconds = 30, environments = ['dev'] }]", None),
    ],
)
def test_a_budget_stops_what_would_exceed_it(
    shop: ProjectFolder, budgets: str, message: str | None
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    shop.write("pyproject.toml", f"{PRICES}[tool.vde.budgets]\n{budgets}\n")
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        found = workspace.plans.gates.objections(plan)
        assert [message in one.message for one in found] == ([True] if message else [])
        if message and "warn" not in budgets:
            before = workspace.store.environments.get("prod")
            with pytest.raises(
                UsageError, match="was not applied because of rules: budget of"
            ) as raised:
                workspace.apply(plan)
            assert raised.value.exit_code == 2
            assert workspace.store.environments.get("prod") == before
        else:
            assert workspace.apply(plan).published


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ("plan = [{ level = 'ask' }]", "limits nothing"),
        ("day = [{ bytes = 1, environments = ['feature/x'] }]", "invalid environment 'feature/x'"),
        ("plan = [{ seconds = -1 }]", "is negative"),
        ("plan = [{ seconds = nan }]", "not a number"),
        ("day = [{ seconds = 1, approvers = ['a'] }]", "has approvers but does not ask"),
        ("week = [{ seconds = 1 }]", "week"),
        ("plan = [{ hours = 1 }]", "hours"),
    ],
)
def test_a_wrong_budget_is_one_message(shop: ProjectFolder, budgets: str, message: str) -> None:
    shop.write("pyproject.toml", f"[tool.vde.budgets]\n{budgets}\n")
    with pytest.raises(ProjectError, match=message) as raised:
        read_settings(shop.root)
    assert raised.value.exit_code == 2
    assert str(raised.value).startswith("pyproject.toml:2: ")


def test_what_a_failed_attempt_computed_counts_once(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    shop.edit(DAILY, "sum(amount) AS", "sum(amount * 2) AS")
    shop.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    shop.write("pyproject.toml", f"{PRICES}[tool.vde.budgets]\nday = [{{ seconds = 75 }}]\n")
    with open_fake(shop.root, FakeSpark(["marts.customers"])) as workspace:
        plan = workspace.plan("prod")
        assert workspace.plans.estimate(plan).seconds.expected == 30.0
        with pytest.raises(ExecutionError):
            workspace.apply(plan)
        _set_costs(workspace, 10.0, 1_000_000)
        assert [one for one in list_work(workspace, *_span(workspace)) if one.plan == plan.id]
    with open_fake(shop.root) as workspace:
        assert workspace.plans.gates.objections(plan) == []


def test_an_estimate_is_the_same_after_many_fills_of_its_plan(shop: ProjectFolder) -> None:
    shop.edit(DAILY, "(time_column day)", "(time_column day, batch_size 1)")
    shop.edit(DAILY, "2024-01-05", "2024-01-21")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
        plan = workspace.plan("prod", restate=["marts.daily"])
        before = workspace.plans.estimate(plan)
        workspace.apply(plan)
    with open_fake(shop.root) as workspace:
        assert workspace.plans.estimate(plan) == before
    assert before.seconds.expected == 210.0
    assert before.unknown == ()


def test_a_plan_that_computes_nothing_is_within_a_budget_that_is_spent(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000)
    shop.write("pyproject.toml", f"{PRICES}[tool.vde.budgets]\nday = [{{ seconds = 1 }}]\n")
    shop.edit(DAILY, "kind ", "description 'By day', kind ")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        assert not plan.is_empty
        assert workspace.plans.gates.objections(plan) == []


def test_a_budget_of_money_needs_prices(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", "[tool.vde.budgets]\nplan = [{ money = 1, level = 'warn' }]\n")
    with open_fake(shop.root) as workspace:
        (found,) = workspace.plans.gates.objections(workspace.plan("prod"))
    assert found.message == (
        "its cost in money is unknown: cost.core_hour and cost.terabyte are not set"
    )


@pytest.mark.parametrize("price", ["core_hour = -1", "cores = nan", "terabyte = inf"])
def test_a_price_that_is_no_amount_is_one_message(shop: ProjectFolder, price: str) -> None:
    shop.write("pyproject.toml", f"[tool.vde.cost]\n{price}\n")
    with pytest.raises(ProjectError, match="must be 0 or more, and finite") as raised:
        read_settings(shop.root)
    assert str(raised.value).startswith("pyproject.toml:2: ")


def test_fills_whose_plan_was_deleted_are_a_group_with_a_name(
    shop: ProjectFolder, vde: Vde
) -> None:
    clock = FakeClock(datetime.now(timezone.utc) - timedelta(days=90))
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.apply(workspace.plan("prod"))
        clock.advance(days=1)
        workspace.apply(workspace.plan("prod", restate=["marts.customers"]))
        _set_costs(workspace, 10.0, 1_000_000)
        clock.advance(days=80)
        workspace.maintenance.janitor()
    words = ("--project", shop.root, "--json", "--days", "365")
    parts = vde("cost", *words, "--by", "environment").json["parts"]
    assert set(parts) == {"prod", "(a plan that was deleted)"}
