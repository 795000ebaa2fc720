"""How dbt is called to compile a project, and what its mistakes become; dbt is a script here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster_tests.dbt.conftest import MANIFEST, DbtCopy

ASKS = """#!/bin/sh
echo "$@" > "{told}"
echo "Encountered an error:"
echo "Runtime Error in model visits (models/visits.sql)"
echo "  connection never acquired for thread (1, 2)"
exit 2
"""


@pytest.mark.parametrize("introspect", [False, True])
def test_a_project_that_asks_its_warehouse_says_what_to_set(
    shop: DbtCopy, tmp_path: Path, introspect: bool
) -> None:
    told, dbt = tmp_path / "told", tmp_path / "dbt"
    dbt.write_text(ASKS.format(told=told))
    dbt.chmod(0o755)
    settings = f"executable = '{dbt}'\nintrospect = {str(introspect).lower()}\n"
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\n{settings}")

    with pytest.raises(ProjectError, match="connection never acquired") as raised:
        load_project(shop.root)

    assert "introspect = true under [tool.vde.dbt]" in str(raised.value)
    assert ("--no-introspect" in told.read_text().split()) is not introspect


FAILS_UNTIL = """#!/bin/sh
if [ ! -e "{mended}" ]; then
  echo "Encountered an error:"
  echo "Runtime Error"
  echo "  Could not find adapter type shop!"
  exit 2
