"""A project is a whole code location in one line, and stays one while files are wrong."""

from __future__ import annotations

import dagster as dg
import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import APPLY_KEY, ENVIRONMENT_KEY, PLAN_KEY
from vde_dagster_tests.projects import ProjectFolder


def keys(definitions: dg.Definitions) -> set[str]:
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string() for key in graph.get_all_asset_keys()}


def test_a_project_is_a_loadable_code_location(days: ProjectFolder) -> None:
    definitions = vde_definitions(days.root)
    dg.Definitions.validate_loadable(definitions)
    assert {"marts/daily", "staging/orders", "finance/rates", "vde/plan"} <= keys(definitions)


def test_every_job_is_there_with_a_described_form(days: ProjectFolder) -> None:
    definitions = vde_definitions(days.root)
    for name in (
        "vde_plan_job",
        "vde_apply_job",
        "vde_new_plan",
        "vde_plan_and_apply",
        "vde_run",
        "vde_rollback",
        "vde_janitor",
        "vde_drop_environment",
    ):
        job = definitions.resolve_job_def(name)
        assert job.description
        for node in job.nodes:
            config = node.definition.config_schema.config_type
            for field_name, field in getattr(config, "fields", {}).items():
                assert field.description, f"{name}: {field_name} is not documented"


def test_parents_are_edges_and_external_tables_are_nodes(days: ProjectFolder) -> None:
    graph = vde_definitions(days.root).resolve_asset_graph()
    assert graph.get(dg.AssetKey(["marts", "rates"])).parent_keys == {
        dg.AssetKey(["finance", "rates"])
    }
    assert graph.get(dg.AssetKey(["finance", "rates"])).is_external
    assert graph.get(ENVIRONMENT_KEY).is_external
    assert graph.get(APPLY_KEY).parent_keys == {PLAN_KEY}


def test_a_users_own_asset_takes_the_place_of_an_external_table(days: ProjectFolder) -> None:
    @dg.asset(key=["finance", "rates"])
    def rates() -> None: ...

    @dg.asset(deps=[dg.AssetKey(["marts", "rates"])])
    def report() -> None: ...

    definitions = vde_definitions(days.root, assets=[rates, report])
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["finance", "rates"])).is_materializable
    assert graph.get(dg.AssetKey("report")).parent_keys == {dg.AssetKey(["marts", "rates"])}


def test_definitions_merge_with_others(days: ProjectFolder) -> None:
    @dg.asset
    def other() -> None: ...

    merged = dg.Definitions.merge(vde_definitions(days.root), dg.Definitions(assets=[other]))
    dg.Definitions.validate_loadable(merged)
    assert {"other", "marts/daily"} <= keys(merged)


def test_a_broken_file_leaves_the_rest_of_the_location_alive(days: ProjectFolder) -> None:
    days.write("models/marts/broken.sql", "MODEL (name marts.broken, kind FULL); SELECT FROM")
    definitions = vde_definitions(days.root)
    dg.Definitions.validate_loadable(definitions)
    assert "marts/daily" in keys(definitions)
    assert "marts/broken" not in keys(definitions)
    said = definitions.resolve_asset_graph().get(PLAN_KEY).description or ""
    assert "models/marts/broken.sql" in said


def test_an_unknown_column_takes_only_its_model_and_its_readers_away(days: ProjectFolder) -> None:
    days.edit("models/marts/customers.sql", "sum(amount)", "sum(amuont)")
    definitions = vde_definitions(days.root)
    found = keys(definitions)
    said = definitions.resolve_asset_graph().get(PLAN_KEY).description or ""
    assert "Did you mean 'amount'?" in said
    assert "marts/customers" not in found
    assert "marts/top" not in found
    assert "marts/daily" in found


def test_wrong_settings_are_one_clear_error(days: ProjectFolder) -> None:
    days.write("pyproject.toml", "[tool.vde]\nconcurency = 3\n")
    with pytest.raises(ProjectError, match="concurency"):
        vde_definitions(days.root)
