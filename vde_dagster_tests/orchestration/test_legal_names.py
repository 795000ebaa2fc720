"""Whatever `vde plan` accepts as names, owners, tags and descriptions, Dagster loads."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.utils import is_valid_owner
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.models.live import LiveModel, LiveProject, load_live
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import (
    CONTROL_ASSETS,
    SHORT,
    dagster_name,
    dagster_owners,
    dagster_tag,
)
from vde_dagster.project.model import Asset
from vde_dagster_tests.projects import ProjectFolder

LETTERS = "ab_ÄöÜß売上éñ0 -.@:(){}$#!?&%,+=~^|é"
PARTS = st.text(LETTERS, min_size=1, max_size=12).filter(
    lambda text: text == text.strip(". ") and ".." not in text
)
NAMES = st.one_of(
    st.tuples(PARTS, PARTS),
    st.tuples(st.sampled_from(["vde", "exposure", "metric", "sync", "a", "a__b"]), PARTS),
    st.tuples(
        st.sampled_from(["vde", "exposure", "a", "a__b", "a_"]),
        st.sampled_from(
            ["plan", "apply", "environment", "cost", "sales", "b__c", "c", "_c", "type"]
        ),
    ),
)
OWNERS = st.one_of(
    st.sampled_from(["oncall@localhost", "Data <data@firma.de>", "müller@firma.de", "team:"]),
    st.sampled_from(["a@firma.de, b@firma.de", "team:data", "me@x.technology", "@", "team: "]),
    st.text(LETTERS, min_size=1, max_size=20),
)
TEXTS = st.text(LETTERS + "`*|\n<>", max_size=30)
TAGS = st.lists(st.text(LETTERS, max_size=80), max_size=3)
MODELS = st.tuples(NAMES, OWNERS, TAGS, TEXTS, st.sampled_from(["FULL", "VIEW", "EMBEDDED"]))
PROJECTS = st.tuples(
    st.lists(MODELS, min_size=12, max_size=24, unique_by=lambda model: _lower(model[0])),
    st.lists(st.sampled_from(["sales", "売上", "注文", "a b", "a_b"]), max_size=3, unique=True),
    st.lists(st.text(LETTERS, min_size=1, max_size=12), max_size=6),
)
"""Models, exposures and groups of a project."""


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def write(root: Path, models: list[Any], exposures: list[str]) -> None:
    (root / "models").mkdir()
    (root / "pyproject.toml").write_text('[tool.vde]\nname = "names"\n')
    for number, ((schema, name), owner, tags, description, kind) in enumerate(models):
        (root / "models" / f"m{number}.sql").write_text(
            f"MODEL (name `{schema}`.`{name}`, kind {kind}, owner {quoted(owner)},\n"
            f"  tags ({', '.join(map(quoted, tags))}), description {quoted(description)},\n"
            "  audits (not_null(columns := (id))));\nSELECT 1 AS id\n"
        )
    (schema, name), *_ = models[0]
    reads = [f"`{schema}`.`{name}`"]
    entries = [
        {"name": exposure, "owner": "oncall@localhost", "reads": reads} for exposure in exposures
    ]
    (root / "exposures.yaml").write_text(yaml.safe_dump(entries, allow_unicode=True))


class GroupTranslator(VdeTranslator):
    """Gives models the groups of a list, as a dbt project's `meta` does."""

    groups: list[str] = []

    def get_group(self, model: LiveModel) -> str:
        number = sum(map(ord, str(model.name)))
        return self.groups[number % len(self.groups)] if self.groups else super().get_group(model)


def loaded_keys(root: Path, groups: list[str] = []) -> set[dg.AssetKey]:  # noqa: B006
    """Plan and load a project as a webserver does, and return the keys of its assets."""
    with Workspace.open(root) as workspace:
        workspace.plan("dev", save=False)
        translator = GroupTranslator(root, workspace.settings.catalog)
    translator.groups = groups
    definitions = vde_definitions(root, translator)
    dg.Definitions.validate_loadable(definitions)
    repository = definitions.get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} > {"vde_apply_job", "vde_run"}
    assert repository.sensor_defs
    assert repository.schedule_defs
    return set(repository.asset_graph.get_all_asset_keys())


