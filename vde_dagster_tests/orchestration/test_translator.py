"""How models look, and that one override changes it everywhere."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration import VdeTranslator, vde_definitions
from vde_dagster.orchestration.models.catalog import build_catalog
from vde_dagster.orchestration.models.live import LiveModel
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.orchestration.conftest import NOW, load_catalog
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
    assert text.startswith("One row per customer\n\n*No environment contains it yet.*\n")
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


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("https://docs.example.com/lake/", "https://docs.example.com/lake/"),
        ("https://store.example.com/index.html", "https://store.example.com/index.html"),
    ],
)
def test_assets_link_to_their_pages_of_the_documentation_site(
    days: ProjectFolder, address: str, page: str
) -> None:
    daily = dg.AssetKey(["marts", "daily"])
    before = vde_definitions(days.root).resolve_asset_graph().get(daily).metadata
    assert "vde/docs" not in before
    settings = days.root / "pyproject.toml"
    text = settings.read_text() if settings.exists() else ""
    table = "" if "[tool.vde]" in text else "[tool.vde]\n"
    added = f'{table}docs_url = "{address}"\n'
    old, found, rest = text.partition("[tool.vde]\n")
    settings.write_text(f"{old}{found}{added}{rest}")
    after = vde_definitions(days.root).resolve_asset_graph().get(daily).metadata
    assert after["vde/docs"].value == f"{page}#/model/marts.daily"


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


STEP = """
    MODEL (
      name marts.step, kind FULL,
      retry_policy (max_retries = 3, delay = '30 seconds', backoff = exponential, jitter = full),
      op_tags (
        'dagster-k8s/config' = (container_config = (
          resources = (limits = (cpu = '2', memory = '4Gi')), args = [a, 'b c'], stdin = true)),
        'dagster-celery/queue' = slow,
        'dagster/priority' = 5
      ),
      pool big_jobs,
      automation_condition on_cron('@daily', 'Europe/Berlin')
    );
    SELECT day FROM marts.daily
"""
STEP_IN_PYTHON = """
    from vde_dagster import model

    @model(
        "marts.step",
        kind="FULL",
        columns={"day": "date"},
        retry_policy={
            "max_retries": 3, "delay": "30s", "backoff": "exponential", "jitter": "full"
        },
        op_tags={
            "dagster-k8s/config": {
                "container_config": {
                    "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
                    "args": ["a", "b c"],
                    "stdin": True,
                },
            },
            "dagster-celery/queue": "slow",
            "dagster/priority": 5,
        },
        pool="big_jobs",
        automation_condition="on_cron('@daily', 'Europe/Berlin')",
    )
    def execute(context, **kwargs):
        return None
"""


@pytest.mark.parametrize(
    ("path", "text"), [("models/step.sql", STEP), ("models/step.py", STEP_IN_PYTHON)]
)
def test_a_header_sets_retries_op_tags_pool_and_automation(
    days: ProjectFolder, path: str, text: str
) -> None:
    days.write(path, text)
    definitions = vde_definitions(days.root)
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()
    step = graph.get(dg.AssetKey(["marts", "step"])).assets_def
    assert step.op.retry_policy == dg.RetryPolicy(3, 30.0, dg.Backoff.EXPONENTIAL, dg.Jitter.FULL)
    assert step.op.tags == {
        "dagster-k8s/config": '{"container_config": {"resources": {"limits": {"cpu": "2", '
        '"memory": "4Gi"}}, "args": ["a", "b c"], "stdin": true}}',
        "dagster-celery/queue": "slow",
        "dagster/priority": "5",
    }
    assert step.op.pool == "big_jobs"
    condition = dg.AutomationCondition.on_cron("0 0 * * *", "Europe/Berlin")
    assert step.automation_conditions_by_key == {step.key: condition}
    plain = graph.get(dg.AssetKey(["marts", "daily"])).assets_def
    assert (plain.op.retry_policy, plain.op.tags, plain.op.pool) == (None, {}, "vde_spark")
    assert plain.automation_conditions_by_key == {}


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ("eager", dg.AutomationCondition.eager()),
        ("'eager'", dg.AutomationCondition.eager()),
        ("on_missing()", dg.AutomationCondition.on_missing()),
        ("on_cron('0 5 * * 1')", dg.AutomationCondition.on_cron("0 5 * * 1")),
    ],
)
def test_a_header_names_an_automation_condition(
    days: ProjectFolder, written: str, condition: dg.AutomationCondition[Any]
) -> None:
    days.edit("models/marts/running.sql", "tags (money)", f"automation_condition {written}")
    model = load_project(days.root).models[ModelName.parse("marts.running")]
    assert VdeTranslator().get_automation_condition(model) == condition


@pytest.mark.parametrize(
    ("written", "policy"),
    [
        ("3", dg.RetryPolicy(3)),
        ("(max_retries = 2)", dg.RetryPolicy(2)),
        ("(delay = 1.5)", dg.RetryPolicy(1, 1.5)),
        ("(delay = '5 minutes')", dg.RetryPolicy(1, 300.0)),
        ("(delay = '2h', backoff = linear)", dg.RetryPolicy(1, 7200.0, dg.Backoff.LINEAR)),
    ],
)
def test_a_header_sets_a_retry_policy(
    days: ProjectFolder, written: str, policy: dg.RetryPolicy
) -> None:
    days.edit("models/marts/running.sql", "tags (money)", f"retry_policy {written}")
    model = load_project(days.root).models[ModelName.parse("marts.running")]
    assert VdeTranslator().get_retry_policy(model) == policy


METHODS = {
    name: method
    for name, method in vars(VdeTranslator).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


def test_the_example_of_each_method_overrides_it_and_loads(days: ProjectFolder) -> None:
    plain = load_catalog(days)
    classes = {"": VdeTranslator, **METHODS}
    assert len(classes) > 15
    for name, documented in classes.items():
        found = re.search(r"```python\n(.*?)```", inspect.getdoc(documented) or "", re.DOTALL)
        assert found, f"{name or 'VdeTranslator'} has no example"
        space: dict[str, Any] = {"project_root": days.root}
        exec(textwrap.dedent(found[1]), space)
        assert not name or name in vars(space["Translator"])
        catalog = build_catalog(plain.live, space["Translator"](days.root), NOW)
        specs, shown = (list(one.specs.values()) for one in (catalog, plain))
        assert len(specs) == len(shown)
        for model in catalog.live.models.values():
            for step in ("get_retry_policy", "get_op_tags", "get_pool"):
                getattr(catalog.translator, step)(model.snapshot.model)
