"""What Dagster shows of costs: an asset whose events the sensor adds, or a run of it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster.orchestration.names import Names
from vde_dagster.plugins.cost.page import _months_back, cost_metadata
from vde_dagster_tests.cost.test_cost import PRICES, _set_costs
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.dagster
KEY = dg.AssetKey(["vde", "cost"])


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "shop", {**SHOP, "pyproject.toml": PRICES})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _set_costs(workspace, 10.0, 1_000_000, task_seconds=15.0, bytes_read=2_000_000)
        workspace.apply(workspace.plan("dev"))
    return folder


def test_the_page_says_what_was_spent_and_saved_and_where(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        shown = cost_metadata(workspace, Names())
    fills = shown["vde/fills"]
    assert fills == shown["vde/saved_fills"] > 1
    assert shown["vde/task_seconds"] == 15.0 * fills
    assert shown["vde/money"] == pytest.approx(fills * (15 / 3600 * 36 + 3))
    assert shown["vde/currency"] == "CHF"
    money = "| 3.15 CHF | 3.15 CHF |"
    row = f"| raw.orders {money} 1 | 10.0 | 15.0 | 1.0 MB | 2.0 MB | 1 |"
    assert row in shown["models"].value.splitlines()
    prod, dev, _, left = shown["environments"].value.splitlines()[2:]
    assert left == "Further columns: saved seconds, saved bytes"
    assert prod.startswith("| [prod](/assets/vde/environment?view=partitions&partition=prod) |")
    assert f"| 0 B | {fills} |" in dev
    assert f"{datetime.now(timezone.utc):| %Y-%m |}" in shown["months"].value


def test_the_sensor_adds_an_event_when_something_was_recorded(shop: ProjectFolder) -> None:
    definitions = vde_definitions(shop.root)
    vde_costs = definitions.resolve_sensor_def("vde_costs")
    with dg.DagsterInstance.ephemeral() as instance:
        first = vde_costs(dg.build_sensor_context(instance))
        assert isinstance(first, dg.SensorResult)
        (event,) = first.asset_events
        assert event.asset_key == KEY
        again = vde_costs(dg.build_sensor_context(instance, cursor=first.cursor))
        assert isinstance(again, dg.SkipReason)
        with open_fake(shop.root) as workspace:
            workspace.apply(workspace.plan("prod", restate=["marts.customers"]))
        later = vde_costs(dg.build_sensor_context(instance, cursor=first.cursor))
        assert isinstance(later, dg.SensorResult)
        more = later.asset_events[0].metadata["vde/fills"].value
        assert more > event.metadata["vde/fills"].value


def test_it_is_materialised_by_hand_too(shop: ProjectFolder) -> None:
    definitions = vde_definitions(shop.root)
    with dg.DagsterInstance.ephemeral() as instance:
        job = definitions.resolve_implicit_global_asset_job_def()
        assert job.execute_in_process(instance=instance, asset_selection=[KEY]).success
        event = instance.get_latest_materialization_event(KEY)
        assert event is not None
        assert event.asset_materialization is not None
        assert event.asset_materialization.metadata["vde/fills"].value > 1


def test_months_are_whole_ones_of_utc() -> None:
    now = datetime(2026, 1, 31, 23, 59, tzinfo=timezone.utc)
    assert _months_back(now, 0) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert _months_back(now, 2) == datetime(2025, 11, 1, tzinfo=timezone.utc)
