"""Expressions of other dialects: what they become in Spark SQL, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlglot import parse_one

from vde_dagster.errors import ProjectError
from vde_dagster.project.properties.model_properties import canonical_type
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import spark_text
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.yaml_files import read_yaml

CASES: dict[str, list[dict[str, Any]]] = read_yaml(
    Path(__file__).parent.parent / "fixtures" / "other_dialects.yaml"
)


def written(case: dict[str, Any]) -> str:
    query = f"SELECT {case['written']} AS v FROM x.t"
    return spark_text(parse_one(query, dialect=case["dialect"]), case["dialect"])


@each_of("case", CASES["written"])
def test_an_expression_is_written_as_spark_has_it(case: dict[str, Any]) -> None:
    text = written(case)

    assert "is" not in case or text == f"SELECT {case['is']} AS v FROM x.t"


@each_of("case", CASES["refused"])
def test_an_expression_that_spark_has_not_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(Unwritable, match=re.escape(case["says"])):
        written(case)


@pytest.mark.parametrize(
    ("dialect", "declared", "spark"),
    [
        ("bigquery", "INT", "BIGINT"),
        ("bigquery", "STRUCT<a INTEGER, b ARRAY<SMALLINT>>", "STRUCT<a: BIGINT, b: ARRAY<BIGINT>>"),
        ("snowflake", "INT", "BIGINT"),
        ("duckdb", "INT", "INT"),
    ],
)
def test_declared_types_are_what_they_are_in_their_dialect(
    dialect: str, declared: str, spark: str
) -> None:
    def fail(message: str, hint: str | None) -> ProjectError:
        return ProjectError(message, hint=hint)

    assert canonical_type(declared, dialect, fail) == spark
