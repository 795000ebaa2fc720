"""Questions about metrics as SQL, and what is refused; answers on real Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Called, Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.metrics.conftest import METRICS
from vde_dagster_tests.metrics.test_definitions import DAYS, SPINE
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder

pytestmark = pytest.mark.long

REFUSED = [
    (["revenu"], "the metric 'revenu' does not exist", "did you mean 'revenue'?"),
    (["revenue", "--by", "is_bigg"], "'is_bigg', which does not exist", "mean 'is_big'?"),
    (["revenue", "--grain", "dya"], "the grain 'dya' does not exist", "did you mean 'day'?"),
    (["revenue", "--where", "is_big and ("], "the condition", "write it in Spark SQL"),
    (["revenue", "--where", "weight > 1"], "'weight', which does not exist", "buyer__is_big"),
    (
        ["revenue", "revenue_per_size"],
        "is a saved query, and cannot",
        "query the saved query alone",
    ),
    (["revenue_per_size", "--by", "buyer"], "which has its own dimensions", "revenue"),
    # The customers' revenue would be counted once for each of their orders.
    (["spent", "--by", "order"], "it cannot be joined to every metric without counting", "buyer"),
]
MORE = """
---
metric:
  name: spent
  type: simple
  type_params:
    metric_aggregation_params: {semantic_model: customers, agg: sum, agg_time_dimension: since}
    expr: revenue
"""


@pytest.fixture
def world(prepared: Prepared, vde: Vde) -> Callable[..., Called]:
    """The shop, published to prod and dev by an engine that keeps no rows; ask it."""
    pytest.importorskip("metricflow")
    shop = prepared(_publish_without_rows)

    def ask(*arguments: str) -> Called:
        return vde("metrics", "query", *arguments, "--project", shop.root, "--json")

    return ask


def _publish_without_rows(root: Path) -> None:
    shop = ProjectFolder(root, {**SHOP, "metrics/shop.yaml": METRICS.read_text() + MORE})
    since = "{name: since, type: time, expr: d, type_params: {time_granularity: day}}"
    is_big = "    - {name: is_big"
    shop.edit("metrics/shop.yaml", is_big, f"    - {since}\n{is_big}")
    shop.edit("models/marts/customers.sql", "SELECT customer,", "SELECT customer, min(day) AS d,")
    with open_fake(shop.root) as workspace:
        for environment in ("prod", "dev"):
            workspace.apply(workspace.plan(environment))


@pytest.mark.parametrize(("words", "message", "hint"), REFUSED)
def test_what_cannot_be_answered_is_refused_in_one_message(
    world: Callable[..., Called], words: list[str], message: str, hint: str
) -> None:
    ended = world(*words, "--sql")
    assert ended.code == 2, ended.out
    assert message in ended.json["error"]["message"]
    assert hint in ended.json["error"]["hint"]


def test_sql_is_over_the_views_of_the_environment(world: Callable[..., Called]) -> None:
    sql = world("revenue", "--by", "is_big", "--env", "dev", "--sql").json["sql"]
    assert "`lakehouse`.`staging__dev`.`orders`" in sql
    assert "`lakehouse`.`marts__dev`.`customers`" in sql
    assert "`lakehouse`.`staging`.`orders`" in world("revenue", "--sql").json["sql"]
    # A version has no views: the query of staging.orders is over the seed's table at its pin.
    pinned = world("revenue", "--env", "prod@1", "--sql").json["sql"]
    assert "VERSION AS OF" in pinned
    assert "status" in pinned
    assert world("revenue", "--env", "prod@7", "--sql").code == 2


def test_conditions_and_grains_are_written_in_plain_sql(world: Callable[..., Called]) -> None:
    words = (
        "--where",
        "is_big AND metric_time >= '2024-01-02'",
        "--grain",
        "month",
        "--limit",
        "3",
    )
    sql = " ".join(world("mean_order", *words, "--sql").json["sql"].split())
    assert "buyer__is_big AND metric_time__day >= '2024-01-02'" in sql
    assert "GROUP BY metric_time__month" in sql
    assert sql.endswith("ORDER BY metric_time__month LIMIT 3")


def test_rows_are_in_the_order_of_what_they_are_divided_by(world: Callable[..., Called]) -> None:
    sql = world("revenue", "--by", "is_big", "--by", "buyer", "--sql").json["sql"]
    assert sql.endswith("ORDER BY buyer__is_big, buyer")
    assert world("revenue_per_size", "--sql").json["sql"].endswith("ORDER BY buyer__is_big")


FORMS = """
---
metric:
  name: median_order
  type: simple
  type_params:
    metric_aggregation_params: {semantic_model: orders, agg: median, agg_time_dimension: ordered_on}
    expr: amount
