"""Operators of other dialects whose values depend on types: errors, with and without types."""

from __future__ import annotations

import re

import pytest
from sqlglot import parse_one

from benchmarks.dialect_grid import templates
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.checks.operands import RULE, Origin
from vde_dagster.semantics.errors import Finding
from vde_dagster.sql.definitions import TableColumn
from vde_dagster.sql.other_dialects import Unwritable
from vde_dagster.sql.other_dialects.translate import write_spark_sql

SCHEMA = {
    "t": {
        "i": "INT",
        "j": "BIGINT",
        "m": "DECIMAL(10, 3)",
        "f": "DOUBLE",
        "s": "STRING",
        "d": "DATE",
        "e": "DATE",
        "z": "TIMESTAMP",
        "b": "BOOLEAN",
        "a": "ARRAY<INT>",
        "n": "DECIMAL(38, 0)",
        "w": "VARCHAR(10)",
        "u": "UNKNOWN",
        "v": "UNKNOWN",
    }
}


def found(expression: str, dialect: str, *trusted: str) -> list[Finding]:
    query = f"SELECT {expression} AS x FROM t"
    origin = Origin(dialect, frozenset(trusted))
    return [one for one in analyze(query, SCHEMA, origin=origin).findings if one.rule == RULE]


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        ("duckdb", "MEDIAN(m)"),
        ("duckdb", "COALESCE(CAST(m AS DECIMAL(12, 4)), SUM(m) OVER ())"),
        ("duckdb", "CASE WHEN b THEN m * 1.5 ELSE (SELECT SUM(x.m) FROM t AS x) END"),
        ("duckdb", "LEAST((SELECT MAX(y) FROM (SELECT SUM(m) AS y FROM t) AS x), m * 1.5)"),
        ("duckdb", "GREATEST(CAST(m AS DECIMAL(12, 4)), n)"),
        ("duckdb", "ARRAY(CAST(f AS DECIMAL(20, 10)), CAST(f AS DECIMAL(38, 3)))"),
        ("duckdb", "IF(b, CAST(f AS DECIMAL(38, 20)), j)"),
        ("postgres", "a || a"),
        ("duckdb", "CAST(a AS STRING)"),
        ("postgres", "CAST(z - z AS STRING)"),
        ("trino", "CAST(STRUCT(i AS x) AS STRING)"),
        ("duckdb", "CONCAT(s, a)"),
        ("postgres", "CAST(ENCODE(s, 'utf-8') AS STRING)"),
        ("postgres", "CAST(DATE_TRUNC('MONTH', d) AS STRING)"),
        ("postgres", "DATE_TRUNC('MONTH', d) || 'x'"),
        ("postgres", "ARRAY(1) || a"),
        ("duckdb", "j + d"),
        ("postgres", "d + j"),
        ("trino", "d - 3000000000"),
        ("snowflake", "d + m"),
        ("oracle", "f + d"),
        ("mysql", "d + 1"),
        ("mysql", "1 + d"),
        ("mysql", "d - i"),
        ("duckdb", "DATE_TRUNC('MONTH', d) - 1"),
        ("duckdb", "7 + DATE_TRUNC('WEEK', z)"),
        ("duckdb", "DATE_TRUNC('DAY', d) || ''"),
        ("duckdb", "TIMESTAMP_MILLIS(z)"),
        ("duckdb", "CAST(FLOOR(f) AS STRING)"),
        ("postgres", "CEIL(f) || 'x'"),
        ("duckdb", "LENGTH(a)"),
        ("duckdb", "TRY_ELEMENT_AT(s, 1)"),
        ("postgres", "GET(s, 0)"),
        ("postgres", "DATE_FORMAT(i, '999')"),
        ("postgres", "i / j"),
        ("redshift", "i / 2"),
        ("trino", "j / (i + 1)"),
        ("tsql", "SUM(i) / COUNT(*)"),
        ("athena", "i / j"),
        ("snowflake", "i / j"),
        ("postgres", "m / 3"),
        ("duckdb", "m / i"),
        ("trino", "i / m"),
        ("bigquery", "m / m"),
        ("bigquery", "TRY_DIVIDE(m, m)"),
        ("redshift", "AVG(i)"),
        ("tsql", "AVG(DISTINCT i)"),
        ("snowflake", "AVG(i)"),
        ("trino", "AVG(m)"),
        ("postgres", "AVG(m) OVER ()"),
        ("duckdb", "CAST(m AS INT)"),
        ("postgres", "CAST(f AS BIGINT)"),
        ("duckdb", "CAST(m * 100 AS BIGINT)"),
        ("bigquery", "TRY_CAST(f AS BIGINT)"),
        ("duckdb", "CAST(f AS STRING)"),
        ("trino", "CAST(z AS STRING)"),
        ("bigquery", "CAST(m AS STRING)"),
        ("tsql", "CAST(b AS STRING)"),
        ("duckdb", "d - e"),
        ("postgres", "CASE WHEN b THEN d - e END"),
        ("tsql", "s + s"),
        ("redshift", "s + s"),
        ("duckdb", "m DIV 2"),
        ("mysql", "i / j"),
        ("clickhouse", "i / m"),
        ("postgres", "ROUND(f)"),
        ("trino", "CONCAT(s, z)"),
        ("duckdb", "s || f"),
        ("postgres", "CONCAT(s, b)"),
        ("athena", "CAST(f AS INT)"),
        ("presto", "CAST(m AS INT)"),
        ("redshift", "CAST(m AS INT)"),
        ("mysql", "CAST(f AS INT)"),
        ("oracle", "CAST(f AS INT)"),
        ("mysql", "CAST(f AS STRING)"),
        ("clickhouse", "CAST(b AS STRING)"),
        ("mysql", "d - e"),
        ("mysql", "AVG(i)"),
        ("mysql", "ROUND(f, 2)"),
        ("snowflake", "ADD_MONTHS(z, 1)"),
        ("snowflake", "ADD_MONTHS(s, 1)"),
        ("duckdb", "'2018-01-01' + INTERVAL '1' MONTH * i"),
        ("postgres", "CAST(s + INTERVAL '1' MONTH AS TIMESTAMP)"),
        ("snowflake", "s - INTERVAL 1 DAY"),
        ("mysql", "s + MAKE_INTERVAL(0, 0, 0, i)"),
        ("duckdb", "PERCENTILE(m, 0.5)"),
        ("duckdb", "PERCENTILE(IF(TYPEOF(m) IN ('int'), m, RAISE_ERROR('x')), 0.5)"),
    ],
)
def test_operator_with_another_value_there_is_an_error(dialect: str, expression: str) -> None:
    [one] = found(expression, dialect)

    assert one.certain
    assert (one.line, one.column is not None) == (1, True)
    assert "dialect_trust" in one.hint
    assert not found(expression, "spark")
    assert not found(expression, dialect, "*")


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        ("postgres", "f / i"),
        ("postgres", "m / 100"),
        ("postgres", "i DIV j"),
        ("trino", "i / f"),
        ("duckdb", "i / j"),
        ("duckdb", "COALESCE(m, SUM(m) OVER (), 0, j)"),
        ("duckdb", "COALESCE(CAST(m AS DECIMAL(12, 4)), n % 10)"),
        ("postgres", "COALESCE(CAST(m AS DECIMAL(12, 4)), SUM(m) OVER ())"),
        ("bigquery", "i / j"),
        ("bigquery", "TRY_DIVIDE(i, j)"),
        ("postgres", "AVG(i)"),
        ("snowflake", "AVG(f)"),
        ("duckdb", "CAST(ROUND(f) AS INT)"),
        ("tsql", "CAST(f AS INT)"),
        ("clickhouse", "CAST(f AS INT)"),
        ("snowflake", "CAST(n AS BIGINT)"),
        ("snowflake", "ADD_MONTHS(d, 1)"),
        ("duckdb", "1 + d"),
        ("postgres", "i + d"),
        ("postgres", "d - 1"),
        ("redshift", "CAST(i AS SMALLINT) + d"),
        ("snowflake", "d - CAST(i AS TINYINT)"),
        ("mysql", "ROUND(m, 2)"),
        ("mysql", "d + INTERVAL 1 DAY"),
        ("duckdb", "d + INTERVAL '1' MONTH * i"),
        ("postgres", "z - INTERVAL 1 DAY"),
        ("duckdb", "PERCENTILE(i, 0.5) + PERCENTILE(f, 0.5)"),
        ("duckdb", "CASE WHEN TYPEOF(f) = 'x' THEN CAST(f AS STRING) RLIKE '1' END"),
        ("bigquery", "d - e"),
        ("snowflake", "TRIM(w) || 'x'"),
        ("snowflake", "COALESCE(w, s) || 'x'"),
        ("duckdb", "CAST(EXTRACT(SECOND FROM z) * 1000 AS BIGINT)"),
        ("trino", "UNIX_MICROS(z) / 1e6"),
        ("postgres", "CAST(i AS STRING)"),
        ("postgres", "CAST(z AS STRING)"),
        ("duckdb", "z - z"),
        ("trino", "d - e"),
        ("tsql", "i + j"),
        ("postgres", "i + j"),
        ("databricks", "i / j"),
        ("mysql", "f / 2"),
        ("postgres", "ROUND(m)"),
        ("postgres", "ROUND(f, 2)"),
        ("postgres", "s || b"),
    ],
)
def test_operator_with_the_same_value_there_is_none(dialect: str, expression: str) -> None:
    assert not found(expression, dialect)


