"""How models look, and that one override changes it everywhere."""

from __future__ import annotations

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration import VdeTranslator, vde_definitions
from vde_dagster.orchestration.models.live import LiveModel
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.projects import ProjectFolder


def spec_of(folder: ProjectFolder, name: str) -> dg.AssetSpec:
    return load_catalog(folder).specs[ModelName.parse(name)]


def test_key_group_kinds_owner_and_tags(days: ProjectFolder) -> None:
    spec = spec_of(days, "marts.running")
    assert spec.key == dg.AssetKey(["marts", "running"])
    assert spec.group_name == "marts"
    assert spec.kinds == {"spark", "iceberg", "sql"}
    assert spec.owners == ["team:analysts"]
    assert spec.tags["money"] == ""


def test_the_description_holds_the_text_and_the_fenced_source(days: ProjectFolder) -> None:
    text = spec_of(days, "marts.customers").description or ""
    assert text.startswith("*No environment contains it yet.*\n\nOne row per customer\n")
    assert "```sql\nMODEL (name marts.customers" in text


def test_columns_and_their_lineage(days: ProjectFolder) -> None:
    metadata = spec_of(days, "marts.daily").metadata
    schema = metadata["dagster/column_schema"]
    assert [column.name for column in schema.columns] == ["day", "orders", "revenue"]
    lineage = metadata["dagster/column_lineage"].deps_by_column
    assert lineage["revenue"] == [
        dg.TableColumnDep(asset_key=dg.AssetKey(["staging", "orders"]), column_name="amount")
    ]
    assert (
        "| revenue | staging.orders.amount | aggregation |" in metadata["vde/column_lineage"].value
    )


def test_column_descriptions_are_shown(days: ProjectFolder) -> None:
    schema = spec_of(days, "marts.customers").metadata["dagster/column_schema"]
    assert {c.name: c.description for c in schema.columns}["customer"] == "Who ordered"


def test_table_name_and_link_to_the_file(days: ProjectFolder) -> None:
    metadata = spec_of(days, "marts.daily").metadata
    assert metadata["dagster/table_name"] == "lakehouse.marts.daily"
    reference = metadata["dagster/code_references"].code_references[0]
    assert reference.file_path == str(days.root / "models/marts/daily.sql")


def test_assets_link_to_their_pages_of_the_documentation_site(days: ProjectFolder) -> None:
    daily = dg.AssetKey(["marts", "daily"])
    before = vde_definitions(days.root).resolve_asset_graph().get(daily).metadata
    assert "vde/docs" not in before
    settings = days.root / "pyproject.toml"
    text = settings.read_text() if settings.exists() else ""
    table = "" if "[tool.vde]" in text else "[tool.vde]\n"
    added = f'{table}docs_url = "https://docs.example.com/lake/"\n'
    old, found, rest = text.partition("[tool.vde]\n")
    settings.write_text(f"{old}{found}{added}{rest}")
    after = vde_definitions(days.root).resolve_asset_graph().get(daily).metadata
    assert after["vde/docs"].value == "https://docs.example.com/lake/#/model/marts.daily"


class Mine(VdeTranslator):
    """Puts everything below one prefix and another group."""

    def get_asset_key(self, name: ModelName) -> dg.AssetKey:
        return dg.AssetKey(["lake", *super().get_asset_key(name).path])

    def get_asset_spec(self, model: LiveModel) -> dg.AssetSpec:
        spec = super().get_asset_spec(model)
        return spec.replace_attributes(group_name="mine").merge_attributes(tags={"cost": "low"})


def test_an_override_changes_keys_edges_and_looks(days: ProjectFolder) -> None:
    definitions = vde_definitions(days.root, Mine(days.root))
    graph = definitions.resolve_asset_graph()
    node = graph.get(dg.AssetKey(["lake", "marts", "running"]))
    assert node.parent_keys == {dg.AssetKey(["lake", "marts", "daily"])}
    assert node.group_name == "mine"
    assert node.tags["cost"] == "low"
    assert graph.get(dg.AssetKey(["lake", "finance", "rates"])).is_external