---
metric:
  name: in_two_days
  type: cumulative
  type_params:
    cumulative_type_params: {metric: {name: revenue}, window: 2 days}
---
metric:
  name: more_than_two_days_ago
  type: derived
  type_params:
    expr: revenue - earlier
    metrics: [{name: revenue}, {name: revenue, offset_window: 2 days, alias: earlier}]
"""


def _publish(root: Path) -> None:
    files = {
        "metrics/shop.yaml": METRICS.read_text() + FORMS + SPINE,
        "models/raw/days.sql": DAYS,
    }
    folder = ProjectFolder(root, {**SHOP, **files})
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit(
        "models/staging/orders.sql", "id, customer, amount,", "id, customer, amount * 2 AS amount,"
    )
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("dev"))


@pytest.mark.spark
def test_environments_answer_and_are_compared_on_spark(
    prepared: Prepared, spark_engine: SparkEngine, vde: Vde
) -> None:
    pytest.importorskip("metricflow")
    root = prepared(_publish).root

    def rows(*words: str) -> list[list[object]]:
        found = vde("metrics", "query", *words, "--project", root, "--json")
        assert found.code == 0, found.out
        return list(found.json["rows"])

    assert rows("revenue", "mean_order", "orders_of_big") == [[33.5, 8.375, 1]]
    assert rows("revenue", "--by", "is_big") == [[False, 13.5], [True, 20.0]]
    assert rows("revenue_per_size", "--env", "dev") == [[True, 67.0]]
    assert rows("revenue", "--where", "buyer = 10", "--env", "prod@1") == [[6.0]]
    by_day = rows("orders", "--grain", "day", "--limit", "2")
    assert [(str(day)[:10], number) for day, number in by_day] == [
        ("2024-01-01", 2),
        ("2024-01-03", 1),
    ]
    # All that MetricFlow writes for Databricks, Spark has to run: percentiles, days and offsets.
    assert rows("median_order") == [[6.25]]
    assert [(str(day)[8:10], value) for day, value in rows("in_two_days", "--grain", "day")] == [
        ("01", 12.5),
        ("02", 12.5),
        ("03", 20.0),
        ("04", 20.0),
        ("05", 1.0),
        ("06", 1.0),
    ]
    ago = rows("more_than_two_days_ago", "--grain", "day", "--where", "metric_time < '2024-01-06'")
    assert [(str(day)[8:10], value) for day, value in ago if value is not None] == [
        ("03", 7.5),
        ("05", -19.0),
    ]
    words = ("metrics", "diff", "prod", "dev", "--metric", "revenue", "-m", "orders")
    found = vde(*words, "--by", "is_big", "--project", root, "--json").json
    assert found["by"] == ["buyer__is_big"]
    told = [
        (one["by"]["buyer__is_big"], one["metric"], one["one"], one["other"], one["difference"])
        for one in found["different"]
    ]
    assert sorted(told, key=str) == [
        (False, "orders", 3, None, None),
        (False, "revenue", 13.5, None, None),
        (True, "orders", 1, 4, 3),
        (True, "revenue", 20.0, 67.0, 47.0),
    ]
    same = vde("metrics", "diff", "prod", "dev", "-m", "orders", "--project", root)
    assert same.out.strip() == "1 value, all equal"
