"""Definitions of metrics that environments keep: what a metric means in each version of each."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from vde_dagster.api.errors import UsageError
from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.plugins.metrics.answers import DifferentValue, compare, redefined_metrics
from vde_dagster.plugins.metrics.kept import NAME, semantic_layer
from vde_dagster.plugins.metrics.layer import Question
from vde_dagster.reports.plan import plan_report
from vde_dagster.reports.plan_json import plan_json
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

SUM = "{name: revenue, agg: sum"


def _apply(shop: ProjectFolder, environment: str = "prod") -> tuple[str, ...]:
    """Plan and apply; return what the plan keeps otherwise."""
    with open_fake(shop.root) as workspace:
        plan = workspace.plan(environment)
        workspace.apply(plan)
        again = workspace.plan(environment)
    assert again.is_empty
    assert again.other_kept == ()
    return plan.other_kept


def _sql(shop: ProjectFolder, vde: Vde, environment: str) -> str:
    words = ("metrics", "query", "revenue", "--env", environment, "--sql", "--json")
    text: str = vde(*words, "--project", shop.root).json["sql"]
    return " ".join(text.split())


def test_a_version_answers_with_its_own_definition(shop: ProjectFolder, vde: Vde) -> None:
    assert _apply(shop) == (NAME,)
    shop.edit("metrics/shop.yaml", SUM, SUM.replace("sum", "max"))
    # Nothing has been planned of the edit.
    assert "SUM(" in _sql(shop, vde, "prod")
    with open_fake(shop.root) as workspace:
        plan = workspace.plan("prod")
        assert not plan.is_empty
        assert (plan.builds, bool(plan.views), plan.other_kept) == ((), False, (NAME,))
        (section,) = [one for one in plan_report(plan).rest if "Stores new" in one.title]
        assert [row.cells[0].text for row in section.rows] == [NAME]
        assert plan_json(plan)["keeps"] == [NAME]
    assert _apply(shop) == (NAME,)
    assert "MAX(" in _sql(shop, vde, "prod")
    assert "MAX(" in _sql(shop, vde, "prod@2")
    assert "SUM(" in _sql(shop, vde, "prod@1")


def test_rollbacks_runs_and_frozen_environments_have_the_definitions_of_their_version(
    shop: ProjectFolder, vde: Vde
) -> None:
    _apply(shop)
    with open_fake(shop.root) as workspace:
        workspace.environments.freeze("prod@1", "audit")
    shop.edit("metrics/shop.yaml", SUM, SUM.replace("sum", "max"))
    _apply(shop)
    assert "SUM(" in _sql(shop, vde, "audit")
    with open_fake(shop.root) as workspace:
        workspace.environments.rollback("prod", 1)
        first = workspace.store.versions.at("prod", 1)
        assert first is not None
        assert workspace.plans.due("prod").kept == first.kept != {}
    assert "SUM(" in _sql(shop, vde, "prod")
    # The files still say otherwise, and the next plan of them says so.
    assert _apply(shop) == (NAME,)
    assert "MAX(" in _sql(shop, vde, "prod")


def test_metrics_that_two_environments_define_otherwise_are_named(shop: ProjectFolder) -> None:
    _apply(shop)
    shop.edit("metrics/shop.yaml", SUM, SUM.replace("sum", "max"))
    _apply(shop, "dev")
    with open_fake(shop.root) as workspace:
        sides = semantic_layer(workspace, "prod"), semantic_layer(workspace, "dev")
        same = semantic_layer(workspace, "prod"), semantic_layer(workspace, "prod@1")
    question = Question(("revenue", "orders", "mean_order"), by=("is_big",))
    assert redefined_metrics(sides, question) == ("revenue", "mean_order")
    assert redefined_metrics(same, question) == ()


def test_a_saved_query_that_two_versions_define_with_other_metrics_is_compared(
    shop: ProjectFolder,
) -> None:
    _apply(shop)
    saved = "    metrics: [revenue]\n"
    shop.edit("metrics/shop.yaml", saved, saved.replace("revenue", "revenue, orders"))
    _apply(shop)
    asked = Question(("revenue_per_size",))
    rows = {"prod@1": [(True, 20.0)], "prod": [(True, 20.0, 1)]}

    def query(environment: str, sql: str) -> SimpleNamespace:
        columns = [("buyer__is_big", "boolean"), ("revenue", "double"), ("orders", "bigint")]
        found = rows[environment]
        return SimpleNamespace(columns=columns[: len(found[0])], rows=found, version=1)

    with open_fake(shop.root) as workspace:
        sides = semantic_layer(workspace, "prod@1"), semantic_layer(workspace, "prod")
    compared = compare(SimpleNamespace(query=query), sides, asked, "prod@1", "prod")
    assert compared.different == (DifferentValue("orders", (True,), None, 1),)
    assert compared.equal_values == 1

    def query_of_others(environment: str, sql: str) -> SimpleNamespace:
        name = "size" if environment == "prod" else "buyer__is_big"
        return SimpleNamespace(columns=[(name, "int"), ("revenue", "double")], rows=[], version=1)

    with pytest.raises(UsageError, match="prod@1 groups by buyer__is_big, and prod by size"):
        compare(SimpleNamespace(query=query_of_others), sides, asked, "prod@1", "prod")


def test_what_was_published_before_there_were_metrics_is_asked_with_the_files(
    shop: ProjectFolder, vde: Vde
) -> None:
    text = (shop.root / "metrics/shop.yaml").read_text()
    (shop.root / "metrics/shop.yaml").unlink()
    assert _apply(shop) == ()
    shop.write("metrics/shop.yaml", text)
    assert "SUM(" in _sql(shop, vde, "prod")
    assert _apply(shop) == (NAME,)
    (shop.root / "metrics/shop.yaml").unlink()
    assert _apply(shop) == (NAME,)
    listed = vde("metrics", "list", "--env", "prod@2", "--project", shop.root, "--json").json
    assert "revenue" in {one["name"] for one in listed["metrics"]}
    gone = vde("metrics", "list", "--project", shop.root)
    assert (gone.code, "the project has no metrics" in gone.err) == (2, True)


def test_a_metric_that_only_the_files_have_is_refused_with_what_to_do(
    shop: ProjectFolder, vde: Vde
) -> None:
    _apply(shop)
    _apply(shop, "dev")
    shop.write(
        "metrics/more.yaml",
        "metric: {name: sold, type: simple, type_params: {measure: order_count}}",
    )
    for words in (
        ("query", "sold", "--sql"),
        ("query", "sold", "--env", "prod@1", "--sql"),
        ("diff", "dev", "prod", "-m", "sold"),
    ):
        ended = vde("metrics", *words, "--project", shop.root, "--json")
        assert ended.code == 2, ended.out
        assert "lacks 'sold', which is defined in the files" in ended.json["error"]["message"]
        assert "vde apply" in ended.json["error"]["hint"]
    _apply(shop, "dev")
    assert vde("metrics", "query", "sold", "-e", "dev", "--sql", "--project", shop.root).code == 0
    ended = vde("metrics", "diff", "dev", "prod", "-m", "sold", "--project", shop.root, "--json")
    assert ended.json["error"]["message"].startswith("'prod' lacks 'sold'")
    unknown = vde("metrics", "query", "sol", "--project", shop.root, "--json")
    assert unknown.json["error"]["message"] == "the metric 'sol' does not exist"


def test_a_part_of_the_models_leaves_what_is_kept(shop: ProjectFolder) -> None:
    _apply(shop)
    shop.edit("metrics/shop.yaml", SUM, SUM.replace("sum", "max"))
    with open_fake(shop.root) as workspace:
        part = workspace.plan("prod", select=["marts.top"])
        shown = workspace.store.environments.get("prod")
    assert shown is not None
    assert (part.other_kept, part.kept) == ((), shown.kept)


@pytest.mark.parametrize("kept", [{}, {"other": "x" * 100_000}, {"a": "ü\n\u2028", "b": "{"}])
def test_kept_texts_come_back_as_they_were(shop: ProjectFolder, kept: dict[str, str]) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(replace(workspace.plan("prod", save=False), kept=kept))
        found = workspace.store.environments.get("prod")
    assert found is not None
    assert found.kept == kept


def test_a_document_of_a_version_has_the_metrics_of_then(shop: ProjectFolder) -> None:
    _apply(shop)
    shop.edit("metrics/shop.yaml", "name: orders_of_big", "name: orders_of_rich")
    _apply(shop)
    with open_fake(shop.root) as workspace:
        told = {
            of: {one.name for one in gather_document(workspace, of).exposures}
            for of in ("prod@1", "prod@2", "prod")
        }
    assert "orders_of_big" in told["prod@1"]
    assert told["prod@2"] == told["prod"]
    assert told["prod"] == told["prod@1"] - {"orders_of_big"} | {"orders_of_rich"}
