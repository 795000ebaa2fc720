"""Whatever `vde plan` accepts as names, owners, tags and descriptions, Dagster loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.names import dagster_name, dagster_owners, dagster_tag

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
MODELS = st.tuples(NAMES, OWNERS, st.lists(st.text(LETTERS, max_size=80), max_size=3), TEXTS)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def write(root: Path, models: list[Any], exposures: list[str]) -> None:
    (root / "models").mkdir()
    (root / "pyproject.toml").write_text('[tool.vde]\nname = "names"\n')
    for number, ((schema, name), owner, tags, description) in enumerate(models):
        (root / "models" / f"m{number}.sql").write_text(
            f"MODEL (name `{schema}`.`{name}`, kind FULL, owner {quoted(owner)},\n"
            f"  tags ({', '.join(map(quoted, tags))}), description {quoted(description)},\n"
            "  audits (not_null(columns := (id))));\nSELECT 1 AS id\n"
        )
    (schema, name), *_ = models[0]
    reads = [f"`{schema}`.`{name}`"]
    entries = [
        {"name": exposure, "owner": "oncall@localhost", "reads": reads} for exposure in exposures
    ]
    (root / "exposures.yaml").write_text(yaml.safe_dump(entries, allow_unicode=True))


def loaded_keys(root: Path) -> set[dg.AssetKey]:
    """Plan and load a project as a webserver does, and return the keys of its assets."""
    with Workspace.open(root) as workspace:
        workspace.plan("dev", save=False)
    definitions = vde_definitions(root)
    dg.Definitions.validate_loadable(definitions)
    repository = definitions.get_repository_def()
    assert repository.get_all_jobs()
    return set(repository.asset_graph.get_all_asset_keys())


@pytest.mark.dagster
@settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    st.lists(MODELS, min_size=12, max_size=24, unique_by=lambda model: _lower(model[0])),
    st.lists(st.sampled_from(["sales", "売上", "注文", "a b", "a_b"]), max_size=3, unique=True),
)
def test_whatever_plans_is_loaded_by_dagster(
    tmp_path_factory: pytest.TempPathFactory, models: list[Any], exposures: list[str]
) -> None:
    root = tmp_path_factory.mktemp("names") / "project"
    root.mkdir()
    write(root, models, exposures)
    keys = loaded_keys(root)
    of_models = [key for key in keys if key.path[0] not in ("vde", "exposure")]
    assert len(of_models) == len(models)
    assert len([key for key in keys if key.path[0] == "exposure"]) == len(exposures)


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


@given(TEXTS, TEXTS)
def test_different_tags_have_different_keys(one: str, other: str) -> None:
    assert (dagster_tag(one) == dagster_tag(other)) == (one == other)


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ("me@firma.de", ["me@firma.de"]),
        ("Data <data@firma.de>", ["data@firma.de"]),
        ("a@firma.de, b@firma.de", ["a@firma.de", "b@firma.de"]),
        ("oncall@localhost", ["team:oncall@localhost"]),
        ("müller@firma.de", ["team:müller@firma.de"]),
        ("analysts", ["team:analysts"]),
        ("team:analysts", ["team:analysts"]),
        ("team:", []),
        (" ", []),
        (None, []),
    ],
)
def test_owners_are_addresses_or_teams(owner: str | None, expected: list[str]) -> None:
    assert dagster_owners([owner]) == expected
