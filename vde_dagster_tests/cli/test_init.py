"""`vde init` and the project that it makes."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.new_project import new_project
from vde_dagster_tests.cli.conftest import Vde


def test_init_makes_a_project_that_loads(tmp_path: Path, vde: Vde) -> None:
    made = vde("init", tmp_path / "shop", "--json")
    assert made.code == 0
    assert "models/marts/daily_revenue.sql" in made.json["files"]
    assert ".gitignore" in made.json["files"]
    shown = vde("info", "--project", tmp_path / "shop", "--json").json
    assert {model["name"]: model["kind"] for model in shown["models"]} == {
        "raw.orders": "SEED",
        "staging.orders": "VIEW",
        "marts.daily_revenue": "INCREMENTAL_BY_TIME_RANGE",
    }
    assert shown["project"]["name"] == "shop"
    assert shown["environments"] == []


def test_init_takes_the_folder_from_project_too(tmp_path: Path, vde: Vde) -> None:
    assert vde("init", "--project", tmp_path / "here").code == 0
    assert (tmp_path / "here" / "models").is_dir()


def test_init_leaves_an_existing_project_alone(tmp_path: Path, vde: Vde) -> None:
    (tmp_path / "models").mkdir()
    before = sorted(tmp_path.rglob("*"))
    refused = vde("init", tmp_path)
    assert refused.code == 2
    assert "already has models" in refused.err
    assert sorted(tmp_path.rglob("*")) == before


def test_the_plan_of_the_new_project_starts_no_java_and_is_told_for_people_too(
    tmp_path: Path, vde: Vde
) -> None:
    new_project(tmp_path / "shop")
    shown = vde("plan", "prod", "--project", tmp_path / "shop")
    assert shown.code == 0
    assert "computes 2 models" in shown.out
    assert "7 days, 2024-01-01 … 2024-01-07" in shown.out
    assert "3 created" in shown.out
    assert "apply it with: vde apply prod --plan prod-" in shown.err
