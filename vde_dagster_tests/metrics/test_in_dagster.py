"""Metrics are assets behind what they read, and a materialization is the value of a publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.metrics.conftest import METRICS
from vde_dagster_tests.metrics.test_definitions import DAYS, SPINE
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder

pytest.importorskip("metricflow")


BY_TIME = """
---
metric:
  name: in_two_days
  type: cumulative
  type_params:
    cumulative_type_params: {metric: {name: revenue}, window: 2 days}
"""


def _publish(root: Path) -> None:
    files = {
        "metrics/shop.yaml": METRICS.read_text() + BY_TIME + SPINE,
        "models/raw/days.sql": DAYS,
    }
    folder = ProjectFolder(root, {**SHOP, **files})
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))


@pytest.mark.spark
def test_metrics_stand_behind_their_models_and_tell_their_values(
    prepared: Prepared, spark_engine: SparkEngine
) -> None:
    definitions = vde_definitions(prepared(_publish).root)
    graph = definitions.resolve_asset_graph()
    names = ("revenue", "orders", "in_two_days", "orders_of_big", "revenue_per_size")
    keys = {name: dg.AssetKey(["metric", name]) for name in names}
    published, orders = dg.AssetKey(["vde", "environment"]), dg.AssetKey(["staging", "orders"])
    assert graph.get(keys["revenue"]).parent_keys == {published, orders}
    customers = dg.AssetKey(["marts", "customers"])
    assert graph.get(keys["orders_of_big"]).parent_keys == {published, orders, customers}

    def told(*asked: str) -> dict[str, dict[str, Any]]:
        with dg.DagsterInstance.ephemeral() as instance:
            job = definitions.resolve_implicit_global_asset_job_def()
            run = job.execute_in_process(
                asset_selection=[keys[name] for name in asked], instance=instance
            )
            events = run.asset_materializations_for_node("vde_metrics")
        return {
            event.asset_key.path[-1]: {name: one.value for name, one in event.metadata.items()}
            for event in events
        }

    # A metric over a window of time has no value of the whole.
    newest = {"metric_time": "2024-01-06", "value": 1.0}
    assert told("revenue", "orders", "in_two_days") == {
        "revenue": {"value": 33.5, "version": 1, "environment": "prod"},
        "orders": {"value": 4, "version": 1, "environment": "prod"},
        "in_two_days": {**newest, "version": 1, "environment": "prod"},
    }
    (saved,) = told("revenue_per_size").values()
    assert saved["rows"].splitlines() == [
        "| buyer__is_big | revenue |",
        "|---|---|",
        "| False | 13.5 |",
        "| True | 20 |",
    ]