@pytest.mark.dagster
@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (["sales__eu.orders", "sales.eu__orders"], ["sales__eu/orders", "sales/eu__orders"]),
        (["q.`a-b`", "q.a_b"], ["q/a-b", "q/a_b"]),
        (["q.`売上`", "q.`注文`"], ["q/売上", "q/注文"]),
        (["q.`gröse`", "q.`gräse`"], ["q/gröse", "q/gräse"]),
        (["`ü`.a", "`ö`.a"], ["ü/a", "ö/a"]),
        (
            [f"vde.{name}" for name in (*CONTROL_ASSETS, "orders")],
            [*(f"model/vde/{name}" for name in CONTROL_ASSETS), "vde/orders"],
        ),
        (
            ["exposure.sales", "exposure.orders", "metric.a", "sync.a"],
            ["model/exposure/sales", "exposure/orders", "metric/a", "sync/a", "exposure/sales"],
        ),
    ],
)
def test_models_with_similar_names_load_with_their_own_keys(
    tmp_path: Path, names: list[str], keys: list[str]
) -> None:
    models = [
        (tuple(ModelName.split(name)), "me@firma.de", ["", " "], "", "FULL") for name in names
    ]
    write(tmp_path, models, ["sales"])
    found = {key.to_user_string() for key in loaded_keys(tmp_path)}
    control = {f"vde/{name}" for name in CONTROL_ASSETS}
    assert found == {*keys, *control, "exposure/sales"}


METRICS = """
semantic_model:
  name: orders
  node_relation: {schema_name: q, alias: gröse}
  defaults: {agg_time_dimension: made_on}
  entities: [{name: order, type: primary, expr: id}]
  dimensions:
    - {name: made_on, expr: day, type: time, type_params: {time_granularity: day}}
  measures: [{name: revenue, agg: sum, expr: id, create_metric: true}]
"""
SYNC = {"name": "latest", "source": "q.gröse", "key": ["id"], "mode": "mirror", "sink": "http"}


@pytest.mark.dagster
def test_checks_schedules_syncs_and_metrics_of_any_names_load(tmp_path: Path) -> None:
    pytest.importorskip("metricflow")
    schedules = '"pr-12" = "0 * * * *"\npr_12 = "0 1 * * *"\n'
    folder = ProjectFolder(
        tmp_path / "project",
        {
            "pyproject.toml": f'[tool.vde]\nname = "x"\n[tool.vde.dagster.schedules]\n{schedules}',
            "models/one.sql": "MODEL (name q.`gröse`, kind FULL);\n"
            "SELECT 1 AS id, DATE '2025-01-01' AS day",
            "models/two.sql": "MODEL (name `ä`.a, kind EMBEDDED);\nSELECT 1 AS id",
            "tests/two.yaml": "size ä: {model: '`ä`.a', outputs: {query: [{id: 1}]}}\n",
            "metrics/orders.yaml": METRICS,
            "syncs.yaml": yaml.safe_dump([SYNC | {"to": {"prod": {"url": "http://localhost"}}}]),
        },
    )
    assert {dg.AssetKey(["metric", "revenue"]), dg.AssetKey(["sync", "latest"])} < loaded_keys(
        folder.root
    )
    graph = vde_definitions(folder.root).resolve_asset_graph()
    read = {dg.AssetKey(["q", "gröse"]), SHORT.environment_key}
    assert graph.get(dg.AssetKey(["metric", "revenue"])).parent_keys == read
    assert graph.get(dg.AssetKey(["sync", "latest"])).parent_keys == read
    assert dg.AssetKey(["ä", "a"]) in {check.asset_key for check in graph.asset_check_keys}


def check_project(root: Path, project: tuple[list[Any], list[str], list[str]]) -> None:
    """Plan and load a project, and check that each of its assets has a key."""
    models, exposures, groups = project
    root.mkdir()
    write(root, models, exposures)
    keys = loaded_keys(root, groups)
    assert len(keys) == len(models) + len(exposures) + len(CONTROL_ASSETS)


@pytest.mark.dagster
@settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(PROJECTS)
def test_whatever_plans_is_loaded_by_dagster(
    tmp_path_factory: pytest.TempPathFactory, project: tuple[list[Any], list[str], list[str]]
) -> None:
    check_project(tmp_path_factory.mktemp("names") / "project", project)


def _lower(name: tuple[str, str]) -> str:
    return f"{name[0].lower()}\0{name[1].lower()}"


