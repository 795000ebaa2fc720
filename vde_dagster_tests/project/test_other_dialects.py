from __future__ import annotations

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster_tests.project.conftest import LoadModel

WRITTEN = {
    ("duckdb", "d + INTERVAL (n) DAY"): "d + MAKE_INTERVAL(0, 0, 0, CAST(n AS INT))",
    ("duckdb", "d - INTERVAL (n + 1) MONTHS"): "d - MAKE_INTERVAL(0, CAST(n + 1 AS INT))",
    ("duckdb", "d + INTERVAL 1 DAY"): "d + INTERVAL '1' DAY",
    ("duckdb", "CAST(a AS VARCHAR(5))"): "CAST(a AS STRING)",
    ("tsql", "CAST(a AS VARCHAR(5))"): "LEFT(CAST(a AS STRING), 5)",
    ("tsql", "CAST(CAST(a AS NVARCHAR(9)) AS VARCHAR(5))"): (
        "LEFT(CAST(LEFT(CAST(a AS STRING), 9) AS STRING), 5)"
    ),
    ("postgres", "CAST(a AS VARCHAR(5)) || 'x'"): "LEFT(CAST(a AS STRING), 5) || 'x'",
    ("duckdb", "d + INTERVAL -2 HOUR"): "d + INTERVAL '-2' HOUR",
    ("bigquery", "d + INTERVAL n QUARTER"): "d + MAKE_INTERVAL(0, CAST((n) * 3 AS INT))",
    ("mysql", "d + INTERVAL n SECOND"): (
        "d + MAKE_INTERVAL(0, 0, 0, 0, 0, 0, CAST(n AS DECIMAL(18, 6)))"
    ),
}


@pytest.mark.parametrize("case", WRITTEN, ids=" ".join)
def test_what_spark_has_not_is_written_as_what_it_has(
    case: tuple[str, str], load_model: LoadModel
) -> None:
    dialect, expression = case
    model = load_model(f"MODEL (name a.m, dialect {dialect}); SELECT {expression} AS x FROM r.t")
    assert model.query == f"SELECT {WRITTEN[case]} AS x FROM r.t"


def test_what_spark_cannot_read_is_refused_with_its_words(load_model: LoadModel) -> None:
    text = """
        MODEL (name a.m, dialect mysql);
        SELECT JSON_OBJECT('kind', a, 'value', b) AS x FROM r.t
        """
    with pytest.raises(ProjectError) as caught:
        load_model(text)
    assert str(caught.value).startswith("models/m.sql:2:1: the query cannot be written in Spark")
    assert "near ': a, 'value'" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "description"),
    [
        ("/* Flights of a day. */", "Flights of a day."),
        ("-- Flights\n-- of a day\n", "Flights\nof a day"),
        ("", None),
    ],
)
def test_a_comment_before_the_header_describes_the_model(
    before: str, description: str | None, load_model: LoadModel
) -> None:
    assert load_model(f"{before} MODEL (name a.m); SELECT 1 AS x").description == description
    given = load_model(f"{before} MODEL (name a.m, description 'Own'); SELECT 1 AS x")
    assert given.description == "Own"


def test_macros_cast_as_strictly_as_in_spark(load_model: LoadModel) -> None:
    text = "MODEL (name a.m, dialect duckdb); SELECT @GENERATE_SURROGATE_KEY(a) AS k FROM r.t"
    assert load_model(text).query == (
        "SELECT MD5(COALESCE(CAST(a AS STRING), '_sqlmesh_surrogate_key_null_')) AS k FROM r.t"
    )
