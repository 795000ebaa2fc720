"""A real dbt, in an environment of its own, compiles when files changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.plugins.dbt.compiling import dbt_command
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.dbt.conftest import PROJECTS
from vde_dagster_tests.dbt.test_manifest import FILES, described

pytestmark = [pytest.mark.server, pytest.mark.turns(13, "dbt compiles")]

SETTINGS = """
[tool.vde]
name = "table"
start = "2024-01-01"

[tool.vde.dbt]
executable = "{dbt}"
"""
SELECTORS = """
selectors: [{name: few, default: true, definition: {method: fqn, value: merged}}]
"""
"""By this dbt compiles a model alone where nobody says more."""


@pytest.fixture(scope="module")
def dbt() -> Path:
    """Install dbt beside the environment of the tests, once, as the two exclude each other."""
    folder = Path(sys.prefix) / "dbt"
    executable = folder / "bin" / "dbt"
    if not (folder / "done").is_file():
        uv, python = [sys.executable, "-m", "uv"], str(folder / "bin" / "python")
        wanted = ["dbt-core>=1.9,<1.12", "dbt-spark>=1.9,<1.12"]
        made = (
            [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            [*uv, "pip", "install", "--quiet", "--python", python, *wanted],
        )
        for command in made:
            subprocess.run(command, check=True)
        (folder / "done").touch()
    # dbt-spark imports PySpark. The path changes when the environment is moved.
    shared = Path(sysconfig.get_path("purelib")).resolve()
    path = next(folder.glob("lib/python*/site-packages")) / "beside.pth"
    if not path.is_file() or path.read_text() != f"{shared}\n":
        path.write_text(f"{shared}\n")
    return executable


@pytest.mark.parametrize(
    "head",
    ["#!{python}\n", "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"],
)
def test_a_script_with_a_lost_interpreter_is_replaced_by_its_module(
    tmp_path: Path, head: str
) -> None:
    script, python = tmp_path / "dbt", tmp_path / "python"
    python.touch()
    texts = {"kept": head.format(python=python), "lost": head.format(python="/no/bin/python3.11")}
    found = {}
    for name, text in texts.items():
        script.write_text(f"{text}import sys\n")
        found[name] = dbt_command(script)

    assert found == {"kept": [str(script)], "lost": [str(python), "-m", "dbt.cli.main"]}


@pytest.mark.parametrize("name", ["table", "hooks"])
def test_a_project_is_compiled_when_files_changed_and_then_not_again(
    dbt: Path, tmp_path: Path, name: str
) -> None:
    root = tmp_path / name
    shutil.copytree(PROJECTS / name, root, ignore=shutil.ignore_patterns("target"))
    (root / "pyproject.toml").write_text(SETTINGS.format(dbt=dbt))
    (root / "selectors.yml").write_text(SELECTORS)
    files = sorted(path.name for path in root.iterdir())
    expected = yaml.safe_load((FILES / f"{name}.yaml").read_text())

    project = load_project(root)

    assert {str(n): described(model) for n, model in project.models.items()} == expected["models"]
    assert [list(texts) for texts in project.around] == expected.get("around", [[], []])
    told = [problem.message for problem in project.warnings]
    assert told[:1] == expected["warnings"]
    assert told[1].startswith("dbt compile ")
    assert [problem.message for problem in load_project(root).warnings] == expected["warnings"]
    assert sorted(path.name for path in root.iterdir()) == sorted([*files, ".vde"])


FAILS = """{{ config(
    post_hook="{% if execute %}{{ exceptions.raise_compiler_error('no') }}{% endif %}"
) }}
select 1 as id
"""


PACKAGE = {
    "dbt_project.yml": "name: more\nversion: '1.0'\n",
    "macros/told.sql": """{% macro told() %}
        insert into raw.log select '{{ this }}', cast(id as string) from {{ this }}
    {% endmacro %}""",
    "models/deep/packed.sql": """{{ config(materialized='table', post_hook="{{ told() }}") }}
