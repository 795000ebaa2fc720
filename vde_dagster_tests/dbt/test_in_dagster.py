"""dbt's nodes in Dagster: the names that dagster-dbt gives them, beside assets of others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import dagster_name
from vde_dagster_tests.dbt.conftest import PROJECTS, DbtCopy
from vde_dagster_tests.dbt.test_beside import FILES
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.dagster


def key(path: str) -> dg.AssetKey:
    return dg.AssetKey.from_user_string(path)


def test_keys_groups_owners_tags_and_files_are_those_of_dbt(shop: DbtCopy) -> None:
    graph = vde_definitions(shop.root).resolve_asset_graph()

    nodes = {one.to_user_string(): graph.get(one) for one in graph.get_all_asset_keys()}
    # Schema is part of a key where a model's configuration names one; a source has its two names.
    assert {name for name in nodes if not name.startswith("vde/")} == {
        *("customers", "visits", "order_facts", "big_spenders", "raw_customers"),
        *("raw_orders", "web/visits", "customer_history", "order_history", "customer_log"),
        *(f"{name}__versions" for name in ("customer_history", "order_history", "customer_log")),
        *(f"staging/{name}" for name in ("stg_customers", "stg_orders", "paid_orders")),
        "staging/large_orders",
        "exposure/board",
    }
    customers = nodes["customers"]
    assert customers.group_name == "sales"
    assert "sales@example.com" in customers.owners
    assert {"nightly": "", "finance": ""}.items() <= customers.tags.items()
    assert key("staging/stg_customers") in customers.parent_keys
    reference = customers.metadata["dagster/code_references"].code_references[0]
    assert reference.file_path == str(shop.root / "models/marts/customers.sql")
    lineage = nodes["staging/stg_customers"].metadata["dagster/column_lineage"].deps_by_column
    assert [one.asset_key for one in lineage["name"]] == [key("raw_customers")]
    assert key("customers") in {one.asset_key for one in graph.asset_check_keys}


def test_meta_of_dagster_goes_before_names_of_dbt(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        given = {"asset_key": ["gold", "people"], "group": "gold", "owners": ["team:gold"]}
        manifest["nodes"]["model.shop.customers"]["config"]["meta"] = {"dagster": given}
        manifest["nodes"]["model.shop.visits"] |= {"version": 2, "alias": "visits_v2"}

    shop.edit(change)
    graph = vde_definitions(shop.root).resolve_asset_graph()

    people = graph.get(key("gold/people"))
    assert people.group_name == "gold"
    assert {"team:gold", "sales@example.com"} <= set(people.owners)
    assert graph.has(key("visits_v2"))


def test_a_key_that_two_would_have_is_of_neither(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        meta = {"dagster": {"asset_key": ["customers"]}}
        manifest["nodes"]["model.shop.visits"]["config"]["meta"] = meta

    shop.edit(change)
    graph = vde_definitions(shop.root).resolve_asset_graph()

    assert {key("main/customers"), key("main/visits")} <= graph.get_all_asset_keys()
    assert not graph.has(key("customers"))


def test_assets_of_others_live_in_one_location_with_them(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    shutil.copytree(PROJECTS / "shop", folder.root / "transform")

    @dg.asset(deps=["customers"], key=["dashboards", "customers"])
    def dashboard() -> None: ...

    own = vde_definitions(folder.root)
    others = dg.Definitions(
        assets=[dashboard],
        jobs=[dg.define_asset_job("refresh", selection=dg.AssetSelection.assets("customers"))],
    )
    both = dg.Definitions.merge(own, others)
    dg.Definitions.validate_loadable(both)
    graph = both.resolve_asset_graph()

    assert graph.get(key("dashboards/customers")).parent_keys == {key("customers")}
    # A source that a model of the project's own makes is that model.
    assert key("weblog/raw_visits") in graph.get(key("visits")).parent_keys
    assert graph.get(key("reports/spent")).parent_keys == {key("customers")}
    assert not graph.has(key("web/visits"))


def test_freshness_is_a_check_and_an_exposure_an_asset(copied: Callable[[str], DbtCopy]) -> None:
    graph = vde_definitions(copied("governed").root).resolve_asset_graph()

    checks = {one.name for one in graph.asset_check_keys if one.asset_key == key("raw/orders")}
    assert checks == {"freshness_limit_warn_after", "freshness_limit_error_after"}
    board = graph.get(key(f"exposure/{dagster_name('The board')}"))
    assert board.parent_keys == {key("totals_v1"), key("report")}
    assert (board.owners, board.is_materializable) == (["team:Sales"], False)
    assert board.metadata["url"].value == "https://example.com/board"
    assert {graph.get(key(n)).group_name for n in ("paid", "totals_v1", "totals_v2")} == {"finance"}
    assert key("totals_v2") in graph.get(key("report")).parent_keys