@pytest.mark.parametrize(
    ("dialect", "expression", "word"),
    [
        ("postgres", "u / v", "/"),
        ("trino", "u / i", "/"),
        ("bigquery", "i / u", "/"),
        ("bigquery", "TRY_DIVIDE(u, 2)", "safe_divide"),
        ("duckdb", "u / 3", "/"),
        ("snowflake", "u / v", "/"),
        ("redshift", "AVG(u)", "avg"),
        ("duckdb", "AVG(DISTINCT u)", "avg"),
        ("tsql", "u + v", "+"),
        ("redshift", "u + 'x'", "+"),
        ("postgres", "ROUND(u)", "round"),
        ("mysql", "u / j", "/"),
        ("clickhouse", "u / m", "/"),
        ("duckdb", "u DIV 2", "//"),
        ("duckdb", "MEDIAN(u)", "median"),
        ("duckdb", "PERCENTILE(u, 0.5)", "percentile_cont"),
        ("mysql", "u + INTERVAL 1 DAY", "+"),
        ("snowflake", "ADD_MONTHS(u, 1)", "add_months"),
        ("postgres", "CAST(u AS BIGINT)", "cast"),
        ("athena", "CAST(u AS INT)", "cast"),
        ("presto", "CAST(u AS INT)", "cast"),
        ("redshift", "CAST(u AS INT)", "cast"),
        ("trino", "TRY_CAST(u AS INT)", "cast"),
        ("trino", "CAST(u AS STRING)", "cast"),
        ("mysql", "CAST(u AS STRING)", "cast"),
        ("duckdb", "CAST(CASE WHEN b THEN u END AS STRING)", "cast"),
        ("duckdb", "s || u", "||"),
        ("bigquery", "CONCAT(s, u)", "concat"),
        ("duckdb", "CONCAT_WS('-', u, v)", "concat_ws"),
        ("duckdb", "u - v", "-"),
        ("snowflake", "d - u", "-"),
        ("oracle", "u - v", "-"),
        ("duckdb", "LENGTH(u)", "length"),
        ("duckdb", "TRY_ELEMENT_AT(u, 1)", "[]"),
        ("postgres", "DATE_FORMAT(u, '999')", "to_char"),
        ("postgres", "(SELECT MAX(u) FROM t) / 2", "/"),
    ],
)
def test_operator_of_unknown_types_is_refused_once(
    dialect: str, expression: str, word: str
) -> None:
    [one] = found(f"{expression}, {expression}", dialect)

    assert one.certain
    assert one.untyped
    assert (one.line, one.column is not None) == (1, True)
    assert "the type of u" in one.message
    assert "declare the types of the columns" in one.hint
    assert f'dialect_trust ("{word}")' in one.hint
    assert not found(expression, dialect, word)
    assert not found(expression, "spark")


