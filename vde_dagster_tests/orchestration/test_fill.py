"""Materialising a model from its page: only what was chosen, into the command line's state."""

from __future__ import annotations

from datetime import datetime, timezone

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster_tests.orchestration.conftest import (
    apply_all,
    partitions_of,
    run_job,
    version_of,
)
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]


def materialize(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    asset: str,
    first: str,
    last: str | None = None,
    raise_on_error: bool = True,
) -> dg.ExecuteInProcessResult:
    """Launch what the asset's page launches: one run over a range of partitions."""
    definitions = vde_definitions(folder.root)
    key = dg.AssetKey(asset.split("/"))
    job = definitions.resolve_implicit_global_asset_job_def()
    tags = {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last or first,
    }
    return job.execute_in_process(
        instance=instance,
        asset_selection=[key],
        tags=tags,
        run_config=QUIET,
        raise_on_error=raise_on_error,
    )


def plan_two_days(folder: ProjectFolder, instance: dg.DagsterInstance) -> str:
    """Fill only the first two days, and return the version."""
    run_job(
        folder,
        instance,
        "vde_plan_and_apply",
        {"environment": "prod", "start": "2024-01-01", "end": "2024-01-02"},
        op="plan_and_apply",
    )
    return version_of(folder, "marts.daily")


def test_a_backfill_of_the_missing_days_fills_them_and_no_others(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    version = plan_two_days(built, instance)
    assert len(partitions_of(instance, "marts/daily")) == 2
    result = materialize(
        built, instance, "marts/daily", f"{version}|2024-01-03", f"{version}|2024-01-04"
    )
    assert result.success
    assert partitions_of(instance, "marts/daily") == {
        f"{version}|2024-01-0{n}" for n in range(1, 5)
    }
    with Workspace.open(built.root) as workspace:
        environment = workspace.store.environments.get("prod")
        assert environment is not None
        entry = next(e for e in environment.entries.values() if str(e.name) == "marts.daily")
        (table,) = workspace.store.tables.load([entry.table_id or ""]).values()
        start, end = (datetime(2024, 1, n, tzinfo=timezone.utc) for n in (1, 5))
        assert table.intervals.ranges == (Interval(start, end),)


def test_a_filled_day_is_computed_again_and_tagged_with_its_own_version(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_all(built, instance)
    version = version_of(built, "marts.daily")
    built.edit("models/marts/daily.sql", "sum(amount)", "sum(amount * 2)")
    assert version_of(built, "marts.daily") != version
    materialize(built, instance, "marts/daily", f"{version}|2024-01-03")
    key = dg.AssetKey(["marts", "daily"])
    newest, *older = instance.fetch_materializations(key, limit=20).records
    tags = newest.event_log_entry.tags or {}
    assert newest.partition_key == f"{version}|2024-01-03"
    assert tags["dagster/code_version"] == version
    before = next(r for r in older if r.partition_key == newest.partition_key)
    assert (
        tags["dagster/data_version"] != (before.event_log_entry.tags or {})["dagster/data_version"]
    )


def test_a_whole_table_is_computed_again(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    apply_all(built, instance)
    version = version_of(built, "marts.customers")
    result = materialize(built, instance, "marts/customers", version)
    assert result.success
    key = dg.AssetKey(["marts", "customers"])
    assert len(instance.fetch_materializations(key, limit=5).records) == 2


def test_a_version_that_no_environment_shows_is_refused_with_what_to_do(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    version = version_of(built, "marts.daily")
    result = materialize(
        built, instance, "marts/daily", f"{version}|2024-01-03", raise_on_error=False
    )
    (failure,) = [e for e in result.all_events if e.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None
    assert "apply the plan that introduces it" in (said.description or "")


def test_a_day_whose_parents_are_missing_is_refused(
    built: ProjectFolder, instance: dg.DagsterInstance
) -> None:
    plan_two_days(built, instance)
    version = version_of(built, "marts.running")
    result = materialize(
        built, instance, "marts/running", f"{version}|2024-01-04", raise_on_error=False
    )
    (failure,) = [e for e in result.all_events if e.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None
    assert "no data for 2024-01-04 in marts.daily yet" in (said.description or "")
    assert f"{version}|2024-01-04" not in partitions_of(instance, "marts/running")
