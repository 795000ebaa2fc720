"""Versions times intervals, and which partition of a parent a child's partition reads."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
from dagster._core.definitions.partitions.context import partition_loading_context

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.catalog import (
    build_catalog,
    display_unit,
    partition_keys,
    partition_mapping,
    requested_ranges,
)
from vde_dagster.orchestration.models.live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SNAPSHOT, TIME
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import NOW, load_catalog, version_of
from vde_dagster_tests.projects import ProjectFolder

DAILY = ModelName("marts", "daily")
RUNNING = ModelName("marts", "running")
CUSTOMERS = ModelName("marts", "customers")


def day(number: int) -> datetime:
    return datetime(2024, 1, number, tzinfo=timezone.utc)


def test_incremental_models_have_versions_and_times(days: ProjectFolder) -> None:
    catalog = load_catalog(days)
    partitions = catalog.partitions[DAILY]
    assert isinstance(partitions, dg.MultiPartitionsDefinition)
    assert [d.name for d in partitions.partitions_defs] == [SNAPSHOT, TIME]
    times = partitions.get_partitions_def_for_dimension(TIME).get_partition_keys()
    assert times == [f"2024-01-0{n}" for n in range(1, 6)]
    versions = partitions.get_partitions_def_for_dimension(SNAPSHOT).get_partition_keys()
    assert versions == [catalog.live.models[DAILY].snapshot.table_version]


def test_other_models_have_versions_only_and_external_ones_nothing(days: ProjectFolder) -> None:
    catalog = load_catalog(days)
    partitions = catalog.partitions[CUSTOMERS]
    assert isinstance(partitions, dg.StaticPartitionsDefinition)
    key = catalog.live.models[CUSTOMERS].snapshot.table_version
    assert partitions.get_partition_keys() == [key]
    assert catalog.partitions[ModelName("finance", "rates")] is None


def test_ranges_become_the_partitions_that_lie_wholly_in_them(days: ProjectFolder) -> None:
    partitions = load_catalog(days).partitions[DAILY]
    ranges = [Interval(day(2), datetime(2024, 1, 4, 12, tzinfo=timezone.utc))]
    found = list(partition_keys(partitions, "v", ranges))
    assert [str(key) for key, _ in found] == ["v|2024-01-02", "v|2024-01-03"]
    assert found[0][1] == Interval(day(2), day(3))


def test_partitions_become_ranges_by_version(days: ProjectFolder) -> None:
    partitions = load_catalog(days).partitions[DAILY]
    assert partitions is not None
    version = load_catalog(days).live.models[DAILY].snapshot.table_version
    keys = [f"{version}|2024-01-0{n}" for n in (1, 2, 4)]
    ranges = IntervalSet.of([Interval(day(1), day(3)), Interval(day(4), day(5))])
    assert requested_ranges(partitions, keys) == {version: ranges}


def test_a_childs_day_reads_the_same_day_of_the_version_it_is_combined_with(
    days: ProjectFolder,
) -> None:
    catalog = load_catalog(days)
    child, parent = catalog.live.models[RUNNING], catalog.live.models[DAILY]
    mapping = partition_mapping(child, parent, catalog.partitions)
    upstream, downstream = catalog.partitions[DAILY], catalog.partitions[RUNNING]
    assert mapping is not None
    assert upstream is not None
    assert downstream is not None
    key = dg.MultiPartitionKey({SNAPSHOT: child.versions[0].key, TIME: "2024-01-03"})
    found = mapping.get_upstream_mapped_partitions_result_for_partitions(
        downstream.empty_subset().with_partition_keys([key]), downstream, upstream
    )
    assert set(found.partitions_subset.get_partition_keys()) == {
        f"{parent.versions[0].key}|2024-01-03"
    }


def test_a_daily_model_over_a_view_reads_the_views_version(days: ProjectFolder) -> None:
    catalog = load_catalog(days)
    parent = ModelName("staging", "orders")
    mapping = partition_mapping(
        catalog.live.models[DAILY], catalog.live.models[parent], catalog.partitions
    )
    assert isinstance(mapping, dg.SpecificPartitionsPartitionMapping)
    assert list(mapping.partition_keys) == [catalog.live.models[parent].versions[0].key]


def test_fine_cadences_over_years_are_shown_by_coarser_units(days: ProjectFolder) -> None:
    days.edit(
        "models/marts/daily.sql",
        "end '2024-01-05', cron '@daily'",
        "cron '*/5 * * * *'",
    )
    days.edit(
        "models/marts/daily.sql", "TIME_RANGE (time_column day)", "UNIQUE_KEY (unique_key day)"
    )
    snapshot = load_catalog(days).live.models[DAILY].snapshot
    assert display_unit(snapshot, day(1), NOW) is IntervalUnit.FIVE_MINUTE
    long_ago = datetime(2014, 1, 1, tzinfo=timezone.utc)
    assert display_unit(snapshot, long_ago, NOW).value > IntervalUnit.QUARTER_HOUR.value


def test_a_model_without_a_start_lists_what_its_table_holds(tmp_path: Path) -> None:
    text = """
        MODEL (name db.m, cron '@daily', kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST('2024-01-01' AS DATE) AS day, 1 AS n
    """
    folder = ProjectFolder(tmp_path / "project", {"models/m.sql": text})
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=day(10)))
        workspace.apply(workspace.plans.due("prod", now=day(11)))
        live = load_live(workspace, day(14))
        partitions = build_catalog(live, VdeTranslator(), day(14)).partitions[ModelName("db", "m")]
    assert isinstance(partitions, dg.MultiPartitionsDefinition)
    times = partitions.get_partitions_def_for_dimension(TIME)
    with partition_loading_context(effective_dt=day(14)):
        assert times.get_partition_keys() == [f"2024-01-{n:02}" for n in (9, 10, 11, 12, 13)]


def test_snapshots_are_listed_newest_first_with_their_environments_and_leave_when_unused(
    built: ProjectFolder,
) -> None:
    def shown() -> tuple[list[str], str]:
        catalog = load_catalog(built)
        partitions = catalog.partitions[RUNNING]
        assert isinstance(partitions, dg.MultiPartitionsDefinition)
        versions = partitions.get_partitions_def_for_dimension(SNAPSHOT).get_partition_keys()
        return [*versions], catalog.specs[RUNNING].description or ""

    file, older = "models/marts/running.sql", []
    with open_fake(built.root) as workspace:
        for environment, before, after in (
            ("prod", "revenue / orders", "2 * revenue / orders"),
            ("dev", "2 * revenue", "3 * revenue"),
            ("test", "3 * revenue", "4 * revenue"),
        ):
            built.edit(file, before, after)
            workspace.reload()
            workspace.apply(workspace.plan(environment))
            older.insert(0, version_of(built, "marts.running"))
        versions, text = shown()
        assert versions == older
        first, second, third = versions
        assert (
            f"Snapshot `{first}` is published in test. Snapshot `{second}` is published in dev. "
            f"Snapshot `{third}` is published in prod."
        ) in text
        workspace.apply(workspace.plan("prod"))
        versions, text = shown()
        assert versions == [first, second]
        assert f"Snapshot `{first}` is published in prod, test." in text