@pytest.mark.parametrize(
    ("dialect", "expression"),
    [
        ("postgres", "u / 2.5e0"),
        ("trino", "CAST(u AS DOUBLE) / v"),
        ("tsql", "CAST(u AS INT)"),
        ("tsql", "u + 1"),
        ("trino", "u - v"),
        ("duckdb", "i - u"),
        ("duckdb", "UPPER(u) || 'x'"),
        ("snowflake", "IF(CAST(u AS STRING) RLIKE 'x', RAISE_ERROR('x'), u)"),
        ("postgres", "ROUND(u, 2)"),
        ("duckdb", "u + INTERVAL 1 DAY"),
        ("trino", "LENGTH(u)"),
    ],
)
def test_operator_of_unknown_types_with_one_meaning_is_accepted(
    dialect: str, expression: str
) -> None:
    assert not found(expression, dialect)


def findings_of(query: str, dialect: str, **origin: frozenset[TableColumn]) -> list[str]:
    found = analyze(query, SCHEMA, origin=Origin(dialect, **origin)).findings
    return [one.message for one in found if one.rule == RULE]


CHOICES = [
    "CASE WHEN b THEN -0.5 ELSE 1 END",
    "COALESCE(m, 0)",
    "-COALESCE(m, 0.0)",
    "GREATEST(m, 1)",
    "LEAST(1.5, m)",
    "IF(b, m, 0)",
    "COALESCE(m, 0) + 1",
    "SUM(COALESCE(m, 0)) OVER ()",
    "LAG(m, 1, 0.5) OVER (ORDER BY i)",
    "CAST(i AS DECIMAL(38, 18))",
]


