"""Metrics as Apache Ossie, by the schema that its repository publishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

SCHEMA = Path(__file__).parent.parent / "fixtures" / "metrics" / "osi-schema.json"
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text()))


def test_an_export_is_over_the_views_of_an_environment_and_as_the_schema_says(
    shop: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
    to = tmp_path / "ossie.yaml"
    told = vde("metrics", "export", "--env", "dev", "--to", to, "--project", shop.root, "--json")
    assert told.json == {"file": str(to), "metrics": 4, "left_out": []}
    document = yaml.safe_load(to.read_text())
    assert not list(VALIDATOR.iter_errors(document))
    (model,) = document["semantic_model"]
    assert {one["name"]: one["source"] for one in model["datasets"]} == {
        "orders": "lakehouse.staging__dev.orders",
        "customers": "lakehouse.marts__dev.customers",
    }
    (join,) = model["relationships"]
    assert (join["from"], join["to"], join["from_columns"]) == ("orders", "customers", ["customer"])
    revenue = next(one for one in model["metrics"] if one["name"] == "revenue")
    assert revenue["expression"]["dialects"] == [
        {"dialect": "DATABRICKS", "expression": "SUM(orders.amount)"}
    ]


def test_what_ossie_has_no_words_for_is_named(shop: ProjectFolder, vde: Vde) -> None:
    from vde_dagster_tests.metrics.test_definitions import GROWTH, SPINE

    shop.write("metrics/more.yaml", GROWTH + SPINE)
    days = "SELECT explode(sequence(DATE '2024-01-01', DATE '2024-01-31')) AS day"
    shop.write("models/raw/days.sql", f"MODEL (name raw.days, kind FULL); {days}")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    told = vde("metrics", "export", "--project", shop.root, "--json").json
    assert told["left_out"] == ["growth: cumulative semantics loss"]
    assert not list(
        Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(told["document"])
    )
