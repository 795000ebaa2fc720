"""A project is a whole code location in one line, and stays one while files are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

import vde_dagster
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.instance import INSTANCE_CONFIG
from vde_dagster.orchestration.names import SHORT
from vde_dagster_tests.projects import ProjectFolder


def keys(definitions: dg.Definitions) -> set[str]:
    graph = definitions.resolve_asset_graph()
    return {key.to_user_string() for key in graph.get_all_asset_keys()}


def test_the_package_has_definitions_under_its_own_name() -> None:
    assert vde_dagster.vde_definitions is vde_definitions


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
        "vde_freeze",
        "vde_janitor",
        "vde_drop_environment",
    ):
        job = definitions.resolve_job_def(name)
        assert job.description
        for node in job.nodes:
            config = node.definition.config_schema.config_type
            for field_name, field in getattr(config, "fields", {}).items():
                assert field.description, f"{name}: {field_name} is not documented"


def test_the_launchpad_shows_what_a_person_can_choose_and_no_more(days: ProjectFolder) -> None:
    definitions = vde_definitions(days.root)
    plan = {"environment", "create", "start", "end", "select", "restate", "skip_backfill"}
    rare = {"execution_time", "ignore_cron", "min_intervals", "empty_backfill", "backfill"}
    rare |= {"no_gaps", "forward_only", "effective_from", "allow_destructive", "allow_additive"}
    plan |= {"remove_models", *(f"advanced.{name}" for name in rare)}
    applying = {"concurrency", "skip_tests"}
    forms = {
        "vde_plan_job": set(),
        "vde_apply_job": {f"vde__apply.{field}" for field in (*applying, "plan", "who")},
        "vde_new_plan": {f"plan.{field}" for field in plan},
        "vde_plan_and_apply": {
            f"plan_and_apply.{field}" for field in {*plan, *applying, "accept_breaks"}
        },
        "vde_run": {"run.environment", "run.concurrency", "run.full"},
        "vde_auto_apply": {"auto_apply.plan"},
        "vde_rollback": {
            "rollback.environment",
            "rollback.version",
            "rollback.definitions_only",
        },
        "vde_freeze": {"freeze.version", "freeze.name", "freeze.keep"},
        "vde_janitor": {"janitor.dry_run", "janitor.keep_runs_days"},
        "vde_drop_environment": {"drop_environment.environment"},
    }
    for name, fields in forms.items():
        shown = dict(choices(definitions.resolve_job_def(name).run_config_schema.config_type))
        of_ours = {path for path in shown if not path.startswith(OF_DAGSTER)}
        assert of_ours == {f"ops.{field}" for field in fields}
        assert all(text for path, text in shown.items() if path.startswith("ops."))
    everything = definitions.resolve_implicit_global_asset_job_def().run_config_schema.config_type
    shown = dict(choices(everything))
    assert "ops.marts__daily.only_missing" in shown
    assert not [path for path in shown if not path.startswith(("ops.", *OF_DAGSTER))]


OF_DAGSTER = ("execution.", "loggers.", "resources.io_manager.", "inputs")
"""What every Dagster job has in its launchpad."""


def choices(form: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Walk a form: each field that takes a value, by its path, with its description."""
    for name, field in getattr(form, "fields", {}).items():
        here = path if name == "config" else f"{path}.{name}".strip(".")
        if getattr(field.config_type, "fields", None) is not None:
            yield from choices(field.config_type, here)
        elif field.config_type.key != "Any":  # a step that takes nothing takes anything
            yield here, field.description


def test_parents_are_edges_and_external_tables_are_nodes(days: ProjectFolder) -> None:
    graph = vde_definitions(days.root).resolve_asset_graph()
    assert graph.get(dg.AssetKey(["marts", "rates"])).parent_keys == {
        dg.AssetKey(["finance", "rates"])
    }
    assert graph.get(dg.AssetKey(["finance", "rates"])).is_external
    assert graph.get(SHORT.environment_key).is_external
    assert graph.get(SHORT.apply_key).parent_keys == {SHORT.plan_key}


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


def test_an_asset_with_the_key_of_a_model_is_refused(days: ProjectFolder) -> None:
    @dg.asset(key=["marts", "rates"])
    def rates() -> None: ...

    with pytest.raises(UsageError) as found:
        vde_definitions(days.root, assets=[rates])
    assert str(found.value) == (
        "models/marts/rates.sql:1:1: the asset marts/rates in `assets` has the key of the model "
        "marts.rates. Hint: give the asset another key; an asset in `assets` replaces an external "
        "table with the same key, but no other model"
    )
    # The asset may replace a model that leaves the project: the next plan removes it.
    days.remove("models/marts/rates.sql")
    dg.Definitions.validate_loadable(vde_definitions(days.root, assets=[rates]))


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
    said = definitions.resolve_asset_graph().get(SHORT.plan_key).description or ""
    assert "models/marts/broken.sql" in said


def test_an_unknown_column_takes_only_its_model_and_its_readers_away(days: ProjectFolder) -> None:
    days.edit("models/marts/customers.sql", "sum(amount)", "sum(amuont)")
    definitions = vde_definitions(days.root)
    found = keys(definitions)
    said = definitions.resolve_asset_graph().get(SHORT.plan_key).description or ""
    assert "Did you mean 'amount'?" in said
    assert "marts/customers" not in found
    assert "marts/top" not in found
    assert "marts/daily" in found


def test_wrong_settings_are_one_clear_error(days: ProjectFolder) -> None:
    days.write("pyproject.toml", "[tool.vde]\nconcurency = 3\n")
    with pytest.raises(ProjectError, match="concurency"):
        vde_definitions(days.root)


def test_the_examples_instance_says_what_the_packages_own_file_says() -> None:
    """The example's `dagster.yaml` is one to begin from; a difference would go unseen."""
    example = Path(vde_dagster.__file__).parents[1] / "dagster.yaml"
    said = yaml.safe_load(example.read_text("utf-8"))
    assert said == yaml.safe_load(INSTANCE_CONFIG.read_text("utf-8"))
    assert said["run_monitoring"]["enabled"] is True
