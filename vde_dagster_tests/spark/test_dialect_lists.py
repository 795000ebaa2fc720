"""Lists of other dialects on Spark: subscripts, series, sizes; compared with DuckDB's values."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from sqlglot import parse_one

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql

ROWS = (
    "SELECT 1 AS n, [10, 20, 30] AS x, MAP {1: 'a', 5: 'b'} AS m UNION ALL "
    "SELECT 3, [10, NULL, 30], MAP {3: 'c'} UNION ALL SELECT 4, [10], MAP {4: NULL} UNION ALL "
    "SELECT -1, [1, 2, 3], MAP {-1: 'd'} UNION ALL SELECT -4, [7], MAP {2: 'e'} UNION ALL "
    "SELECT NULL, [9], MAP {9: 'f'} UNION ALL SELECT 2, NULL, NULL"
)
ON_SPARK = (
    "SELECT * FROM VALUES (1, array(10, 20, 30), map(1, 'a', 5, 'b')), "
    "(3, array(10, NULL, 30), map(3, 'c')), (4, array(10), map(4, NULL)), "
    "(-1, array(1, 2, 3), map(-1, 'd')), (-4, array(7), map(2, 'e')), "
    "(NULL, array(9), map(9, 'f')), (2, NULL, NULL) AS t(n, x, m)"
)
DUCKDB = (
    *("x[1]", "x[2]", "x[3]", "x[9]", "x[-1]", "x[-3]", "x[-9]", "x[n]", "x[n + 1 - 1]", "m[n]"),
    *("m[5]", "x[CAST(n AS INT)]", "[4, 5, 6][n]", "x[array_length(x)]", "x[length('ab')]"),
    *("generate_series(1, 3)", "generate_series(n, 2)", "generate_series(3, n)", "range(0, 3)"),
    *("array_length(x)", "len([1, NULL])"),
)
"""Expressions over an integer `n`, a list `x` and a map `m`."""

OF_OTHERS: list[tuple[str, str, list[Any]]] = [
    ("postgres", "x[1]", [10, 10, 10, 1, 7, 9, None]),
    ("postgres", "x[3]", [30, 30, None, 3, None, None, None]),
    ("postgres", "x[0]", [None] * 7),
    ("postgres", "x[n]", [10, 30, None, None, None, None, None]),
    ("postgres", "array_length(x, 1)", [3, 3, 1, 3, 1, 1, None]),
    ("postgres", "array_length(ARRAY[]::int[], 1)", [None] * 7),
    ("trino", "x[1]", [10, 10, 10, 1, 7, 9, None]),
    ("bigquery", "x[OFFSET(0)]", [10, 10, 10, 1, 7, 9, None]),
    ("bigquery", "x[SAFE_OFFSET(n)]", [20, None, None, None, None, None, None]),
    ("bigquery", "x[SAFE_ORDINAL(n)]", [10, 30, None, None, None, None, None]),
    ("bigquery", "x[SAFE_OFFSET(2)]", [30, 30, None, 3, None, None, None]),
    ("bigquery", "x[SAFE_ORDINAL(2)]", [20, None, None, 2, None, None, None]),
    ("bigquery", "GENERATE_ARRAY(3, n)", [[], [3], [3, 4], [], [], None, []]),
    ("bigquery", "GENERATE_ARRAY(1, 5, 2)", [[1, 3, 5]] * 7),
    ("snowflake", "x[0]", [10, 10, 10, 1, 7, 9, None]),
    ("snowflake", "x[n]", [20, None, None, None, None, None, None]),
]
"""Dialects, expressions, and their values in the rows, in the order of `ON_SPARK`."""


def translated(dialect: str, expression: str) -> str:
    """Return an expression of a dialect in Spark SQL."""
    tree = parse_one(f"SELECT {expression} AS v FROM t", dialect=dialect)
    return (
        write_spark_sql(tree, dialect, frozenset("*"))
        .removeprefix("SELECT ")
        .removesuffix(" FROM t")
    )


@pytest.mark.spark
def test_lists_have_the_values_of_their_dialects(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    own = duckdb.connect()
    values = [own.sql(f"SELECT {one} FROM ({ROWS})").fetchall() for one in DUCKDB]
    cases = [
        *(
            ("duckdb", one, [row[0] for row in found])
            for one, found in zip(DUCKDB, values, strict=True)
        ),
        *OF_OTHERS,
    ]
    columns = [
        f"{translated(dialect, one).removesuffix(' AS v')} AS v{number}"
        for number, (dialect, one, _) in enumerate(cases)
    ]
    rows = session.sql(f"SELECT {', '.join(columns)} FROM ({ON_SPARK})").collect()
    found = [[row[number] for row in rows] for number in range(len(cases))]
    wrong = {
        (dialect, one): (is_, right)
        for (dialect, one, right), is_ in zip(cases, found, strict=True)
        if is_ != right
    }
    assert wrong == {}
    assert len(rows) == 7


@pytest.mark.parametrize(
    ("dialect", "expression", "message"),
    [
        ("duckdb", "x[1:2]", "slice"),
        ("duckdb", "x[0]", "subscript 0"),
        ("trino", "x[0]", "subscript 0"),
        ("trino", "x[-1]", "subscript -1"),
        ("clickhouse", "x[n]", "subscript of clickhouse"),
        ("bigquery", "STRING_AGG(s, ',' LIMIT 2)", "LIMIT inside"),
        ("bigquery", "ARRAY_CONCAT_AGG(x ORDER BY n LIMIT 2)", "LIMIT inside"),
        ("bigquery", "GENERATE_ARRAY(5, 1, -1)", "series"),
        ("bigquery", "GENERATE_ARRAY(a, b, c)", "series"),
        ("duckdb", "range(a, b)", "excludes its end"),
        ("duckdb", "MAP {1: 2}[1]", "Literal"),
        ("postgres", "array_length(x, 2)", "another dimension"),
        ("snowflake", "object_construct('a', n)", "OBJECT_CONSTRUCT"),
        ("snowflake", "object_construct(*)", "OBJECT_CONSTRUCT"),
        ("snowflake", "{'a': n}", "OBJECT_CONSTRUCT"),
    ],
)
def test_lists_whose_values_are_not_known_are_refused(
    dialect: str, expression: str, message: str
) -> None:
    with pytest.raises(Unwritable, match=message):
        translated(dialect, expression)


@pytest.mark.parametrize("query", ["SELECT x FROM t LIMIT 2", "(SELECT x FROM t LIMIT 1)"])
def test_the_limit_of_a_query_stays(query: str) -> None:
    assert "LIMIT" in write_spark_sql(parse_one(query, dialect="bigquery"), "bigquery", None)