@given(st.lists(PARTS, min_size=1, max_size=3), st.lists(PARTS, min_size=1, max_size=3))
def test_different_paths_have_different_names_of_letters_and_digits(
    one: list[str], other: list[str]
) -> None:
    assert dagster_name(*one).replace("_", "a").isascii()
    assert dagster_name(*one).replace("_", "a").isalnum()
    assert (dagster_name(*one) == dagster_name(*other)) == (one == other)


def test_plain_names_stay_as_they_are() -> None:
    assert dagster_name("marts", "daily_sales") == "marts__daily_sales"
    assert dagster_name("marts") == "marts"
    assert dagster_tag("pii.v-1") == "pii.v-1"


def test_names_that_end_like_a_hash_differ_from_the_hashed_name() -> None:
    hashed = dagster_name("q", "gröse").removeprefix("q__")
    assert dagster_name("q", hashed) != dagster_name("q", "gröse")
    assert dagster_tag(dagster_tag("a b")) != dagster_tag("a b")
    assert dagster_name("raw", "events_2024010100") == "raw__events_2024010100"


KEYS = st.lists(
    st.sampled_from(["model", "vde", "apply", "a", "b", "metric", "exposure", "sales"]),
    min_size=1,
    max_size=3,
).map(tuple)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> LiveProject:
    root = tmp_path_factory.mktemp("keys")
    names = [("vde", "apply"), ("exposure", "sales"), ("a", "a"), ("a", "b"), ("b", "a")]
    write(root, [(name, "me", [], "", "FULL") for name in names], ["sales", "売上"])
    read = root / "models" / "m0.sql"
    read.write_text(read.read_text() + "FROM sales.sales JOIN a.b ON true\n")
    with Workspace.open(root) as workspace:
        return load_live(workspace, datetime(2026, 1, 1, tzinfo=timezone.utc))


@given(st.lists(st.none() | KEYS, min_size=6, max_size=6))
def test_keys_of_other_tools_never_take_the_key_of_another_asset(
    live: LiveProject, given_keys: list[tuple[str, ...] | None]
) -> None:
    models = {}
    for (name, model), key in zip(live.models.items(), given_keys, strict=True):
        definition = replace(model.snapshot.model, asset=Asset(key) if key else None)
        models[name] = replace(model, snapshot=replace(model.snapshot, model=definition))
    translator = VdeTranslator().with_model_keys(models, live.readers)
    exposures = (
        translator.get_exposure_spec(one, translator.get_asset_key).key for one in live.readers
    )
    keys = [
        *(SHORT.asset_key("vde", name) for name in CONTROL_ASSETS),
        *exposures,
        *map(translator.get_asset_key, models),
    ]
    assert len(set(keys)) == len(CONTROL_ASSETS) + len(live.readers) + len(models)


@given(TEXTS, TEXTS)
def test_different_tags_have_different_keys(one: str, other: str) -> None:
    assert (dagster_tag(one) == dagster_tag(other)) == (one == other)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("me@firma.de", ["me@firma.de"]),
        ("Data <data@firma.de>", ["data@firma.de"]),
        ("a@firma.de, b@firma.de", ["a@firma.de", "b@firma.de"]),
        ("a@firma.de; b@firma.de", ["a@firma.de", "b@firma.de"]),
        ("a@firma.de b@firma.de", ["a@firma.de", "b@firma.de"]),
        ('"Doe, Jo" <jo@firma.de>, Data <data@firma.de>', ["jo@firma.de", "data@firma.de"]),
        ("<me@firma.de>", ["me@firma.de"]),
        ("+me@firma.de", ["team:+me@firma.de"]),
        ("a@firma.de, analysts", ["team:a@firma.de, analysts"]),
        ("oncall@localhost", ["team:oncall@localhost"]),
        ("müller@firma.de", ["team:müller@firma.de"]),
        ("analysts", ["team:analysts"]),
        ("team:analysts", ["team:analysts"]),
        ("team:", []),
        (" ", []),
        (None, []),
    ],
)
def test_owners_become_addresses_or_teams(owner: str | None, expected: list[str]) -> None:
    assert dagster_owners([owner]) == expected


@given(st.lists(OWNERS | st.text('ab.+-%@ <>;,"é\n', max_size=12), max_size=3))
def test_dagster_accepts_every_owner(owners: list[str]) -> None:
    found = dagster_owners([*owners, *(f"{owner}@firma.de" for owner in owners)])
    assert all(map(is_valid_owner, found))
    assert bool(found) or not "".join(owners).replace("team:", "").strip()
