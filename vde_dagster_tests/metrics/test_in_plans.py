"""Metrics as readers of models: in plans, in lineage, in what is documented."""

from __future__ import annotations

import pytest

from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.reports.plan import plan_report
from vde_dagster.reports.reasons import describe_break
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long


def _moved(shop: ProjectFolder) -> dict[str, list[str]]:
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
    return {name: list(map(str, models)) for name, models in plan.moves.items()}


def _published(shop: ProjectFolder) -> ProjectFolder:
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        assert not plan.moves
        workspace.apply(plan)
    return shop


def test_a_plan_names_the_metrics_that_an_edit_moves(shop: ProjectFolder) -> None:
    _published(shop)
    # A sum of other values: who a big customer is changes with it, the number of orders does not.
    shop.edit("models/marts/customers.sql", "sum(amount)", "sum(amount * 2)")
    assert _moved(shop) == {
        "orders_of_big": ["marts.customers"],
        "revenue_per_size": ["marts.customers"],
    }
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
    assert plan_report(plan).short[-1] == "may change the metrics orders_of_big, revenue_per_size"
    (section,) = [one for one in plan_report(plan).rest if one.title == "Moves metrics"]
    told = [row.cells[0].text for row in section.rows]
    assert told == ["orders_of_big, by marts.customers", "revenue_per_size, by marts.customers"]
    moved = {
        one["name"]: one["moves"]
        for one in workspace.plans.to_json(plan)["models"]
        if "moves" in one
    }
    assert moved == {"marts.customers": ["orders_of_big", "revenue_per_size"]}


def test_other_rows_move_every_metric_of_a_model_and_what_nobody_reads_moves_none(
    shop: ProjectFolder,
) -> None:
    _published(shop)
    shop.edit("models/staging/orders.sql", "<> 'cancelled'", "= 'paid'")
    moved = _moved(shop)
    assert set(moved) == {"revenue", "orders", "mean_order", "orders_of_big", "revenue_per_size"}
    assert moved["orders_of_big"] == ["staging.orders", "marts.customers"]
    shop.edit("models/staging/orders.sql", "= 'paid'", "<> 'cancelled'")
    shop.edit("models/marts/top.sql", "revenue DESC", "customer DESC")
    assert not _moved(shop)


def test_a_plan_that_breaks_a_column_names_the_metrics_that_read_it(shop: ProjectFolder) -> None:
    _published(shop)
    shop.edit("models/marts/customers.sql", "sum(amount)", "CAST(sum(amount) AS INT)")
    with open_fake(shop.root) as workspace:
        found = workspace.plan("prod").breaks
    (broken,) = (one for one in found if str(one.model) == "marts.customers")
    assert broken.metrics == ("orders_of_big", "revenue_per_size")
    assert describe_break(broken).endswith("the metric orders_of_big, the metric revenue_per_size")
    assert broken.to_json()["metrics"] == ["orders_of_big", "revenue_per_size"]


def test_lineage_ends_at_metrics(shop: ProjectFolder, vde: Vde) -> None:
    words = ("lineage", "marts.customers.revenue", "--impact", "--project", shop.root)
    assert vde(*words).out.splitlines()[-2:] == [
        "the metric orders_of_big: its value changes",
        "the metric revenue_per_size: its value changes",
    ]
    found = vde(*words, "--json").json
    assert (found["exposures"], found["metrics"]) == ([], ["orders_of_big", "revenue_per_size"])


def test_metrics_are_documented_as_readers(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        document = gather_document(workspace)
    told = {one.name: (one.what, len(one.reads)) for one in document.exposures}
    assert told["revenue"] == ("metric", 2)
    said = {one.name: one.description for one in document.exposures}
    assert said["orders_of_big"] == "Orders of customers who spent more than 10"
    assert said["mean_order"] is None
    customers = next(one for one in document.models if one.name == "marts.customers")
    assert customers.exposures == ("orders_of_big", "revenue_per_size")
