"""`vde test --create` on real Spark: tests of rows that are there, which pass right away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

FILES = {
    "models/all.sql": """
        MODEL (name db.all, kind FULL);
        SELECT 1 AS id, CAST('10.50' AS DECIMAL(10, 2)) AS price, DATE '2024-01-31' AS day,
          TIMESTAMP '2024-01-31 12:30:00.5' AS at, TIMESTAMP_NTZ '2024-01-31 01:00:00' AS local,
          ARRAY('a', NULL, 'it''s') AS tags, MAP('x', 1, 'y', NULL) AS counts,
          NAMED_STRUCT('n', CAST(2 AS BIGINT), 'at', DATE '2024-02-01') AS item,
          ARRAY(NAMED_STRUCT('price', CAST(0.25 AS DECIMAL(4, 2)))) AS items,
          CAST('NaN' AS DOUBLE) AS ratio, TRUE AS open, CAST('bin' AS BINARY) AS raw,
          'yes: "no" \\\\ # ü' AS text, '2024-01-01' AS like_a_day
        UNION ALL
        SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    """,
    "models/copy.sql": """
        MODEL (name db.copy, kind FULL);
        WITH known AS (SELECT * FROM db.all WHERE NOT price IS NULL)
        SELECT a.*, k.price * 2 AS twice FROM db.all AS a LEFT JOIN known AS k ON k.id = a.id
    """,
    "models/days.sql": """
        MODEL (name db.days, kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-01-01',
          end '2024-02-01');
        SELECT day, COUNT(*) AS n, @size AS size FROM db.all
        WHERE day BETWEEN @start_date AND @end_date GROUP BY day
    """,
    "models/clock.sql": "MODEL (name db.clock); SELECT id, CURRENT_TIMESTAMP() AS now FROM db.all",
    "models/code.py": """
        from vde_dagster import model

        @model("db.code", kind="FULL", columns={"id": "INT"}, depends_on=["db.all"])
        def execute(context, start, end, execution_time, **kwargs):
            return context.table("db.all").select("id")
    """,
    "pyproject.toml": "[tool.vde.variables]\nsize = 3\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark_engine: SparkEngine) -> ProjectFolder:
    made = ProjectFolder(tmp_path_factory.mktemp("created") / "shop", FILES)
    with Workspace.open(made.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    return made


def written(folder: ProjectFolder, path: str) -> dict[str, Any]:
    [test] = yaml.safe_load((folder.root / path).read_text()).values()
    assert isinstance(test, dict)
    return test


def test_values_of_all_types_come_back_and_the_test_passes(
    folder: ProjectFolder,
    vde: Vde,
) -> None:
    here = "--project", folder.root, "--json"
    done = vde("test", "--create", "db.copy", "--include-ctes", *here)
    assert done.code == 0, done.err
    assert done.json == {
        "file": "tests/test_copy.yaml",
        "name": "test_copy",
        "inputs": {"db.all": 2},
        "outputs": 2,
    }
    test = written(folder, "tests/test_copy.yaml")
    assert test["inputs"]["db.all"]["rows"][0]["price"] == "10.50"
    assert test["inputs"]["db.all"]["rows"][0]["item"] == {"n": 2, "at": a_day()}
    assert len(test["outputs"]["ctes"]["known"]) == 1
    ran = vde("test", *here)
    assert ran.code == 0, ran.out
    assert ran.json["passed"] >= 1

    again = vde("test", "--create", "db.copy", *here)
    assert again.code == 2
    assert "the file tests/test_copy.yaml exists" in again.json["error"]["message"]
    chosen = ("--query", "db.all=SELECT * FROM db.all WHERE id = 2", "--overwrite")
    assert vde("test", "--create", "db.copy", *chosen, *here).json["inputs"] == {"db.all": 1}
    assert vde("test", *here).code == 0


def a_day() -> Any:
    from datetime import date

    return date(2024, 2, 1)


def test_variables_and_times_are_the_tests(
    folder: ProjectFolder,
    vde: Vde,
) -> None:
    variables = "--var", "start=2024-01-01", "--var", "end=2024-01-31", "--var", "size=5"
    call = "test", "--create", "db.days", *variables, "-n", "test_five", "-p", "five.yaml"
    done = vde(*call, "--project", folder.root, "--json")
    assert done.code == 0, done.err
    test = written(folder, "tests/five.yaml")
    assert test["outputs"]["query"][0] | {"size": 5, "n": 1} == test["outputs"]["query"][0]
    assert vde("test", "--select", "db.days", "--project", folder.root).code == 0


def test_a_model_in_python_has_a_test(folder: ProjectFolder, vde: Vde) -> None:
    done = vde("test", "--create", "db.code", "--limit", 1, "--project", folder.root, "--json")
    assert done.code == 0, done.err
    assert written(folder, "tests/test_code.yaml")["outputs"] == {"query": [{"id": 1}]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["db.nothing"], "model 'db.nothing' does not exist"),
        (["db.copy", "--query", "db.days=SELECT 1", "-n", "x"], "db.copy does not read db.days"),
        (["db.copy", "--query", "db.all", "-n", "x"], "does not have the form NAME=VALUE"),
        (["db.copy", "-e", "dev", "-n", "x"], "environment 'dev' does not exist"),
        (["db.clock"], "does not return the same rows twice"),
    ],
)
def test_what_is_wrong_is_one_message_and_writes_nothing(
    more: list[str],
    said: str,
    folder: ProjectFolder,
    vde: Vde,
) -> None:
    tests = Path(folder.root / "tests")
    before = sorted(tests.glob("*"))
    ended = vde("test", "--create", *more, "--project", folder.root, "--json")
    assert ended.code == 2
    assert said in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]
    assert sorted(tests.glob("*")) == before
