"""Views' SQL for Trino; `python -m vde_dagster_tests.lakehouse.trino_reads` runs such SQL there."""

from __future__ import annotations

import pytest

from vde_dagster.planning.rendering.view_dialects import trino_query, trino_select
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.sql.outline import replace_qualify


def body(sql: str) -> str | None:
    """The translation of a query with one column, without what surrounds every query."""
    query = trino_query(sql, [("a", "INT")], "lakehouse", "lakehouse")
    if query is None:
        return None
    return query.partition("FROM (")[2].removesuffix(') AS "_rows"("a")')


def test_a_table_is_read_under_the_name_that_its_catalog_has_in_trino() -> None:
    ref = TableRef("vde__marts", "marts.a__1")
    assert trino_select(ref, [("two words", "a"), ('quo"te', "b")], "iceberg") == (
        'SELECT "a" AS "two words", "b" AS "quo""te" FROM "iceberg"."vde__marts"."marts.a__1"'
    )


def test_every_column_of_a_query_has_the_type_that_the_view_declares() -> None:
    columns = [("Two words", "DECIMAL(20,2)"), ("at", "timestamp"), ("no", "void")]
    sql = "SELECT sum(x), max(y), NULL FROM `lakehouse`.`n`.`t`"
    assert trino_query(sql, columns, "lakehouse", "iceberg") == (
        'SELECT CAST("Two words" AS DECIMAL(20, 2)) AS "Two words", '
        'CAST("at" AS TIMESTAMP(6) WITH TIME ZONE) AS "at", CAST("no" AS VARCHAR) AS "no" '
        'FROM (SELECT SUM(x), MAX(y), NULL FROM "iceberg"."n"."t") '
        'AS "_rows"("Two words", "at", "no")'
    )


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        ("TIMESTAMP_NTZ '2024-01-01 00:00:00.000001'", "TIMESTAMP(6))"),
        ("CAST(x AS INT)", "AS DOUBLE)) AS INTEGER)"),
        ("CAST(2.7 AS INT)", "TRUNCATE("),
        ("CAST(x AS BIGINT)", "AS DECIMAL(38, 18))) AS BIGINT)"),
        ("avg(x)", "AVG(CAST(x AS DOUBLE))"),
        ("avg(DISTINCT x)", "AVG(DISTINCT CAST(x AS DOUBLE))"),
    ],
)
def test_what_trino_would_compute_otherwise_is_spelled_out(sql: str, translated: str) -> None:
    assert translated in (body(f"SELECT {sql}") or "")


@pytest.mark.parametrize(
    ("sql", "translated"),
    [
        (
            "SELECT * EXCEPT (b) FROM (SELECT a, b, c FROM t) AS s",
            'SELECT "s"."a", "s"."c" FROM (SELECT a, b, c FROM t) AS s',
        ),
        (
            "SELECT s.* EXCEPT (B), r.y FROM (SELECT a, b FROM t) AS s JOIN r ON s.a = r.a",
            'SELECT "s"."a", r.y FROM (SELECT a, b FROM t) AS s JOIN r ON s.a = r.a',
        ),
        (
            "SELECT * EXCEPT (b) FROM (SELECT a + 1, CAST(a AS STRING), 2 AS b FROM t) AS s",
            'SELECT "s"."_c0", "s"."a" FROM '
            '(SELECT a + 1 AS "_c0", TRY_CAST(a AS VARCHAR) AS "a", 2 AS b FROM t) AS s',
        ),
        (
            "WITH w AS (SELECT a, b FROM t) SELECT * EXCEPT (a) FROM (SELECT * FROM w) AS s",
            'WITH w AS (SELECT a, b FROM t) SELECT "s"."b" FROM (SELECT * FROM w) AS s',
        ),
        (
            "SELECT * EXCEPT (a) FROM (SELECT a, b FROM t) AS s LEFT ANTI JOIN r ON s.a = r.a",
            'SELECT "s"."b" FROM (SELECT a, b FROM t) AS s',
        ),
        (
            "SELECT * EXCEPT (x) FROM (SELECT * EXCEPT (b) FROM "
            "(SELECT a, b, 1 AS x FROM t UNION ALL SELECT 1, 2, 3) AS s) AS o",
            'SELECT "o"."a" FROM (SELECT "s"."a", "s"."x" FROM (SELECT a, b, 1 AS x FROM t '
            "UNION ALL SELECT 1, 2, 3) AS s) AS o",
        ),
    ],
)
def test_a_star_that_leaves_columns_out_is_written_out(sql: str, translated: str) -> None:
    assert (body(sql) or "").startswith(translated)


