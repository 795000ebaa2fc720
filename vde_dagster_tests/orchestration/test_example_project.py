"""The example `examples/dagster_project`: own assets around models, mapped by day, in one job."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest

from vde_dagster.cli.main_job import QUIET
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import version_of
from vde_dagster_tests.projects import ProjectFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster_project"
ORDERS, DAILY = dg.AssetKey(["raw", "orders"]), dg.AssetKey(["marts", "daily_revenue"])
REPORT, SUMMARY = (dg.AssetKey(["reports", name]) for name in ("daily_revenue", "summary"))


@pytest.fixture
def example(tmp_path: Path) -> ModuleType:
    """The definitions of a copy of the example, whose models production shows."""
    root = tmp_path / "example"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".vde", "__pycache__"))
    with open_fake(root) as workspace:
        types = {"order_id": "BIGINT", "amount": "DOUBLE", "day": "DATE"}
        columns = tuple((name, type_, None) for name, type_ in types.items())
        location = f"{workspace.lakehouse.warehouse}/raw/orders"
        workspace.lakehouse.create_table(NewTable(TableRef("raw", "orders"), columns, location, {}))
        workspace.apply(workspace.plan("prod", end=datetime(2024, 1, 4, tzinfo=timezone.utc)))
    spec = spec_from_file_location("definitions_of_the_example", root / "definitions.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_day_reads_the_same_day_of_the_assets_upstream(example: ModuleType) -> None:
    dg.Definitions.validate_loadable(example.defs)
    graph = example.defs.resolve_asset_graph()
    version = version_of(ProjectFolder(example.ROOT), "marts.daily_revenue")
    assert graph.get(DAILY).parent_keys == {ORDERS}
    assert graph.get(REPORT).parent_keys == graph.get(SUMMARY).parent_keys == {DAILY}
    day = dg.MultiPartitionKey({"snapshot": version, "time": "2024-01-02"})
    for child, key, parent, expected in (
        (DAILY, day, ORDERS, {"2024-01-02"}),
        (REPORT, "2024-01-02", DAILY, {str(day)}),
    ):
        node = graph.get(child)
        subset = node.partitions_def.subset_with_partition_keys([key])
        mapping = graph.get_partition_mapping(child, parent)
        found = mapping.get_upstream_mapped_partitions_result_for_partitions(
            subset, node.partitions_def, graph.get(parent).partitions_def
        )
        assert set(found.partitions_subset.get_partition_keys()) == expected


@pytest.mark.dagster
def test_one_job_computes_a_day_of_a_model_and_the_asset_that_reads_it(
    example: ModuleType, instance: dg.DagsterInstance
) -> None:
    version = version_of(ProjectFolder(example.ROOT), "marts.daily_revenue")
    key = f"{version}|2024-01-02"
    job = example.defs.resolve_job_def("revenue_and_summary")
    done = job.execute_in_process(instance=instance, partition_key=key, run_config=QUIET)
    assert done.success
    assert instance.get_materialized_partitions(DAILY) == {key}
    event = instance.get_latest_materialization_event(SUMMARY)
    assert event is not None
    assert event.run_id == done.run_id
