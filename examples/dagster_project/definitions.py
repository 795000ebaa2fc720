"""One code location: models, your own assets upstream and downstream of them, one job over both.

    vde ui --project examples/dagster_project

`definitions_with_dbt.py` adds the assets of another dbt project.
"""

from pathlib import Path

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from vde_dagster import vde_definitions
from vde_dagster.orchestration import WorkspaceResource

ROOT = Path(__file__).parent
DAYS = dg.DailyPartitionsDefinition("2024-01-01")
"""Days of the models that start on this day: the same as their dimension `time`."""
ORDERS = dg.AssetKey(["raw", "orders"])
DAILY = dg.AssetKey(["marts", "daily_revenue"])
BY_DAY = dg.MultiToSingleDimensionPartitionMapping("time")
"""Mapping from each day to the same day of all versions of a model."""


@dg.asset(key=ORDERS, partitions_def=DAYS, kinds={"spark", "iceberg"})
def orders(context: dg.AssetExecutionContext, pyspark: LazyPySparkResource) -> None:
    """Orders of a day, from files. Models read the table raw.orders."""
    frame = pyspark.spark_session.read.json(f"/data/orders/{context.partition_key}.json")
    frame.writeTo("lakehouse.raw.orders").overwritePartitions()


@dg.asset(
    key=["reports", "daily_revenue"],
    partitions_def=DAYS,
    deps=[dg.AssetDep(DAILY, partition_mapping=BY_DAY)],
    automation_condition=dg.AutomationCondition.eager(),
)
def daily_report(context: dg.AssetExecutionContext, vde: WorkspaceResource) -> dg.MaterializeResult:
    """Revenue of a day, as production shows it."""
    rows = vde.get().queries.read("prod", "marts.daily_revenue", ["day", "revenue"]).to_pylist()
    (revenue,) = (row["revenue"] for row in rows if str(row["day"]) == context.partition_key)
    return dg.MaterializeResult(metadata={"revenue": float(revenue)})


@dg.asset(key=["reports", "summary"], deps=[DAILY])
def summary(vde: WorkspaceResource) -> dg.MaterializeResult:
    """Number of days in production."""
    days = vde.get().queries.read("prod", "marts.daily_revenue", ["day"])
    return dg.MaterializeResult(metadata={"days": days.num_rows})


day_job = dg.define_asset_job(
    "revenue_and_summary",
    selection=dg.AssetSelection.assets(DAILY, ["reports", "summary"]),
    description="Computes chosen days of the model, then the summary that reads it.",
    executor_def=dg.in_process_executor,
)
"""Job over a model and an own asset; assets of a job have the same partitions or none."""

models = vde_definitions(ROOT, assets=[orders, daily_report, summary])
defs = dg.Definitions.merge(models, dg.Definitions(jobs=[day_job]))