fi
while [ "$1" != "--target-path" ]; do shift; done
mkdir -p "$2"
cp "{manifest}" "$2/manifest.json"
touch "$2/partial_parse.msgpack"
"""


def test_a_compile_that_failed_is_tried_again_though_no_file_changed(
    shop: DbtCopy, tmp_path: Path
) -> None:
    """What it failed for may be installed since, which no file of the project says."""
    mended, dbt = tmp_path / "mended", tmp_path / "dbt"
    manifest = tmp_path / "manifest.json"
    (shop.root / MANIFEST).rename(manifest)
    dbt.write_text(FAILS_UNTIL.format(mended=mended, manifest=manifest))
    dbt.chmod(0o755)
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\nexecutable = '{dbt}'\n")
    mended.touch()
    whole = sorted(map(str, load_project(shop.root, strict=False).models))
    model = shop.root / "models/marts/customers.sql"
    text = model.read_text()
    model.write_text(f"{text}\n-- edited")
    mended.unlink()
    for _ in range(2):
        with pytest.raises(ProjectError, match="Could not find adapter type shop!"):
            load_project(shop.root)

    model.write_text(text)
    mended.touch()

    assert sorted(map(str, load_project(shop.root, strict=False).models)) == whole


COUNTS = """#!/bin/sh
echo >> "{calls}"
while [ "$1" != "--target-path" ]; do shift; done
mkdir -p "$2"
cp "{manifest}" "$2/manifest.json"
touch "$2/partial_parse.msgpack"
"""


@pytest.mark.parametrize("path", ["models/more.yaml", "../profiles/profiles.yml"])
def test_a_variable_that_a_file_names_compiles_again_when_it_changes(
    shop: DbtCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    calls, dbt, manifest = tmp_path / "calls", tmp_path / "dbt", tmp_path / "manifest.json"
    (shop.root / MANIFEST).rename(manifest)
    dbt.write_text(COUNTS.format(calls=calls, manifest=manifest))
    dbt.chmod(0o755)
    settings = f"executable = '{dbt}'\nprofiles_dir = '../profiles'\n"
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\n{settings}")
    file = shop.root / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("schema: \"{{ env_var('SHOP_SCHEMA') }}\"\n")
    monkeypatch.setenv("SHOP_SCHEMA", "one")
    load_project(shop.root, strict=False)
    once = len(calls.read_text())
    load_project(shop.root, strict=False)
    assert len(calls.read_text()) == once

    monkeypatch.setenv("SHOP_SCHEMA", "two")
    load_project(shop.root, strict=False)

    assert len(calls.read_text()) == 2 * once


LEAVES_OUT = """#!/bin/sh
while [ "$1" != "--target-path" ]; do shift; done
mkdir -p "$2"
cp "{manifest}" "$2/manifest.json"
cp "{told}" "$(echo "$_VDE_COMPILE" | sed 's/.*"file": "\\([^"]*\\)".*/\\1/')"
touch "$2/partial_parse.msgpack"
"""


def _leave_out(shop: DbtCopy, folder: Path, asked: dict[str, str], failure: str = "") -> Project:
    """Load the shop as dbt compiles it where some nodes introspect."""
    told, dbt, manifest = folder / "told.json", folder / "dbt", folder / "manifest.json"

    def take_code(content: dict[str, Any]) -> None:
        for unique_id in asked:
            content["nodes"][unique_id]["compiled_code"] = None

    shop.edit(take_code)
    (shop.root / MANIFEST).rename(manifest)
    content = {"left_out": asked, "adapter": "duckdb", "failure": failure}
    told.write_text(json.dumps(content))
    dbt.write_text(LEAVES_OUT.format(manifest=manifest, told=told))
    dbt.chmod(0o755)
    (shop.root / "pyproject.toml").write_text(f"[tool.vde]\n[tool.vde.dbt]\nexecutable = '{dbt}'\n")
    return load_project(shop.root)


def test_nodes_that_ask_the_warehouse_are_left_out_with_their_readers_and_tests(
    shop: DbtCopy, tmp_path: Path
) -> None:
    asked = {
        "model.shop.stg_orders": "dbt_utils.star",
        "test.shop.source_not_null_web_visits_visitor.41e65173b1": "adapter.get_relation",
    }
    project = _leave_out(shop, tmp_path, asked)

    assert sorted(map(str, project.models)) == [
        "main.customer_history",
        "main.customer_history__versions",
        "main.customer_log",
        "main.customer_log__versions",
        "main.raw_customers",
        "main.raw_orders",
        "main_staging.stg_customers",
        "weblog.raw_visits",
    ]
    assert (project.problems, project.exposures, project.tests) == ((), (), ())
    visits = project.models[ModelName("weblog", "raw_visits")]
    assert [audit.name for audit in visits.audits] == []
    told = [one.message for one in project.warnings if "left out" in one.message]
    assert told == [
        "8 models and 10 tests of the dbt project are left out, as dbt cannot compile them without "
        "results from the warehouse: introspective models: stg_orders (dbt_utils.star); "
        "their readers: big_spenders, customers, large_orders, order_facts, "
        "order_history, paid_orders, visits; "
        "introspective tests: source_not_null_web_visits_visitor; "
        "tests of these models: accepted_values_stg_orders_status__placed__returned, "
        "at_least_customers_total__0, no_free_orders, not_null_customers_customer_id, "
        "not_null_stg_orders_order_id, "
        "relationships_customers_customer_id__customer_id__ref_stg_customers_, "
        "totals_are_summed, unique_customers_customer_id, unique_stg_orders_order_id"
    ]


def test_a_test_that_asks_the_warehouse_takes_no_model_with_it(
    shop: DbtCopy, tmp_path: Path
) -> None:
    every = sorted(map(str, shop.load().models))
    project = _leave_out(shop, tmp_path, {"test.shop.no_free_orders": "run_query"})

    assert sorted(map(str, project.models)) == every
    audits = project.models[ModelName("main_staging", "stg_orders")].audits
    assert "no_free_orders" not in {audit.name for audit in audits}
    assert any("1 test of the dbt project is left out" in one.message for one in project.warnings)


UNREACHABLE = """
import sys
from vde_dagster.errors import {error}
from vde_dagster.plugins.dbt import answers

def answer(self, question):
    raise {error}("no reply")

answers.Answers.answer = answer
raise SystemExit(answers.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("error", "kind"), [("StoreError", "failed"), ("UsageError", "refused")])
def test_a_state_that_cannot_be_read_is_no_refusal_of_a_question(
    tmp_path: Path, error: str, kind: str
) -> None:
    """A refused question leaves its model out of the plan, so that it would leave production."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models/one.sql").write_text("MODEL (name a.one, kind FULL); SELECT 1 AS n")
    with Workspace.open(tmp_path) as workspace:
        assert workspace.store.environments.get("prod") is None
    done = subprocess.run(
        [sys.executable, "-c", UNREACHABLE.format(error=error), str(tmp_path)],
        input='[]\n{"ask": "rows", "sql": "SELECT 1"}\n',
        capture_output=True,
        text=True,
        check=True,
    )
    assert [*json.loads(done.stdout.splitlines()[1])] == [kind]


def test_no_node_is_left_out_because_no_engine_could_answer(shop: DbtCopy, tmp_path: Path) -> None:
    """A plan would take models out of production that were there the day before."""
    asked = {"test.shop.no_free_orders": "run_query"}
    with pytest.raises(ProjectError) as raised:
        _leave_out(shop, tmp_path, asked, failure="there is no Java")

    assert str(raised.value).startswith(
        "dbt_project.yml: dbt's introspective queries have no answers: there is no Java. Hint: "
        "to leave out nodes with such queries, set introspect = false under [tool.vde.dbt]"
    )