@pytest.mark.parametrize("value", CHOICES)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST({} AS STRING) AS x FROM t",
        "SELECT s || {} AS x FROM t",
        "SELECT COUNT(DISTINCT CAST(val AS STRING)) AS x FROM (SELECT {} AS val FROM t) AS u",
        "SELECT CONCAT_WS('-', s, v) AS x FROM (SELECT s, {} AS v FROM t) AS u",
        "WITH c AS (SELECT {} AS v FROM t), d(w) AS (SELECT v FROM c) SELECT w || '' AS x FROM d",
        "SELECT u.val || '' AS x FROM (SELECT * FROM (SELECT *, {} AS val FROM t) AS u) AS u",
    ],
)
def test_text_of_decimals_with_digits_of_their_own_is_refused(value: str, query: str) -> None:
    query = query.format(value)

    [message] = findings_of(query, "postgres")

    assert message.startswith("on PostgreSQL, the text of a ")
    assert not [one for one in findings_of(query, "duckdb") if "is unknown" not in one]


@pytest.mark.parametrize(
    "value",
    [
        "m",
        "COALESCE(m, -m)",
        "CASE WHEN b THEN 1.5 ELSE -2.5 END",
        "CAST(COALESCE(m, 0) AS DECIMAL(10, 3))",
        "ROUND(COALESCE(m, 0))",
        "NULLIF(m, 0)",
        "SUM(m) OVER ()",
        "m * 1.5 + i",
        "COALESCE(m, NULL)",
        "COALESCE(i, 0)",
    ],
)
def test_text_of_decimals_with_the_digits_of_their_type_is_accepted(value: str) -> None:
    query = (
        f"WITH c AS (SELECT *, {value} AS val FROM t) SELECT val || CAST(val AS STRING) AS x FROM c"
    )

    assert findings_of(query, "postgres") == []


