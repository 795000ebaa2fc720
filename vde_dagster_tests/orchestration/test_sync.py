"""`vde sync`: Dagster's view is rebuilt from the state store, once."""

from __future__ import annotations

import dagster as dg
import pytest

from vde_dagster.base.times import parse_instant
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.names import SHORT
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster_tests.orchestration.conftest import apply_all, partitions_of
from vde_dagster_tests.orchestration.graphql import open_location
from vde_dagster_tests.orchestration.test_staleness import DAYS, versions_of
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

ASSETS = ("marts/daily", "marts/running", "marts/top", "marts/customers", "raw/orders")


def figures_of(instance: dg.DagsterInstance) -> dict[str, tuple[object, object]]:
    """Return rows and bytes of each day, of what one fill wrote; its own are at the newest day."""
    records = instance.fetch_materializations(dg.AssetKey(["marts", "daily"]), limit=99).records
    found = {}
    of_fill = set()
    for record in records:
        event = record.asset_materialization
        assert event is not None
        facts = {name: value.value for name, value in event.metadata.items()}
        assert facts["vde/fill_intervals"] == 5
        day = str(event.partition).partition("|")[2]
        if "vde/fill_rows" in facts:
            assert facts["vde/fill_rows"] == 3
            assert facts["vde/fill_seconds"] > 0
            of_fill.add(day)
        found[day] = (facts["dagster/partition_row_count"], facts["vde/bytes"])
    assert of_fill == {max(found)}
    return dict(sorted(found.items()))


def test_an_empty_instance_gets_what_the_state_store_knows_and_nothing_twice(
    built: ProjectFolder,
    instance: dg.DagsterInstance,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply_all(built, instance)
    apply_all(built, instance, "dev")
    empty = dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("home")))
    with Workspace.open(built.root) as workspace:
        report = sync(workspace, empty)
        assert not workspace.started_engine
        assert report.materializations == 5 + 5 + 4
        assert report.environments == 2
        assert report.checks == 4, "two of audits, and those of two plans"
        assert report.plans == 4
        assert sync(workspace, empty).is_empty
        assert sync(workspace, instance).is_empty
    for asset in (*ASSETS, "staging/orders", "vde/environment"):
        assert partitions_of(empty, asset) == partitions_of(instance, asset), asset
    assert figures_of(empty) == figures_of(instance)
    rows, sizes = zip(*figures_of(instance).values(), strict=True)
    assert rows == (1, 0, 1, 0, 1)
    assert [bool(size) for size in sizes] == [True, False, True, False, True]
    assert len(empty.fetch_materializations(SHORT.environment_key, limit=9).records) == 2
    versions = versions_of(built)
    with open_location(built.root, empty, monkeypatch) as location:
        keys = [f"{versions['marts.running']}|{day}" for day in DAYS]
        assert set(location.stale("marts/running", keys).values()) == {"FRESH"}


def test_what_the_command_line_did_is_added(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    with Workspace.open(built.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    with Workspace.open(built.root) as workspace:
        assert not sync(workspace, instance).is_empty
        assert len(partitions_of(instance, "marts/daily")) == 5

        # What the state no longer holds is shown as missing again.
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        entry = next(e for e in environment.entries.values() if str(e.name) == "marts.daily")
        day = Interval(parse_instant("2024-01-03"), parse_instant("2024-01-04"))
        workspace.store.fills.remove(entry.table_id or "", day)
        report = sync(workspace, instance)
        assert (report.wiped, report.materializations) == (1, 4)
        left = {key.split("|")[1] for key in partitions_of(instance, "marts/daily")}
        assert left == {"2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"}
        assert sync(workspace, instance).is_empty
