"""Names that `vde metrics list` offers, and conditions in the words of their author."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import SHOP, ProjectFolder

DEFINITIONS = """
semantic_model:
  name: orders
  node_relation: {schema_name: staging, alias: orders}
  defaults: {agg_time_dimension: ordered_on}
  entities:
    - {name: order, type: primary, expr: id}
    - {name: buyer, type: foreign, expr: customer}
  dimensions:
    - {name: ordered_on, expr: day, type: time, type_params: {time_granularity: day}}
    - {name: label, type: categorical, expr: "concat('C', customer)"}
  measures:
    - {name: revenue, agg: sum, expr: amount, create_metric: true}
---
semantic_model:
  name: customers
  node_relation: {schema_name: marts, alias: customers}
  defaults: {agg_time_dimension: since}
  entities:
    - {name: buyer, type: primary, expr: customer}
    - {name: region, type: foreign, expr: customer}
  dimensions:
    - {name: is_big, type: categorical, expr: revenue > 10}
    - {name: since, type: time, expr: "current_date()", type_params: {time_granularity: day}}
  measures:
    - {name: spent, agg: sum, expr: revenue, create_metric: true}
---
semantic_model:
  name: regions
  node_relation: {schema_name: marts, alias: top}
  entities:
    - {name: region, type: primary, expr: customer}
  dimensions:
    - {name: place, type: categorical}
---
metric:
  name: revenue_per_spent
  type: ratio
  type_params: {numerator: {name: revenue}, denominator: {name: spent}}
"""


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The semantic layer of a shop whose customers lead to regions."""
    pytest.importorskip("metricflow")
    from vde_dagster.plugins.metrics.kept import semantic_layer

    root: Path = tmp_path_factory.mktemp("names") / "shop"
    ProjectFolder(root, {**SHOP, "metrics/shop.yaml": DEFINITIONS})
    with Workspace.open(root) as workspace:
        yield semantic_layer(workspace, None)


@pytest.mark.proof
def test_every_name_that_is_listed_can_be_asked_for_and_filtered_by(layer: object) -> None:
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

    assert isinstance(layer, SemanticLayer)
    listed = {one.name: one.by for one in layer.list_metrics()}
    assert set(listed) == {"revenue", "spent", "revenue_per_spent"}
    for metric, names in listed.items():
        for name in names:
            assert name in layer.sql(Question((metric,), (name,)))
            assert "WHERE" in layer.sql(Question((metric,), (), (f"{name} IS NOT NULL",)))
    assert {"buyer", "buyer__region", "buyer__region__place", "order"} <= set(listed["revenue"])
    assert "region" not in listed["revenue"]
    assert "region" in listed["spent"]
    assert "order__buyer" not in listed["revenue"]


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("label = 'C''1'", "order__label = 'C''1'"),
        ("`LABEL` = 'C''1' 'x'", "order__label = 'C''1' 'x'"),
        ('label = "C""1"', 'order__label = "C""1"'),
        ("label IN ('a', 'b''c')", "order__label IN ('a', 'b''c')"),
        ("label LIKE '%''%' ESCAPE '!'", "order__label LIKE '%''%' ESCAPE '!'"),
        ("label = r'a\\d'", "order__label = r'a\\d'"),
        ("NOT label = 'a' = true", "NOT order__label = 'a' = true"),
        (
            "label = 'a{{b' OR label = '{%' OR label = '{# x'",
            "order__label = 'a{{b' OR order__label = '{%' OR order",
        ),
        ("label = 'a\n -- b'", "order__label = 'a\n -- b'"),
        ("nvl(label, 'x') <=> 'x'", "nvl(order__label, 'x') <=> 'x'"),
        ("buyer.is_big", "buyer__is_big"),
        ("region.place = 1", "buyer__region__place = 1"),
        ("order__label || 'a' = 'b'", "order__label || 'a' = 'b'"),
        ("label -- a {{ comment\n = /* {# */ 'x' -- c", "order__label  \n =   'x'"),
        ("{{ Dimension('order__label') }} = 'C''1'", "order__label = 'C''1'"),
    ],
)
def test_a_condition_keeps_its_authors_words(layer: object, written: str, asked: str) -> None:
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

    assert isinstance(layer, SemanticLayer)
    assert f"WHERE {asked}" in layer.sql(Question(("revenue",), (), (written,)))


def test_a_comment_hides_no_other_condition(layer: object) -> None:
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

    assert isinstance(layer, SemanticLayer)
    both = ("label = 'a' OR label = 'b -- b' -- c", "order = 1")
    sql = layer.sql(Question(("revenue",), (), both))
    assert "(order__label = 'a' OR order__label = 'b -- b') AND (order = 1)" in sql


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("label = 'a", "cannot be read"),
        ("label = 'a' LIMIT 1", "cannot be read"),
        ("label = 'a'; SELECT 1", "cannot be read"),
        ("label IN (SELECT 'a')", "cannot be read"),
        ("buyer.weight = 1", "buyer__weight"),
    ],
)
def test_a_condition_that_is_not_one_expression_is_refused(
    layer: object, written: str, message: str
) -> None:
    from vde_dagster.plugins.metrics.layer import Question, SemanticLayer

    assert isinstance(layer, SemanticLayer)
    with pytest.raises(UsageError, match=message):
        layer.sql(Question(("revenue",), (), (written,)))
