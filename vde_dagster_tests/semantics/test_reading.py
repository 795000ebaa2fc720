"""How Spark SQL is read: calls by their names, literals as text, operators as Spark groups them."""

from __future__ import annotations

import pytest
from sqlglot import exp
from sqlglot.errors import ParseError

from vde_dagster.semantics.analysis import analyze
from vde_dagster.sql.reading import DOUBT, read_query
from vde_dagster_tests.spark.our_grouping import our_grouping


def read(text: str) -> str:
    """Show an expression: calls with their arguments, literals as they are."""
    return shown(read_query(f"SELECT {text}").tree.selects[0])


def shown(e: exp.Expr) -> str:
    if isinstance(e, exp.Literal):
        return str(e.this)
    if isinstance(e, exp.Column):
        return ".".join(part.name for part in e.parts)
    if isinstance(e, exp.Anonymous):
        return f"{e.name.rstrip(chr(0xE000))}({', '.join(map(shown, e.expressions))})"
    inner = ", ".join(map(shown, e.iter_expressions()))
    return f"{type(e).__name__}<{inner}>"


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("nvl(a, 1)", "nvl(a, 1)"),
        ("`nvl`(a, 1L)", "nvl(a, 1L)"),
        ("EXTRACT(DAY FROM d)", "EXTRACT(day, d)"),
        ("TRIM(BOTH 'x' FROM s)", "trim both('x', s)"),
        ("TRIM(LEADING FROM s)", "trim leading(s)"),
        ("substring(s FROM 2 FOR 3)", "substring(s, 2, 3)"),
        ("overlay(s PLACING t FROM 1)", "overlay(s, t, 1)"),
        ("position('a' IN s)", "position('a', s)"),
        ("timestampadd(HOUR, 1, ts)", "timestampadd(hour, 1, ts)"),
        ("date_add(d, 1)", "date_add(d, 1)"),
        ("DATE '2020-01-01'", "date literal('2020-01-01')"),
        ("TIME'10:00:00'", "time literal('10:00:00')"),
        ("X 'F0'", "x literal('F0')"),
        ("x'F0'", "x literal('F0')"),
        ("INTERVAL 1 DAY 2 HOURS", "interval literal(1 DAY 2 HOUR)"),
        ("INTERVAL '1-2' YEAR TO MONTH", "interval literal('1-2' YEAR TO MONTH)"),
        ("'O''Brien'", "'O''Brien'"),
        ("'a'  'b'", "'a' 'b'"),
        ('"abc"', "'abc'"),
        ("v:a.b [0]", "Bracket<v, :a.b[0]>"),
        ("any(a)", "any(a)"),
        ("if(a, b, c)", "if(a, b, c)"),
        ("left(a, 1)", "left(a, 1)"),
        ("localtimestamp()", "localtimestamp()"),
        ("1.50BD", "1.50BD"),
    ],
)
def test_calls_and_literals_are_as_written(written: str, call: str) -> None:
    assert read(written) == call


@pytest.mark.parametrize(
    ("written", "grouped"),
    [
        ("a | b & c", "(a | (b & c))"),
        ("a ^ b | c & d", "((a ^ b) | (c & d))"),
        ("a || b + c", "((a || b) + c)"),
        ("a + b || c", "((a + b) || c)"),
        ("a << b + c & d", "((a << (b + c)) & d)"),
        ("a >>> b >> c", "((a >>> b) >> c)"),
        ("a = b < c", "((a = b) < c)"),
        ("a = b LIKE c || d", "((a = b) LIKE (c || d))"),
        ("a BETWEEN b AND c = d AND e", "(between(a, b, (c = d)) AND e)"),
        ("NOT a = b IN (c)", "(NOT ((a = b) IN (c)))"),
        ("- 1 :: STRING", "CAST((- 1) AS STRING)"),
        ("- a :: STRING", "(- CAST(a AS STRING))"),
        ("CASE WHEN a THEN b END || c + d", None),
    ],
)
def test_operators_are_grouped_as_in_spark(written: str, grouped: str | None) -> None:
    assert our_grouping(written) == grouped or grouped is None


@pytest.mark.parametrize(
    "names",
    [
        "WITH first (a) AS (SELECT 1) SELECT a FROM first",
        "WITH x AS (SELECT 1 AS a), first (b) AS (SELECT a FROM x) SELECT b FROM first",
        "SELECT k FROM VALUES (1) AS map(k)",
        "SELECT k FROM VALUES (1) date(k)",
    ],
)
def test_names_of_functions_may_be_names_of_tables(names: str) -> None:
    version = analyze(names, {}).version

    assert version.opaque is None
    assert len(version.columns) == 1


def test_a_query_of_more_changes_of_level_than_a_parser_reads_is_opaque() -> None:
    text = "SELECT " + " + ".join(f"a || {n}" for n in range(1000)) + " AS x FROM t"

    assert DOUBT in read_query(text).tree.meta
    assert analyze(text, {"t": {"a": "STRING"}}).version.opaque


def test_long_chains_of_one_operator_need_no_brackets() -> None:
    text = "SELECT " + " || ".join(f"a{n}" for n in range(400)) + " || 'x' AS x FROM t"

    assert DOUBT not in read_query(text).tree.meta


def test_what_sqlglot_stumbles_over_is_an_error_of_the_text() -> None:
    with pytest.raises(ParseError, match="SQLGlot cannot read the text"):
        read_query("SELECT a FROM t |> LIMIT 1 |> SELECT a")