select 1 as id -- ends so""",
}
"""A package whose model has a hook that calls a macro of the package by its name alone."""


def test_a_hook_that_dbt_cannot_render_takes_no_other_with_it(dbt: Path, tmp_path: Path) -> None:
    root = tmp_path / "hooks"
    shutil.copytree(PROJECTS / "hooks", root, ignore=shutil.ignore_patterns("target"))
    (root / "pyproject.toml").write_text(SETTINGS.format(dbt=dbt))
    (root / "models/fails.sql").write_text(FAILS)
    for name, text in PACKAGE.items():
        path = root / "dbt_packages/more" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    project = load_project(root)

    orders = project.models[ModelName("main", "orders")]
    assert "alter table @this_model set tblproperties('writer' = 'dbt')" in orders.post_statements
    assert project.models[ModelName("main", "fails")].post_statements == ()
    packed = project.models[ModelName("main", "packed")]
    told = "insert into raw.log select 'main.packed', cast(id as string) from @this_model"
    assert packed.post_statements == (told,)
    assert (root / "dbt_packages/more/models/deep/packed.sql").read_text().endswith("-- ends so")
    assert "post-hook with Jinja (2)" in project.warnings[0].message


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"models/wrong.sql": "select 1\nfrom {{ ref('nothing'"},
            "models/wrong.sql:2: dbt cannot compile the project: ",
        ),
        (
            {"models/wrong.yml": "models:\n  - name: [a\n"},
            "models/wrong.yml:3: dbt cannot compile the project: ",
        ),
        (
            {"models/reader.sql": "select * from {{ ref('nothing') }}"},
            "models/reader.sql: dbt cannot compile the project: ",
        ),
        (
            {"models/more/merged.sql": "select 1 as a"},
            "models/more/merged.sql: dbt cannot compile the project: ",
        ),
        (
            {"packages.yml": "packages:\n  - {package: dbt-labs/dbt_utils, version: 1.3.0}\n"},
            "packages.yml:2: dbt cannot compile the project: ",
        ),
        (
            {"dbt_project.yml": "name: rows\nversion: [\n"},
            "dbt_project.yml:3:1: this is not valid YAML: ",
        ),
    ],
)
def test_what_dbt_refuses_is_one_message(
    dbt: Path, tmp_path: Path, files: dict[str, str], expected: str
) -> None:
    root = tmp_path / "table"
    shutil.copytree(PROJECTS / "table", root, ignore=shutil.ignore_patterns("target"))
    (root / "pyproject.toml").write_text(SETTINGS.format(dbt=dbt))
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)

    project = load_project(root, strict=False)

    told = [str(problem) for problem in project.problems]
    assert [one[: len(expected)] for one in told] == [expected], told


INTROSPECTIVE = {
    "macros/kinds.sql": """{% macro kinds(table) %}
        {%- set found = run_query("select a, b, c, d from " ~ table) -%}
        {{ return(found.rows if execute else []) }}
    {% endmacro %}""",
    "models/by_query.sql": """
        select {% for row in kinds(ref('merged')) %}'{{ row | join('|') }}',{% endfor %} 1 as n""",
    "models/by_relation.sql": """
        {% set found = adapter.get_relation(none, this.schema, 'merged') %}
        select '{{ found }}' as name, {{ 1 if load_relation(this) else 0 }} as again""",
    "models/by_columns.sql": """
        select {% for column in adapter.get_columns_in_relation(ref('merged')) -%}
            {{ column.name }} as {{ column.name }}_{{ column.dtype[:7] }},
        {%- endfor %} 1 as n from {{ ref('merged') }}""",
    "models/by_statement.sql": """
        {% call statement('found', fetch_result=True) %}select a from merged{% endcall %}
        select {{ (load_result('found') or {'data': []})['data'] | length }} as n""",
    "models/when_later.sql": """
        {{ config(materialized='incremental', unique_key='id') }}
        select id from {{ ref('contracted') }}
        {% if is_incremental() %}where id > {{ kinds('elsewhere')[0] }}{% endif %}""",
    "models/no_relation.sql": """
        {% set found = adapter.get_relation(none, 'elsewhere', 'orders') %}
        select '{{ found }}' as name""",
    "models/raises.sql": """
        {% set found = adapter.get_relation(none, this.schema, 'contracted') %}
        {% if execute and not found %}{{ exceptions.raise_compiler_error('no table') }}{% endif %}
        select 1 as n""",
    "models/asks_not.sql": """
        {{ config(materialized='view') }}
        {% if not execute %}{{ kinds('none') }}{% endif %}
        select {{ adapter.quote('id') }} from {{ ref('contracted') }}""",
    "models/their_reader.sql": "select * from {{ ref('when_later') }}",
}
"""Models that introspect in each way that dbt has, two without an answer, and one that does not."""


def _introspective(dbt: Path, root: Path, setting: str = "") -> None:
    """Write a project with models that introspect."""
    shutil.copytree(PROJECTS / "table", root, ignore=shutil.ignore_patterns("target"))
    (root / "pyproject.toml").write_text(f"{SETTINGS.format(dbt=dbt)}{setting}\n")
    for name, text in INTROSPECTIVE.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def test_models_without_an_answer_leave_the_rest_of_the_project(dbt: Path, tmp_path: Path) -> None:
    root = tmp_path / "table"
    _introspective(dbt, root, "introspect = false")

    project = load_project(root)

    expected = yaml.safe_load((FILES / "table.yaml").read_text())["models"]
    assert {str(name) for name in project.models} == {*expected, "main.asks_not"}
    told = next(one.message for one in project.warnings if "left out" in one.message)
    assert told.endswith(
        "introspective models: by_columns (adapter.get_columns_in_relation), by_query (kinds), "
        "by_relation (adapter.get_relation), by_statement (statement), "
        "no_relation (adapter.get_relation), raises (adapter.get_relation), when_later (kinds); "
        "their readers: their_reader"
    )


def test_introspective_models_of_a_spark_target_have_answers(
    dbt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vde_dagster.plugins.dbt.compiling._ANSWERS", "vde_dagster_tests.dbt.canned_answers"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    root = tmp_path / "table"
    _introspective(dbt, root)

    project = load_project(root)

    queries = {name.name: model.query for name, model in project.models.items()}
    assert queries["by_query"] == (
        "select 'open|2.50|2024-01-02|None', 'paid|10.00|2024-01-03|7', 1 as n"
    )
    assert queries["by_relation"] == "select 'main.merged' as name, 0 as again"
    assert queries["by_columns"] == (
        "select kind as kind_string, total as total_decimal, 1 as n from main.merged"
    )
    assert queries["by_statement"] == "select 2 as n"
    told = next(one.message for one in project.warnings if "left out" in one.message)
    assert told.endswith(
        "introspective models: no_relation (adapter.get_relation: elsewhere.orders is neither a "
        "model nor a source), raises (adapter.get_relation), when_later (kinds: it is not there); "
        "their readers: their_reader"
    )
