"""`vde describe`: a project's document for other programs, judged by schemas that are published."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from vde_dagster.overviews.documentation.values import Document
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.dbt.conftest import SETTINGS
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.metrics.conftest import METRICS
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder

pytestmark = pytest.mark.long

__all__ = ["vde"]

PUBLISHED = Path(__file__).parents[2] / "docs" / "document.schema.json"
AT = ("--at", "2030-01-01")


def publish(root: Path) -> None:
    publish_shop(root)
    folder = ProjectFolder(root)
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("dev"))


@pytest.fixture
def shop(prepared: Prepared) -> ProjectFolder:
    return prepared(publish)


def test_the_published_schema_is_that_of_the_code(vde: Vde) -> None:
    published = json.loads(PUBLISHED.read_text())
    assert published == Document.json_schema() == vde("describe", "json", "--schema").json, (
        "vde describe json --schema > docs/document.schema.json"
    )


def test_a_project_is_one_json_document_of_its_schema(shop: ProjectFolder, vde: Vde) -> None:
    judge = Draft202012Validator(json.loads(PUBLISHED.read_text()))
    at = ("--project", shop.root, *AT)
    files, dev, first = (vde("describe", "json", *of, *at) for of in ((), ("dev",), ("prod@1",)))
    for called in (files, dev, first):
        judge.validate(called.json)
    assert files.json["document_version"] == 1
    assert (files.json["of"], dev.json["of"], first.json["of"]) == ("files", "dev", "prod@1")
    assert [one["name"] for one in files.json["environments"]] == ["prod", "dev"]
    assert files.out == vde("describe", "json", *at).out, "equal input gives equal bytes"
    wrong = {**files.json, "document_version": 2}
    assert [one.validator for one in judge.iter_errors(wrong)] == ["const"]


def test_a_document_goes_into_a_file(shop: ProjectFolder, vde: Vde, tmp_path: Path) -> None:
    target = tmp_path / "shop.json"
    called = vde("describe", "json", "--to", target, "--json", "--project", shop.root, *AT)
    assert called.json == {"files": [str(target)], "of": "files", "models": 5}
    assert target.read_text() == vde("describe", "json", "--project", shop.root, *AT).out


@pytest.fixture
def mart(tmp_path: Path) -> ProjectFolder:
    """A published project with a table of others, a name twice and a dashboard."""
    folder = ProjectFolder(tmp_path / "mart", SHOP)
    folder.write("external_models.yaml", OUTSIDE)
    folder.write("exposures.yaml", DASHBOARD)
    folder.write("models/marts/orders.sql", ORDERS)
    folder.write("models/marts/visits.sql", VISITS)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return folder


OUTSIDE = """
    - name: crm.people
      columns: {id: INT, name: STRING}
"""
DASHBOARD = """
    - name: Sales of today
      owner: sales@example.com
      description: What is sold by day
      reads: [marts.daily.revenue, marts.orders]
"""
ORDERS = """
    MODEL (name marts.orders, kind VIEW,
      audits (forall(criteria := (amount > 0)), forall(criteria := (id > 0))));
    SELECT id, amount FROM staging.orders
"""
VISITS = """
    MODEL (name marts.visits, kind EMBEDDED, description '</script>');
    SELECT orders.id, people.name FROM marts.orders JOIN crm.people USING (id)
"""


def _schema(name: str) -> Draft202012Validator:
    path = PUBLISHED.parents[1] / "vde_dagster_tests" / "fixtures" / "dbt_schemas" / name
    return Draft202012Validator(json.loads(gzip.decompress(path.read_bytes())))


def _written(vde: Vde, folder: ProjectFolder, *of: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest and the catalog of a project, which their schemas allow."""
    target = folder.root.parent / "target"
    target.mkdir(exist_ok=True)
    called = vde("describe", "dbt", *of, "--to", target, "--project", folder.root, *AT)
    assert called.code == 0, called.err
    manifest, catalog = (
        json.loads((target / name).read_text()) for name in ("manifest.json", "catalog.json")
    )
    _schema("manifest-v12.json.gz").validate(manifest)
    _schema("catalog-v1.json.gz").validate(catalog)
    return manifest, catalog