def test_a_filter_on_window_functions_reads_no_star() -> None:
    sql = replace_qualify("SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY k) = 1")
    assert (body(sql) or "").startswith('SELECT "_t"."k" FROM (SELECT k, (ROW_NUMBER()')


def test_text_is_cast_to_an_integer_without_a_detour() -> None:
    assert "TRUNCATE" not in (body("SELECT CAST('5' AS INT)") or "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM (SELECT k, v FROM t) PIVOT (max(v) FOR k IN (1 AS one))",
        "SELECT from_utc_timestamp(at, 'Europe/Berlin') FROM t",
        "SELECT * EXCEPT (a) FROM t",
        "SELECT * EXCEPT (a) FROM (SELECT a, b FROM t) AS s JOIN (SELECT a FROM r) AS o USING (a)",
        "SELECT * EXCEPT (a) FROM (SELECT a, b, b FROM t) AS s",
        "SELECT * EXCEPT (a) FROM (SELECT * FROM t) AS s",
        "WITH w AS (SELECT * FROM w) SELECT * EXCEPT (a) FROM w",
    ],
)
def test_what_sqlglot_cannot_translate_has_no_query(sql: str) -> None:
    assert body(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'O''Brien' FROM t",
        "SELECT date_trunc('D', ts) FROM t",
        "SELECT to_char(x, '999') FROM t",
        "SELECT get_json_object(x, 'a') FROM t",
        "SELECT a | b & c FROM t",
        "SELECT -1::string FROM t",
        "SELECT CAST(x AS TIME) FROM t",
    ],
)
def test_what_sqlglot_takes_for_something_else_has_no_query(sql: str) -> None:
    assert body(sql) is None
    assert body("SELECT date_trunc('DAY', ts) FROM t WHERE x = 'a'") is not None


def test_a_held_state_of_a_table_is_read_under_the_columns_that_it_had() -> None:
    ref, types = TableRef("n", "t"), {"a": "BIGINT", "b": "TIMESTAMP", "c": "ARRAY<STRUCT<x: INT>>"}
    columns = [("out", "a"), ("b", "b"), ("c", "c")]
    state = PinnedTable(7, types, {"a": "INT", "b": "TIMESTAMP"})
    assert trino_select(ref, columns, "lake", state) == (
        'SELECT CAST("a" AS BIGINT) AS "out", "b" AS "b", '
        'CAST(NULL AS ARRAY(ROW("x" INTEGER))) AS "c" FROM "lake"."n"."t" FOR VERSION AS OF 7'
    )
    empty = trino_select(ref, columns[1:2], "lake", PinnedTable(None, types))
    assert empty == 'SELECT CAST(NULL AS TIMESTAMP(6) WITH TIME ZONE) AS "b" WHERE false'


def test_a_query_over_a_held_state_is_translated() -> None:
    rows = pinned_select(
        "`lakehouse`.`n`.`t`", PinnedTable(7, {"a": "INT"}, {"a": "INT"}), [("a", "a")]
    )
    query = trino_query(f"SELECT a FROM ({rows}) AS t", [("a", "INT")], "lakehouse", "iceberg")
    assert query is not None
    assert '(SELECT "a" FROM "iceberg"."n"."t" FOR VERSION AS OF 7) AS t' in query
