"""Files of metrics: what is wrong in one is told with its place, and what they read is known."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.table_names import TableNames
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.metrics.conftest import METRICS
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

BROKEN = [
    ("agg: sum,", "agg: total,", 11, r"semantic model 'orders' cannot be read: .*'total' is not"),
    ("type: ratio", "typ: ratio", 31, r"the metric 'mean_order' cannot be read: .*'typ'"),
    ("numerator: {name: revenue}", "numerator: revenue", 33, "type_params.numerator: value is not"),
    ("denominator: {name: orders}", "denominator: {name: order}", 34, "Metric 'order' is not"),
    ("measure: order_count}\n  filter", "measure: order_cnt}\n  filter", 26, "order_cnt"),
    ("buyer__is_big') }}\"", "buyer__is_small') }}\"", 22, "MetricFlow refuses orders_of_big"),
    ("alias: orders}", "alias: order}", 3, r"the metric '\w+' reads staging.order, which is no"),
    ("saved_query:", "saved_queries:", 41, "'saved_queries' is not a key for metrics"),
    ("name: mean_order", "name: orders", 36, "the metric 'orders' is defined twice, first at"),
    ("{name: order,", "{name: day,", 6, "Invalid name `day`"),
    ("  name: orders\n  node", " name: orders\n  node", 3, "this is not valid YAML"),
    (
        "metric:\n  name: orders\n",
        "metric: orders\nnot:\n",
        36,
        "a document of metrics needs one of the keys",
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), BROKEN)
def test_a_mistake_is_told_once_with_its_place(
    shop: ProjectFolder, old: str, new: str, line: int, said: str
) -> None:
    shop.edit("metrics/shop.yaml", old, new)
    with pytest.raises(ProjectError, match=said) as raised:
        load_project(shop.root)
    (mistake,) = raised.value.mistakes
    assert mistake.location is not None
    assert (str(mistake.location.path), mistake.location.line) == ("metrics/shop.yaml", line)
    assert mistake.hint


def test_a_column_that_no_model_has_is_told_where_it_is_named(
    shop: ProjectFolder, vde: Vde
) -> None:
    shop.edit("metrics/shop.yaml", "expr: amount", "expr: amont * 2")
    said = "the metric 'mean_order' reads staging.orders.amont, but the model has no such column"
    for command in (("plan", "dev"), ("metrics", "list")):
        ended = vde(*command, "--project", shop.root, "--json")
        error = ended.json["error"]
        assert (ended.code, error["message"]) == (2, said)
        place = error["file"], error["line"], error["hint"]
        assert place == ("metrics/shop.yaml", 3, "did you mean 'amount'?")


def test_metrics_read_the_columns_of_their_measures_conditions_joins_and_time(
    shop: ProjectFolder,
) -> None:
    reads = {
        one.name: {f"{model}.{column}" for model, column, _ in one.reads}
        for one in load_project(shop.root).exposures
        if one.what == "metric"
    }
    own, joined = {"staging.orders.day"}, {"staging.orders.customer", "marts.customers.customer"}
    big = {*joined, "marts.customers.revenue"}
    assert reads == {
        "revenue": {*own, "staging.orders.amount"},
        "orders": {*own, "staging.orders.id"},
        "mean_order": {*own, "staging.orders.amount", "staging.orders.id"},
        "orders_of_big": {*own, *big, "staging.orders.id"},
        # A saved query is not asked by time.
        "revenue_per_size": {*big, "staging.orders.amount"},
    }


def test_every_type_of_metric_reads_what_it_means() -> None:
    pytest.importorskip("metricflow")
    from vde_dagster.plugins.metrics.definitions import read_definitions
    from vde_dagster.plugins.metrics.layer import SemanticLayer
    from vde_dagster.plugins.metrics.reading import metric_exposures

    texts = {Path("metrics/hard.yaml"): (METRICS.parent / "hard.yaml").read_text()}
    layer = SemanticLayer(read_definitions(texts, TableNames("lakehouse", "default")))
    found = {
        one.name: {f"{model.name}.{column}" for model, column, _ in one.reads}
        for one in metric_exposures(layer)
    }
    expected = yaml.safe_load((METRICS.parent / "hard_reads.yaml").read_text())
    assert found == {name: set(columns) for name, columns in expected.items()}


def test_what_one_file_says_is_read_with_what_others_say(shop: ProjectFolder) -> None:
    text = (shop.root / "metrics/shop.yaml").read_text()
    models, _, metrics = text.partition("---\nmetric:")
    shop.write("metrics/shop.yaml", models)
    shop.write("metrics/more/of_big.yml", "metric:" + metrics)
    places = {one.name: str(one.location) for one in load_project(shop.root).exposures}
    assert places["orders_of_big"] == "metrics/more/of_big.yml:1"
    assert places["revenue"] == "metrics/shop.yaml:11"
    # The other file's metrics count the orders, and are read again.
    shop.edit("metrics/shop.yaml", "agg: count, expr: id", "agg: count, expr: customer")
    reads = {one.name: one.reads for one in load_project(shop.root).exposures}
    assert "id" not in {column for _, column, _ in reads["orders"]}
    # A mistake is told of the file that it is in.
    shop.edit("metrics/shop.yaml", "agg: count", "agg: cnt")
    with pytest.raises(ProjectError, match=r"metrics/shop\.yaml:12") as raised:
        load_project(shop.root)
    assert len(raised.value.mistakes) == 1


def test_without_metricflow_a_plan_says_once_that_metrics_are_left_out(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write("metrics/more.yaml", "")
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "metricflow" else found(name, *more)

    for module in ("vde_dagster.plugins.metrics", "vde_dagster.plugins.metrics.kept"):
        monkeypatch.setattr(f"{module}.find_spec", without)
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        workspace.apply(plan)
    (warning,) = plan.warnings
    assert "metrics are left out, MetricFlow is not installed" in warning
    assert "[metrics]'" in warning
    ended = vde("metrics", "query", "revenue", "--project", shop.root, "--json")
    assert ended.code == 2
    assert "[metrics]'" in ended.json["error"]["hint"]


GROWTH = """
---
metric:
  name: growth
  type: cumulative
  type_params:
    cumulative_type_params: {metric: {name: revenue}, window: 7 days}
