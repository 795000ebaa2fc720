"""Commands about some models read only these and what they are made of, and say the same."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.execution import render_model
from vde_dagster.execution.plans import build_plans, gather_state
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.selection import select_by_name
from vde_dagster.state.plans.snapshots import SnapshotStore
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder, copied_project

TWIN = SHOP["models/marts/daily.sql"].replace("name marts.daily", "name marts.a_twin")
WEEKLY = """
    MODEL (name marts.weekly, start '2024-01-01', end '2024-01-05',
      kind INCREMENTAL_BY_TIME_RANGE (time_column day),
      audits (number_of_rows(threshold := 1), as_many));
    SELECT day, sum(revenue) AS revenue FROM marts.daily
    WHERE day BETWEEN @start_date AND @end_date GROUP BY day;
    AUDIT (name as_many);
    SELECT * FROM @this_model WHERE revenue > (SELECT max(revenue) FROM marts.customers)
"""
ENVIRONMENTS = ("prod", "dev")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A shop in production, of which development shows an edit; neither is filled to its end."""
    files = {**SHOP, "models/marts/twin.sql": TWIN, "models/marts/weekly.sql": WEEKLY}
    shop = ProjectFolder(tmp_path_factory.mktemp("made") / "shop", files)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod", now=datetime(2024, 1, 3, tzinfo=timezone.utc)))
    shop.edit("models/staging/orders.sql", "'cancelled'", "'returned'")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("dev", select=("staging.orders",), skip_backfill=True)
        workspace.apply(plan)
    return shop


@pytest.fixture
def shop(made: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    """A copy of it."""
    return ProjectFolder(copied_project(made.root, tmp_path / "shop"))


def _intervals(vde: Vde, shop: ProjectFolder, environment: str, *models: str) -> list[Any]:
    ended = vde("check-intervals", environment, *models, "--project", shop.root, "--json")
    assert ended.code == 0, ended.err
    return list(ended.json["models"])


@pytest.mark.proof
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_one_model_misses_is_what_the_whole_list_says(
    environment: str, shop: ProjectFolder, vde: Vde
) -> None:
    every = _intervals(vde, shop, environment)
    assert {"marts.customers", "marts.weekly"} <= {one["name"] for one in every}
    with open_fake(shop.root) as workspace:
        names = [str(name) for name in workspace.project.models]
    for name in names:
        expected = [one for one in every if one["name"] == name]
        assert _intervals(vde, shop, environment, name) == expected
    marts = [one for one in every if one["name"].startswith("marts.")]
    assert _intervals(vde, shop, environment, "MARTS.*") == marts


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_model_is_rendered_as_if_all_others_had_been_planned_too(
    environment: str, shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev", skip_backfill=True))
        names = [str(n) for n, model in workspace.project.models.items() if model.query]
        some = {name: workspace.models.render(name, environment=environment) for name in names}
        monkeypatch.setattr(render_model, "needed_models", lambda models, names: set(models))
        assert some == {
            name: workspace.models.render(name, environment=environment) for name in names
        }
    assert len(some) == 6


def test_definitions_of_other_models_are_not_read(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[ModelName] = set()
    load = SnapshotStore.load

    def noted(self: SnapshotStore, ids: Iterable[str], *rest: Any) -> dict[str, Snapshot]:
        found = load(self, ids, *rest)
        read.update(snapshot.name for snapshot in found.values())
        return found

    monkeypatch.setattr(SnapshotStore, "load", noted)
    _intervals(vde, shop, "prod", "marts.top")
    assert {str(name) for name in read} == {
        *("marts.top", "marts.customers", "staging.orders", "raw.orders")
    }
    read.clear()
    _intervals(vde, shop, "prod", "marts.a_twin")
    assert ModelName("marts", "daily") in read
    read.clear()
    assert vde("render", "marts.customers", "--project", shop.root).code == 0
    assert ModelName("marts", "daily") not in read
    assert ModelName("staging", "orders") in read


def test_what_has_to_be_hashed_again_is_hashed_with_all_the_rest(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    builder = build_plans.stored_builder

    def noted(warehouse: Any) -> Any:
        build = builder(warehouse)

        def counted(models: Any, revise: Any) -> Any:
            asked.append(len(models))
            return build(models, revise)

        return counted

    expected = _intervals(vde, shop, "prod", "marts.weekly")
    monkeypatch.setattr(build_plans, "stored_builder", noted)
    monkeypatch.setattr(gather_state, "CANONICALISER", "another")
    assert _intervals(vde, shop, "prod", "marts.weekly") == expected
    assert set(asked) == {7}


def test_an_audit_of_its_own_is_rendered_over_an_environments_tables(
    shop: ProjectFolder, vde: Vde
) -> None:
    shop.write(
        "audits/cheap.sql",
        "AUDIT (name cheap, standalone true); SELECT * FROM marts.daily WHERE day > @start_ds",
    )
    call = ("render", "cheap", "--start", "2024-01-02", "--end", "2024-01-02")
    sql = vde(*call, "--project", shop.root, "--json").json["sql"]
    assert "`lakehouse`.`vde__marts`.`" in sql
    assert "day > '2024-01-02'" in sql
    seed = vde("render", "raw.orders", "--project", shop.root)
    assert (seed.code, "raw.orders has no SQL" in seed.err) == (2, True)


def test_an_environment_that_is_not_there_renders_nothing(shop: ProjectFolder, vde: Vde) -> None:
    call = ("render", "marts.top", "--project", shop.root, "--environment")
    assert vde(*call, "DEV").code == 0
    ended = vde(*call, "dew", "--json")
    assert ended.code == 2
    assert ended.json["error"]["message"] == "environment 'dew' does not exist"
    assert "dev" in ended.json["error"]["hint"]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a.b"], {"a.b"}),
        (["A.*", "c.d"], {"a.b", "a.bb", "c.d"}),
        (["a.?"], {"a.b"}),
        (["+a.b"], None),
        (["a.b+"], None),
        (["-a.b"], None),
        (["a.b | c.d"], None),
        (["^a.b"], None),
        (["tag:x"], None),
        (["a.b", "a.nothing"], None),
        ([], None),
    ],
)
def test_names_decide_where_a_pattern_asks_for_nothing_else(
    patterns: list[str], names: set[str] | None
) -> None:
    known = [ModelName("a", "b"), ModelName("a", "bb"), ModelName("c", "d")]
    found = select_by_name(known, patterns)
    assert (None if found is None else {str(name) for name in found}) == names