def test_a_project_in_dbts_form_is_what_dbts_schemas_allow(mart: ProjectFolder, vde: Vde) -> None:
    mart.write("pyproject.toml", "[tool.vde]\nname = 'mart'\n")
    manifest, catalog = _written(vde, mart)
    models = {key: one for key, one in manifest["nodes"].items() if one["resource_type"] != "test"}
    assert {key: one["config"]["materialized"] for key, one in models.items()} == {
        "seed.mart.raw__orders": "seed",
        "model.mart.staging__orders": "view",
        "model.mart.marts__orders": "view",
        "model.mart.customers": "table",
        "model.mart.daily": "incremental",
        "model.mart.top": "table",
        "model.mart.visits": "ephemeral",
    }
    (sales,) = manifest["exposures"].values()
    parents = manifest["parent_map"]
    assert set(parents) == {*manifest["nodes"], "source.mart.crm.people", sales["unique_id"]}
    assert parents["model.mart.visits"] == ["source.mart.crm.people", "model.mart.marts__orders"]
    assert set(parents[sales["unique_id"]]) == {"model.mart.daily", "model.mart.marts__orders"}
    assert sales["owner"] == {"email": "sales@example.com"}
    assert sales["description"] == "What is sold by day"
    turned = {(child, one) for child, read in parents.items() for one in read}
    assert turned == {(c, one) for one, read in manifest["child_map"].items() for c in read}
    tests = {
        (one["attached_node"], one["test_metadata"]["name"], one["column_name"])
        for one in manifest["nodes"].values()
        if one.get("attached_node")
    }
    assert tests == {
        ("model.mart.daily", "not_null", "day"),
        ("model.mart.daily", "not_null", "revenue"),
        ("model.mart.customers", "unique", "customer"),
    }
    alone = [one for one in manifest["nodes"].values() if one["name"].startswith("forall_")]
    assert "FROM `lakehouse`.`marts`.`orders`" in alone[0]["compiled_code"]
    top = models["model.mart.top"]["columns"]["customer"]
    assert (top["description"], top["meta"]["vde"]["inherited_from"]) == (
        "Who ordered",
        "marts.customers.customer",
    )
    assert {*catalog["nodes"], *catalog["sources"]} == {
        *models,
        "source.mart.crm.people",
    } - {"model.mart.visits"}
    revenue = catalog["nodes"]["model.mart.daily"]["columns"]["revenue"]
    assert (revenue["type"], revenue["index"]) == ("DOUBLE", 3)
    again = _written(vde, mart)
    assert again == (manifest, catalog)


