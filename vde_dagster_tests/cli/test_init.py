"""`vde init` and the project that it makes."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.cli.commands.project import new_project
from vde_dagster.project.loading.loader import load_project
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEW = [
    ".gitignore",
    "README.md",
    "definitions.py",
    "models/audits/not_negative.sql",
    "models/marts/daily_revenue.sql",
    "models/raw/orders.sql",
    "models/seeds/orders.csv",
    "models/staging/orders.sql",
    "models/tests/test_daily_revenue.yaml",
    "pyproject.toml",
]


def files_of(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_init_makes_a_project_that_loads(tmp_path: Path, vde: Vde) -> None:
    made = vde("init", tmp_path / "shop", "--json")
    assert made.code == 0
    assert made.json["files"] == files_of(tmp_path / "shop") == NEW
    assert made.json["kept"] == []
    shown = vde("info", "--project", tmp_path / "shop", "--json").json
    assert {model["name"]: model["kind"] for model in shown["models"]} == {
        "raw.orders": "SEED",
        "staging.orders": "VIEW",
        "marts.daily_revenue": "INCREMENTAL_BY_TIME_RANGE",
    }
    assert shown["project"]["name"] == "shop"
    assert shown["environments"] == []


def test_every_new_project_has_an_id_by_which_a_state_knows_it(tmp_path: Path, vde: Vde) -> None:
    ids = []
    for name in ("shop", "other"):
        assert vde("init", tmp_path / name).code == 0
        ids.append(load_project(tmp_path / name).settings.identity.id)
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[0-9a-f]{16}", str(found)) for found in ids)


@pytest.mark.proof
def test_its_definitions_are_a_code_location(tmp_path: Path, vde: Vde) -> None:
    assert vde("init", tmp_path / "shop").code == 0
    defs = runpy.run_path(str(tmp_path / "shop" / "definitions.py"))["defs"]
    dg.Definitions.validate_loadable(defs)
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert {"raw/orders", "staging/orders", "marts/daily_revenue", "vde/plan"} <= keys
    checks = {key.name for key in defs.resolve_asset_graph().asset_check_keys}
    assert "test_orders_of_a_day_are_added_up" in checks
    assert any(name.startswith("not_negative") for name in checks)


def test_dagster_can_be_left_out(tmp_path: Path, vde: Vde) -> None:
    made = vde("init", tmp_path, "--no-dagster")
    assert made.code == 0
    assert files_of(tmp_path) == [path for path in NEW if path != "definitions.py"]
    assert made.err == f"next: vde apply prod --project {tmp_path}\n"


def test_init_says_what_to_call_next(
    tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert vde("init").err == "next: vde apply prod\n      vde ui\n"
    assert vde("init", "my [shop]").err.endswith("vde ui --project 'my [shop]'\n")


def test_init_takes_the_folder_from_project_too(tmp_path: Path, vde: Vde) -> None:
    assert vde("init", "--project", tmp_path / "here").code == 0
    assert (tmp_path / "here" / "models").is_dir()


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ("models/mine.sql", "models"),
        ("models/raw/orders.sql", "models"),
        ("definitions.py", "definitions.py"),
    ],
)
def test_init_leaves_an_existing_project_alone(
    there: str, named: str, tmp_path: Path, vde: Vde
) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("mine")
    refused = vde("init", tmp_path)
    assert refused.code == 2
    assert refused.err.splitlines()[0] == f"error: '{tmp_path}' already has {named}"
    assert files_of(tmp_path) == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_init_keeps_the_files_that_any_folder_has(tmp_path: Path, vde: Vde) -> None:
    own = ("pyproject.toml", "README.md", ".gitignore")
    for path in own:
        (tmp_path / path).write_text("# mine\n")
    made = vde("init", tmp_path)
    assert made.code == 0
    assert "existing files kept: .gitignore, README.md, pyproject.toml" in made.err
    assert "add .vde/ and .dagster_home/ to .gitignore" in made.err
    assert files_of(tmp_path) == NEW
    assert [(tmp_path / path).read_text() for path in own] == ["# mine\n"] * 3
    assert vde("plan", "prod", "--project", tmp_path).code == 0


def test_a_file_is_no_folder_for_a_project(tmp_path: Path, vde: Vde) -> None:
    (tmp_path / "shop").write_text("mine")
    refused = vde("init", tmp_path / "shop")
    assert refused.code == 2
    assert "is a file" in refused.err
    below = vde("init", tmp_path / "shop" / "new")
    assert below.code == 2
    assert below.err.startswith(f"error: cannot write to '{tmp_path}/shop/new': Not a directory\n")


def test_the_plan_of_the_new_project_starts_no_java_and_is_told_for_people_too(
    tmp_path: Path, vde: Vde
) -> None:
    new_project(tmp_path / "shop")
    shown = vde("plan", "prod", "--project", tmp_path / "shop")
    assert shown.code == 0
    assert "computes 2 models" in shown.out
    assert "7 days, 2024-01-01 … 2024-01-07" in shown.out
    assert "3 created" in shown.out
    assert "to apply it, run: vde apply prod --plan prod-" in shown.err


@pytest.mark.spark
def test_a_new_project_is_planned_applied_and_queried_as_its_readme_says(
    tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch, spark_engine: SparkEngine
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    assert vde("init").code == 0
    assert vde("plan", "prod").code == 0
    applied = vde("apply", "prod", "--json")
    assert applied.code == 0, applied.err
    assert applied.json["environment"]["models"] == 3
    query = "SELECT * FROM marts.daily_revenue ORDER BY order_date"
    assert query in Path("README.md").read_text()
    rows = vde("query", "prod", query, "--json").json["rows"]
    assert rows[0] == ["2024-01-01", 2, 2, "55.50"]
    assert [row[0] for row in rows] == [f"2024-01-0{day}" for day in (1, 2, 4, 5, 7)]
    assert vde("test", "--json").json["passed"] == 1
    assert vde("plan", "prod", "--json").json["empty"] is True


def test_a_dbt_project_gets_settings_and_a_code_location(tmp_path: Path, vde: Vde) -> None:
    root = tmp_path / "shop"
    shutil.copytree(FIXTURES / "dbt/shop", root)
    before = files_of(root)

    made = vde("init", "--dbt", root, "--json")

    assert made.json["files"] == [".gitignore", "definitions.py", "pyproject.toml"]
    assert files_of(root) == sorted([*before, *made.json["files"]])
    settings = load_project(root).settings
    assert settings.identity.id == made.json["id"]
    assert (
        runpy.run_path(str(root / "definitions.py"))["defs"]
        .resolve_asset_graph()
        .has(dg.AssetKey("customers"))
    )


def test_a_new_project_is_formatted_and_ignores_what_commands_write(
    template: ProjectFolder, vde: Vde
) -> None:
    said = vde("format", "--check", "--project", template.root)
    assert (said.code, said.out) == (0, "4 files: nothing to format\n")
    assert "build/" in (template.root / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("installed", [False, True])
def test_a_missing_dbt_is_named_before_the_next_command(
    tmp_path: Path, vde: Vde, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    root, programs = tmp_path / "shop", tmp_path / "bin"
    root.mkdir()
    (root / "dbt_project.yml").write_text("name: shop\n")
    programs.mkdir()
    (programs / "dbt").write_text("#!/bin/sh\n")
    (programs / "dbt").chmod(0o755 if installed else 0o644)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("sys.executable", str(tmp_path / "other/python"))

    first, *_ = vde("init", "--dbt", root).err.splitlines()

    if installed:
        assert first.startswith("next: vde apply prod")
        assert 'executable = "dbt"' in (root / "pyproject.toml").read_text()
    else:
        assert first.startswith("dbt, which compiles the project, is not installed: run ")
        assert "[dbt]" in first


def test_a_folder_that_is_no_dbt_project_is_left_as_it_is(tmp_path: Path, vde: Vde) -> None:
    said = vde("init", "--dbt", tmp_path / "shop")
    assert said.code == 2
    assert "has no dbt_project.yml" in said.err
    assert not (tmp_path / "shop").exists()


def test_definitions_of_a_dbt_project_are_kept(tmp_path: Path, vde: Vde) -> None:
    root = tmp_path / "shop"
    shutil.copytree(FIXTURES / "dbt/shop", root)
    (root / "definitions.py").write_text("mine = 1")

    said = vde("init", "--dbt", root)
    assert said.code == 2
    assert "vde init --dbt --no-dagster" in said.err
    assert vde("init", "--dbt", root, "--no-dagster").code == 0
    assert (root / "definitions.py").read_text() == "mine = 1"