"""
SPINE = """
---
project_configuration:
  time_spines:
    - node_relation: {schema_name: raw, alias: days}
      primary_column: {name: day, time_granularity: day}
"""
DAYS = """MODEL (name raw.days, kind FULL);
SELECT explode(sequence(DATE '2024-01-01', DATE '2024-01-31')) AS day
"""


def test_metrics_that_need_a_table_of_days_ask_for_one(shop: ProjectFolder) -> None:
    shop.write("metrics/growth.yaml", GROWTH)
    with pytest.raises(ProjectError, match=r"growth needs a time spine \(a table") as raised:
        load_project(shop.root)
    assert "project_configuration" in str(raised.value.hint)
    shop.write("models/raw/days.sql", DAYS)
    shop.write("metrics/days.yaml", SPINE)
    reads = {one.name: one.reads for one in load_project(shop.root).exposures}
    assert {f"{model}.{column}" for model, column, _ in reads["growth"]} == {
        "raw.days.day",
        "staging.orders.day",
        "staging.orders.amount",
    }


def test_a_metric_that_needs_time_is_refused_with_the_option_that_adds_it(
    shop: ProjectFolder,
) -> None:
    from vde_dagster.plugins.metrics.kept import semantic_layer
    from vde_dagster.plugins.metrics.layer import Question

    shop.write("metrics/growth.yaml", GROWTH)
    shop.write("models/raw/days.sql", DAYS)
    shop.write("metrics/days.yaml", SPINE)
    with Workspace.open(shop.root) as workspace:
        layer = semantic_layer(workspace)
    with pytest.raises(UsageError, match="MetricFlow refuses growth") as raised:
        layer.sql(Question(("growth",)))
    assert raised.value.hint == "group by the metric's time: --by metric_time"
    assert [name for name in layer.metrics if layer.needs_time(name)] == ["growth"]