@pytest.mark.parametrize(
    ("dialect", "query", "message"),
    [
        ("postgres", "SELECT v || '' AS x FROM VALUES (1), (1.5) AS u(v)", "text of a decimal"),
        ("postgres", "SELECT ARRAY_JOIN(ARRAY(1, m), ',') AS x FROM t", "text of a decimal"),
        ("postgres", "SELECT ARRAY_JOIN(ARRAY(f), ',') AS x FROM t", "text of a float"),
        ("postgres", "SELECT ARRAY_JOIN(ARRAY(b), ',') AS x FROM t", "text of a boolean"),
        ("postgres", "SELECT CONCAT_WS('-', b, s) AS x FROM t", "text of a boolean"),
        ("postgres", "SELECT CONCAT(COALESCE(CAST(b AS STRING), ''), 'x') AS x FROM t", "boolean"),
        ("duckdb", "SELECT LISTAGG(f, ',') AS x FROM t", "text of a float"),
        ("snowflake", "SELECT LISTAGG(u, ',') AS x FROM t", "type of u is unknown"),
        ("duckdb", "SELECT TO_JSON(m) AS x FROM t", "to_json of a value"),
        ("duckdb", "SELECT CAST(DATE_TRUNC('DAY', z) AS STRING) AS x FROM t", "by days"),
        (
            "duckdb",
            "SELECT MAX(v) || '' AS x FROM (SELECT DATE_TRUNC('MONTH', z) AS v FROM t) AS u",
            "by days",
        ),
        ("duckdb", "SELECT s AS x FROM t UNION ALL SELECT i FROM t", "column with texts"),
        ("mysql", "SELECT s FROM t UNION (SELECT NULL UNION SELECT d FROM t)", "column with texts"),
        ("mysql", "SELECT COALESCE(i, '-') AS x FROM t", "between a text and a number is a text"),
        ("sqlite", "SELECT CASE WHEN b THEN s ELSE m END AS x FROM t", "between a text"),
        ("clickhouse", "SELECT IF(b, s, i) AS x FROM t", "a number may be a text"),
    ],
)
def test_text_that_depends_on_a_common_type_is_refused(
    dialect: str, query: str, message: str
) -> None:
    [found] = findings_of(query, dialect)

    assert message in found
    assert not findings_of(query, "spark")


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("postgres", "SELECT ARRAY_JOIN(a, ',') || ARRAY_JOIN(SPLIT(s, ','), ',') AS x FROM t"),
        ("postgres", "SELECT LISTAGG(u, ',') AS x FROM t"),
        ("duckdb", "SELECT LISTAGG(m, ',') AS x FROM t"),
        ("duckdb", "SELECT CAST(DATE_TRUNC('HOUR', z) AS STRING) AS x FROM t"),
        ("duckdb", "SELECT CAST(CAST(DATE_TRUNC('DAY', z) AS DATE) AS STRING) AS x FROM t"),
        ("duckdb", "SELECT s AS x FROM t UNION ALL SELECT NULL UNION ALL SELECT w FROM t"),
        ("mysql", "SELECT COALESCE(s, '-') AS x, IF(b, 1, 2) AS y FROM t"),
        ("trino", "SELECT COALESCE(i, 0) AS x FROM t UNION SELECT j FROM t"),
    ],
)
def test_text_without_a_common_type_is_accepted(dialect: str, query: str) -> None:
    assert findings_of(query, dialect) == []


def test_columns_with_texts_of_their_own_are_known_to_readers() -> None:
    query = "SELECT COALESCE(m, 0) AS v, m, MAX(LEAST(m, 1)) OVER () AS W FROM t"
    origin = Origin("postgres", other_texts=frozenset({TableColumn("t", "m")}))

    assert analyze(query, SCHEMA, origin=Origin("postgres")).other_texts == {"v", "w"}
    assert analyze(query, SCHEMA, origin=origin).other_texts == {"v", "m", "w"}
    assert not analyze(query, SCHEMA, origin=Origin("trino")).other_texts
    [message] = findings_of(
        "SELECT m || '' AS x FROM t", "postgres", other_texts=origin.other_texts
    )
    assert "the text of a decimal" in message


def test_refusal_of_a_dbt_model_names_the_setting() -> None:
    origin = Origin("duckdb", frozenset(), "dbt")
    [one] = analyze("SELECT u / 3 AS x FROM t", SCHEMA, origin=origin).findings

    assert one.hint.endswith('dialect_trust = ["/"] under [tool.vde]')


TYPES = {
    **dict.fromkeys("TJUPW", "STRING"),
    **dict.fromkeys("IN", "INT"),
    **dict.fromkeys("FG", "DOUBLE"),
    **dict.fromkeys("DE", "DATE"),
    **dict.fromkeys("SZ", "TIMESTAMP"),
    "M": "DECIMAL(10, 3)",
    "B": "BOOLEAN",
    "L": "ARRAY<INT>",
    "A": "ARRAY<STRING>",
}
"""Types of the places of templates in `benchmarks/dialect_templates.txt`."""


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "trino", "bigquery"])
def test_no_expression_over_typed_columns_is_refused_for_unknown_types(dialect: str) -> None:
    columns = {f"{place}{n}": kind for place, kind in TYPES.items() for n in range(4)}
    checked = 0
    for template in templates(dialect)[::5]:
        places = re.findall(r"\{(\w)\}", template)
        names = iter(f"{place}{n}" for n, place in enumerate(places))
        expression = re.sub(r"\{\w\}", lambda _, names=names: next(names), template)
        try:
            tree = parse_one(f"SELECT {expression} AS v FROM t", dialect=dialect)
            text = write_spark_sql(tree, dialect, None)
        except Unwritable:
            continue
        findings = analyze(text, {"t": columns}, origin=Origin(dialect)).findings
        assert not [one for one in findings if one.untyped], text
        checked += 1

    assert checked > 40
