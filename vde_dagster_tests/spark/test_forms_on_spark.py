"""Forms that are written anew for Spark give the rows that their authors meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.edits import apply_edits
from vde_dagster.sql.spark_forms import find_rewrites
from vde_dagster_tests.project.test_other_dialects import CASES, DOCUMENTED, written
from vde_dagster_tests.spark.random_pairs import quick_session
from vde_dagster_tests.yaml_files import read_yaml

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

FORMS = read_yaml(Path(__file__).parents[1] / "fixtures" / "spark_forms.yaml")
VIEWS = {
    "t": "VALUES (1, 'a', ARRAY(1, 2)), (2, 'b', CAST(ARRAY() AS ARRAY<INT>)) AS t(a, b, ar)",
    "u": "VALUES (1, 'x'), (2, 'y') AS u(a, c)",
}


def test_forms_that_are_written_anew_give_the_meant_rows(spark_engine: SparkEngine) -> None:
    session = quick_session(spark_engine.session)
    for name, rows in VIEWS.items():
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW forms_{name} AS SELECT * FROM {rows}")

    wrong: list[Any] = []
    for case in FORMS["rewritten"] + FORMS["with_columns"]:
        found = find_rewrites(case["is"])
        query = replace_tables(
            apply_edits(case["is"], found), lambda name: f"SELECT * FROM forms_{name.name}"
        )
        rows = [list(row) for row in session.sql(query).collect()]
        if sorted(map(str, rows)) != sorted(map(str, case["gives"])):
            wrong.append((case["written"], rows))

    assert not wrong


def test_expressions_of_other_dialects_have_the_values_that_they_have_there(
    spark_engine: SparkEngine,
) -> None:
    cases = CASES["written"] + DOCUMENTED
    queries = [written(case).replace("x.t", "one") for case in cases]
    columns = ", ".join(f"(SELECT CAST(v AS STRING) FROM ({query}))" for query in queries)

    session = quick_session(spark_engine.session)
    [row] = session.sql(f"WITH one AS (SELECT 1 AS a) SELECT {columns}").collect()

    given = {_key(case): value for case, value in zip(cases, row, strict=True)}
    assert given == {_key(case): case["gives"] for case in cases}


def _key(case: dict[str, Any]) -> tuple[str, str]:
    return case["dialect"], case["written"]
