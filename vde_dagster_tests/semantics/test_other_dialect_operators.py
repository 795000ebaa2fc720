"""Operators of other dialects whose values depend on types: errors, or warnings without types."""

from __future__ import annotations

import pytest

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.checks.other_dialects import RULE, Origin
from vde_dagster.semantics.errors import Finding

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
        ("bigquery", "i / j"),
        ("postgres", "AVG(i)"),
        ("snowflake", "AVG(f)"),
        ("duckdb", "CAST(ROUND(f) AS INT)"),
        ("tsql", "CAST(f AS INT)"),
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
        ("snowflake", "u / v", "/"),
        ("redshift", "AVG(u)", "avg"),
        ("tsql", "u + v", "+"),
        ("postgres", "ROUND(u)", "round"),
        ("mysql", "u / j", "/"),
        ("clickhouse", "u / m", "/"),
    ],
)
def test_operator_of_unknown_types_is_a_warning(dialect: str, expression: str, word: str) -> None:
    [one] = found(f"{expression}, {expression}", dialect)

    assert not one.certain
    assert f'dialect_trust ("{word}")' in one.hint
    assert not found(expression, dialect, word)