def test_all_readers_are_exposures_that_tools_accept(
    mart: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    """The page of docs says so, too; docglow 0.9.1 refuses an exposure whose url is null."""
    pytest.importorskip("metricflow")
    mart.write("pyproject.toml", "[tool.vde]\nname = 'mart'\n")
    mart.write("metrics/shop.yaml", METRICS.read_text())
    mart.write(
        "exposures.yaml",
        DASHBOARD + "    - {name: revenue, url: 'https://bi', reads: [marts.top]}\n",
    )
    mart.write("syncs.yaml", SYNC)
    with open_fake(mart.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    manifest, _ = _written(vde, mart)
    found = {one["name"]: (one["type"], one["url"]) for one in manifest["exposures"].values()}
    assert found == {
        "Sales_of_today": ("dashboard", ""),
        "revenue": ("dashboard", "https://bi"),
        "sync_revenue": ("application", ""),
        "metric_revenue": ("analysis", ""),
        "mean_order": ("analysis", ""),
        "orders": ("analysis", ""),
        "orders_of_big": ("analysis", ""),
        "revenue_per_size": ("analysis", ""),
    }
    assert (manifest["metrics"], manifest["semantic_models"]) == ({}, {})
    page = (PUBLISHED.parent / "exports.md").read_text()
    for type_ in ("dashboard", "application", "analysis"):
        assert f"`{type_}`" in page
    assert "metrics are only written as exposures" in page


SYNC = """
    - name: revenue
      source: marts.customers
      sink: http
      key: [customer]
      to: {prod: {url: 'https://crm.example'}}
"""


def test_dbts_form_of_an_environment_has_its_names(shop: ProjectFolder, vde: Vde) -> None:
    manifest, catalog = _written(vde, shop, "dev")
    customers = next(one for one in manifest["nodes"].values() if one["name"] == "customers")
    assert customers["relation_name"] == "`lakehouse`.`marts__dev`.`customers`"
    assert "amount > 1" in customers["compiled_code"]
    assert "FROM `lakehouse`.`staging__dev`.`orders`" in customers["compiled_code"]
    assert catalog["nodes"][customers["unique_id"]]["metadata"]["schema"] == "marts__dev"
    before = _written(vde, shop, "prod@1")[0]["nodes"][customers["unique_id"]]
    assert before["schema"] == "marts"
    assert "amount > 1" not in before["compiled_code"]


def test_each_model_and_quoted_column_has_a_name_in_dbts_form(tmp_path: Path, vde: Vde) -> None:
    audits = "not_null(columns := (`a, b`, x + 1)), unique_values(columns := (`a, b`))"
    odd = f"MODEL (name a.f, kind FULL, audits ({audits})); SELECT 1 AS `a, b`, 2 AS x"
    files = {f"models/{name}.sql": f"MODEL (name {name}, kind FULL); SELECT 1 AS x"
             for name in ("b.f", "c.a__f", "d.a__f")}  # fmt: skip
    folder = ProjectFolder(tmp_path / "shop", {"models/a.f.sql": odd, **files})
    manifest, _ = _written(vde, folder)
    nodes = manifest["nodes"].values()
    models = {one["name"]: one["relation_name"] for one in nodes if one["resource_type"] == "model"}
    assert models == {
        "a__f": "`lakehouse`.`a`.`f`",
        "b__f": "`lakehouse`.`b`.`f`",
        "c__a__f": "`lakehouse`.`c`.`a__f`",
        "d__a__f": "`lakehouse`.`d`.`a__f`",
    }
    tests = {one["name"]: one for one in nodes if one["resource_type"] == "test"}
    assert set(tests) == {"not_null_a__f_a, b", "not_null_a__f_x + 1", "unique_a__f_a, b"}
    quoted = tests["not_null_a__f_a, b"]
    assert quoted["column_name"] == "a, b"
    assert quoted["compiled_code"].endswith("WHERE `a, b` IS NULL")
    folder.remove("models/d.a__f.sql")
    manifest, _ = _written(vde, folder)
    names = {one["name"] for one in manifest["nodes"].values() if one["resource_type"] == "model"}
    assert names == {"a__f", "a__f_", "b__f"}


def test_files_in_dbts_form_have_no_names_of_an_environment_beside_production(
    tmp_path: Path, vde: Vde
) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("dev"))

    manifest, catalog = _written(vde, folder)

    assert {one["schema"] for one in manifest["nodes"].values()} == {"raw", "staging", "marts"}
    assert catalog["nodes"] == {}


def test_what_is_written_in_dbts_form_is_read_as_the_same_models(
    mart: ProjectFolder, vde: Vde, tmp_path: Path
) -> None:
    _written(vde, mart)
    ours = load_project(mart.root)
    (tmp_path / "dbt_project.yml").write_text("name: mart\nversion: '1'\n")
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(name="mart"))
    copytree(mart.root / "seeds", tmp_path / "seeds")
    theirs = load_project(tmp_path)
    assert {str(name) for name in theirs.models} == {str(name) for name in ours.models}
    kinds = {"marts.daily": "INCREMENTAL_UNMANAGED"}  # dbt's form has no time column
    for name, model in ours.models.items():
        again = theirs.models[name]
        assert again.kind.name == kinds.get(str(name), model.kind.name)
        assert again.depends_on == model.depends_on, name
        assert again.description == model.description, name
        query = again.query.replace("`", "") if again.query else None
        assert query == model.query, name
    customers = next(one for name, one in theirs.models.items() if name.name == "customers")
    assert dict(customers.column_descriptions) == {"customer": "Who ordered"}
    audits = {
        str(name): [one.name for one in model.audits] for name, model in theirs.models.items()
    }
    assert {name: found for name, found in audits.items() if found} == {
        "marts.customers": ["unique_customers_customer"],
        "marts.daily": ["not_null_daily_day", "not_null_daily_revenue"],
        "marts.orders": ["forall_marts__orders", "forall_marts__orders_2"],
    }
    (sales,) = theirs.exposures
    assert {str(model) for model, _, _ in sales.reads} == {"marts.daily", "marts.orders"}


MISTAKES = [
    (("xml",), "the form 'xml' does not exist"),
    (("json", "nosuch"), "nosuch"),
    (("json", "prod@99"), "99"),
    (("json", "--at", "yesterdayish"), "--at"),
    (("json", "--to", "no/such/folder.json"), "no/such does not exist"),
    (("json", "--to", "models"), "cannot write models"),
    (("dbt",), "--to DIR"),
    (("dbt", "--to", "nosuch"), "the folder nosuch does not exist"),
    (("dbt", "--to", "pyproject.toml"), "the folder pyproject.toml does not exist"),
]


def test_a_mistaken_call_is_told_and_writes_nothing(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)
    before = sorted(shop.root.iterdir())
    for arguments, told in MISTAKES:
        called = vde("describe", *arguments)
        assert (called.code, told in called.err, called.out) == (2, True, ""), arguments
    assert sorted(shop.root.iterdir()) == before
