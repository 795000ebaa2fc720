"""Operators of another dialect outside of a model's query: refused where their types matter."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.checks.unit_tests import find_test_mistakes
from vde_dagster.project.loading.loader import load_project
from vde_dagster.spark.models.python_models import translate_query
from vde_dagster_tests.project.conftest import WriteProject

QUERY = "SELECT CAST(a AS INT) AS a, CAST(b AS INT) AS b, c FROM x.t"
COLUMNS = [("a", "INT"), ("b", "INT"), ("c", "UNKNOWN")]


def problems(project_files: dict[str, str], write_project: WriteProject) -> list[str]:
    """Return the errors of a plan whose external table has the columns `COLUMNS`."""
    warnings: list[Problem] = []
    try:
        models = load_project(write_project(project_files)).models
        build_snapshots(models, lambda name: COLUMNS, warnings=warnings)
    except ProjectError as error:
        return [str(one) for one in error.mistakes]
    return []


HEADERS = [
    "kind FULL, audits (forall(criteria := (a / b > 0)))",
    "kind FULL, audits (forall(criteria := (c / 2 > 0)))",
    "kind FULL, audits (accepted_range(column := a / b, min_v := 0))",
    "kind FULL, audits (not_null(columns := (a), condition := a / b > 0))",
    "kind FULL, audits (share())",
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key (a / b))",
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key a, merge_filter target.a / source.b > 0)",
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key a, "
    "when_matched (WHEN MATCHED THEN UPDATE SET target.b = source.a / target.b))",
    "kind INCREMENTAL_BY_UNIQUE_KEY (unique_key a, "
    "when_matched (WHEN MATCHED AND source.c / 2 > 1 THEN DELETE))",
    "kind SCD_TYPE_2_BY_COLUMN (unique_key (a, a / b), columns [b])",
]


@pytest.mark.parametrize("header", HEADERS)
def test_operator_in_a_property_is_refused_unless_it_is_trusted(
    write_project: WriteProject, header: str
) -> None:
    audit = "AUDIT (name share, dialect trino);\nSELECT * FROM @this_model WHERE a / b > 0"

    def of(trust: str, dialect: str = "trino") -> list[str]:
        model = f"MODEL (name m.a, dialect {dialect}, {header}{trust});\n{QUERY}"
        its_audit = audit.replace("trino", dialect)
        files = {"models/a.sql": model, "audits/share.sql": its_audit}
        return problems(files, write_project)

    [refused] = of("")
    assert re.match(r"models/a\.sql:1:\d+: m\.a: ", refused)
    assert "a division" in refused
    assert 'dialect_trust ("/")' in refused
    assert of(', dialect_trust ("/")') == []
    assert of("", "spark") == []


@pytest.mark.parametrize(
    ("statements", "count"),
    [
        ("{}INSERT INTO log.t SELECT a / b FROM x.t;\n{query}", 1),
        ("{}CREATE TABLE log.t AS SELECT c / 2 AS half FROM x.t;\n{query}", 1),
        ("{}CREATE TEMPORARY VIEW v AS SELECT a / b AS x FROM x.t;\n{query}", 1),
        ("{}DELETE FROM log.t WHERE c / 2 > 1;\n{query}", 1),
        ("{}UPDATE log.t SET a = b / 2;\n{query}", 1),
        ("{query};\nINSERT INTO log.t SELECT a / b FROM @this_model", 1),
        ("{query};\nINSERT INTO log.t SELECT a / CAST(b AS DOUBLE) FROM @this_model", 0),
        ("{query};\nON_VIRTUAL_UPDATE_BEGIN;\nINSERT INTO log.t SELECT a / b FROM m.a;\n"
         "ON_VIRTUAL_UPDATE_END;", 1),
    ],
)  # fmt: skip
def test_operator_in_a_statement_is_refused_unless_it_is_trusted(
    write_project: WriteProject, statements: str, count: int
) -> None:
    body = statements.replace("{query}", QUERY).replace("{}", "")

    def of(trust: str) -> list[str]:
        model = f"MODEL (name m.a, kind FULL, dialect trino{trust});\n{body}"
        return problems({"models/a.sql": model}, write_project)

    refused = of("")
    assert [one.startswith("models/a.sql:") and "a division" in one for one in refused] == (
        [True] * count
    )
    assert of(', dialect_trust ("/")') == []


def test_operator_of_a_standalone_audit_is_refused_unless_it_is_trusted(
    write_project: WriteProject,
) -> None:
    audit = "AUDIT (name m.share, standalone true, dialect trino);\n"
    audit += "SELECT * FROM m.a WHERE a / b > 0"
    files = {"models/a.sql": f"MODEL (name m.a, kind FULL);\n{QUERY}", "audits/share.sql": audit}

    [refused] = problems(files, write_project)
    assert "audits/share.sql:1" in refused
    assert "on Trino, a division of integers drops the remainder" in refused
    trusting = {**files, "pyproject.toml": '[tool.vde]\ndialect_trust = ["/"]\n'}
    assert problems(trusting, write_project) == []


def test_python_model_checks_its_translated_key_and_audits(write_project: WriteProject) -> None:
    code = (
        "from vde_dagster import model\n\n@model('m.a', columns={'a': 'INT', 'b': 'INT'}, "
        "kind=dict(name='INCREMENTAL_BY_UNIQUE_KEY', unique_key=['a / b']))\n"
        "def entry(context):\n    return context.table('x.t')\n"
    )
    files = {"models/a.py": code, "pyproject.toml": '[tool.vde]\ndialect = "trino"\n'}

    [refused] = problems(files, write_project)
    assert "unique_key: on Trino, a division of integers drops the remainder" in refused
    trust = '[tool.vde]\ndialect = "trino"\ndialect_trust = ["/"]\n'
    assert problems({**files, "pyproject.toml": trust}, write_project) == []


def test_audit_of_plain_columns_has_no_finding(write_project: WriteProject) -> None:
    calls = "not_null(columns := (a, c)), unique_values(columns := (a)), not_null_proportion("
    calls += "column := c, threshold := 0.5), mean_in_range(column := a, min_v := 0), "
    calls += "string_length_between(column := c, min_v := 1)"
    model = f"MODEL (name m.a, kind FULL, dialect redshift, audits ({calls}));\n{QUERY}"

    assert problems({"models/a.sql": model}, write_project) == []


def test_trust_of_the_settings_ends_when_it_is_removed(write_project: WriteProject) -> None:
    model = "MODEL (name m.a, kind FULL, dialect duckdb);\nSELECT hash(c) AS h FROM x.t"
    settings = "[tool.vde]\ndialect_trust = {}\n"
    files = {"models/a.sql": model, "pyproject.toml": settings.format('["hash"]')}

    assert problems(files, write_project) == []
    files["pyproject.toml"] = settings.format("[]")
    [refused] = problems(files, write_project)
    assert "hash() of duckdb is not known to mean the same on Spark" in refused


def test_query_of_a_unit_test_has_the_dialect_of_the_project(write_project: WriteProject) -> None:
    test = "t:\n  model: m.a\n  inputs:\n    x.t:\n      query: SELECT x / 2 AS a, hash(1) AS c "
    test += "FROM (SELECT 7 AS x) AS v"
    files = {
        "models/a.sql": "MODEL (name m.a, kind FULL);\nSELECT a FROM x.t",
        "tests/t.yaml": test.replace("hash(1)", "1") + "\n  outputs: {query: [{a: 3}]}\n",
        "pyproject.toml": '[tool.vde]\ndialect = "trino"\n',
    }
    project = load_project(write_project(files))
    known = build_snapshots(project.models, lambda name: COLUMNS)

    [mistake] = find_test_mistakes(project.tests, project.models, known)
    assert "in the test 't': on Trino, a division of integers drops the remainder" in str(mistake)
    assert 'dialect_trust ("/")' in (mistake.hint or "")
    files["tests/t.yaml"] = test + "\n  outputs: {query: [{a: 3}]}\n"
    with pytest.raises(ProjectError, match=re.escape("hash() of trino is not known to mean")):
        load_project(write_project(files))


def test_query_that_python_code_runs_has_the_types_of_its_tables() -> None:
    types = {"m.a": {"i": "INT", "f": "DOUBLE"}}

    def translate(query: str, *trusted: str) -> str:
        return translate_query(query, ModelName("m", "p"), "trino", frozenset(trusted), types.get)

    assert translate("SELECT f / 2 AS x FROM m.a") == "SELECT f / 2 AS x FROM m.a"
    assert translate("SELECT i / 2 AS x FROM m.a", "/") == "SELECT i / 2 AS x FROM m.a"
    with pytest.raises(ExecutionError, match="a division of integers drops the remainder"):
        translate("SELECT i / 2 AS x FROM m.a")
    with pytest.raises(ExecutionError, match="the type of i is unknown"):
        translate("SELECT i / 2 AS x FROM m.b")


def test_operator_of_a_dbt_test_is_a_warning(write_project: WriteProject) -> None:
    header = "kind FULL, dialect trino, audits (forall(criteria := (a / b > 0)))"
    files = {"models/a.sql": f"MODEL (name m.a, {header});\n{QUERY}"}
    models = load_project(write_project(files)).models
    of_dbt = {name: replace(model, tool="dbt") for name, model in models.items()}
    warnings: list[Problem] = []

    build_snapshots(of_dbt, lambda name: COLUMNS, warnings=warnings)
    [warning] = [one for one in warnings if "audit forall" in one.message]
    assert "on Trino, a division of integers drops the remainder" in warning.message
    assert 'dialect_trust = ["/"] under [tool.vde]' in (warning.hint or "")
