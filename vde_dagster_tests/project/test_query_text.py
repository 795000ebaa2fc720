"""The stored text of a Spark query: its author's words in one line, and the tree handed on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.reading.rendering import Rendered, render
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import NOTHING, remove_nothing
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.scanner import SourceText, scan
from vde_dagster.sql.trees import plain_dialect

QUERIES = [
    "SELECT a, COUNT(*) FILTER (WHERE b > 1) AS n FROM d.t GROUP BY ALL HAVING n > 1 ORDER BY 2",
    "SELECT a FROM d.t TABLESAMPLE (10 PERCENT)",
    "SELECT TRANSFORM(xs, x -> x + 1), m['k'], s.f, r'\\d+', 'it''s', 'a\\'b' FROM d.t",
    "SELECT * FROM d.t LEFT ANTI JOIN d.u ON t.a <=> u.a CROSS JOIN d.v",
    "SELECT CASE WHEN a THEN @start_dt ELSE CAST(@end_ts AS TIMESTAMP) END FROM d.t",
    "SELECT TRY_CAST(a AS INT), DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00' FROM d.t",
    "SELECT * FROM d.t PIVOT (SUM(a) FOR b IN ('x', 'y'))",
    "(SELECT 1 AS a) UNION ALL (SELECT 2 AS a) EXCEPT SELECT 3 AS a",
    "VALUES (1, 'a'), (2, NULL)",
    "SELECT 1L, 2.5BD, 1e5, .5, a AND .5 < b, -1, a - -1, a * -1, -(b), CAST(a AS DECIMAL(10, 2)), "
    "a::INT FROM d.t",
    "SELECT /*+ BROADCAST(u), REPARTITION(3) */ nvl(a, b), `odd name`, ! c, ~ d FROM d.t AS u",
    "SELECT date_format(ts, 'y'), to_date(x, 'd/M/yy'), unix_timestamp(x) FROM d.t",
    "WITH c AS (WITH c AS (SELECT 1 AS a) SELECT a FROM c) SELECT a FROM c",
    "SELECT b.x, COUNT(*) OVER (PARTITION BY x ORDER BY -x ROWS BETWEEN 1 PRECEDING AND "
    "CURRENT ROW) FROM d.t LATERAL VIEW OUTER EXPLODE(xs) b AS x",
    "SELECT x'1F', 'a' 'b', m.`k`.`l`, f(a => 1), ARRAY(1, 2)[0], a BETWEEN 1 AND 2, "
    "a NOT IN (1, 2) FROM `d`.`odd.name` AS m",
    "SELECT a, b FROM d.t GROUP BY a, b WITH ROLLUP",
    "SELECT a >>> 1, a << 2, a >> b | 3, a > b, CAST(a AS ARRAY < ARRAY < INT >>) FROM d.t",
    "SELECT a FROM d.t GROUP BY GROUPING SETS ((a), ()) SORT BY a DESC NULLS LAST LIMIT 3 OFFSET 1",
    "SELECT EXISTS (SELECT 1 FROM d.u WHERE u.a = t.a), ANY (SELECT 2) FROM d.t VERSION AS OF 3",
]


def _render(text: str, dialect: str = "spark") -> Rendered:
    expander = Expander(SourceText(Path("m.sql"), text), MacroScope({}, {}, dialect))
    return render(expander, expander.expand(0, len(text)), TableNames("lakehouse", "main"))


@pytest.mark.parametrize("query", QUERIES)
def test_words_stay_as_they_were_written(query: str) -> None:
    assert _render(query).sql == query


@pytest.mark.parametrize("query", QUERIES)
def test_the_tree_handed_on_is_that_of_the_stored_text(query: str) -> None:
    rendered = _render(query)

    assert rendered.tree is not None
    assert rendered.tree == read_query(rendered.sql).tree


@pytest.mark.parametrize(
    ("query", "stored"),
    [
        ("SELECT t.a FROM t", "SELECT t.a FROM main.t"),
        ("SELECT a FROM lakehouse . d\n. t AS x", "SELECT a FROM d.t AS x"),
        (
            "WITH t AS (SELECT * FROM t) SELECT * FROM T JOIN `u`",
            "WITH t AS (SELECT * FROM main.t) SELECT * FROM T JOIN main.`u`",
        ),
        ('SELECT "a" AS x, "it\'s", "\\"" FROM d.t', 'SELECT "a" AS x, "it\'s", "\\"" FROM d.t'),
        ("SELECT 'a\nb' AS x", "SELECT 'a\nb' AS x"),
        ("SELECT a--\n-1, - -1, b -- - c\n", "SELECT a - 1, - -1, b"),
        ("select  a ,b\tfrom d.t where(a)in(1,2)", "select a, b from d.t where (a) in (1, 2)"),
        ("SELECT count (*), `f` (1), a [0], x :: int", "SELECT count(*), `f`(1), a[0], x::int"),
        ("SELECT a FROM d.t GROUP\nBY a ORDER  BY a", "SELECT a FROM d.t GROUP BY a ORDER BY a"),
        ("SELECT 1 AS a ; ; -- the end", "SELECT 1 AS a"),
        ("SELECT /*+\n  BROADCAST(t) */ a FROM d.t", "SELECT /*+ BROADCAST(t) */ a FROM d.t"),
    ],
)
def test_only_names_of_tables_and_blanks_change(query: str, stored: str) -> None:
    rendered = _render(query)

    assert rendered.sql == stored
    assert rendered.tree is not None
    assert rendered.tree == read_query(rendered.sql).tree


@given(st.data())
def test_formatting_and_comments_do_not_change_the_text(data: st.DataObject) -> None:
    query = data.draw(st.sampled_from(QUERIES))
    tokens = plain_dialect("spark").tokenize(query)
    pieces: list[str] = []
    end = 0
    for token in tokens:
        if token.start < end:
            continue
        pieces += [query[end : token.start]]
        if query[end : token.start]:
            blanks = st.sampled_from([" ", "\n", "\t ", " -- a note\n", " /* two\nlines */ "])
            pieces[-1] = data.draw(blanks)
        pieces += [query[token.start : token.end + 1]]
        end = token.end + 1

    assert _render("".join(pieces)).sql == query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY a) AS x FROM d.t", "percentile_disc"),
        ("SELECT a::TIME AS x FROM d.t", "the type TIME"),
    ],
)
def test_what_spark_would_read_otherwise_is_not_translated(query: str, words: str) -> None:
    with pytest.raises(ProjectError) as caught:
        _render(query, "postgres")

    assert words in str(caught.value)
    assert "dialect spark" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("SELECT a FROM t WHERE N AND b", "SELECT a FROM t WHERE b"),
        ("SELECT a FROM t WHERE b OR N AND c", "SELECT a FROM t WHERE b OR c"),
        ("SELECT a FROM t WHERE b AND N OR c", "SELECT a FROM t WHERE b OR c"),
        ("SELECT a FROM t WHERE (NOT (N)) ORDER BY a", "SELECT a FROM t ORDER BY a"),
        ("SELECT N AS x, a, f(N), f(b, N) FROM t ORDER BY N DESC", "SELECT a, f(), f(b) FROM t"),
        ("SELECT a FROM t JOIN u ON N WHERE b", "SELECT a FROM t JOIN u WHERE b"),
        ("SELECT a + N FROM t", None),
        ("SELECT a FROM N", None),
    ],
)
def test_what_macros_leave_out_takes_its_operator_along(text: str, rest: str | None) -> None:
    text = re.sub(r"\bN\b", NOTHING, text)
    tokens = list(scan(SourceText(Path("m.sql"), text)))

    left, problem = remove_nothing(text, tokens)

    assert (problem is not None) == (rest is None)
    assert rest is None or "".join(left.split()) == "".join(rest.split())
    assert len(left) == len(text)


def test_time_formats_of_another_dialect_are_translated() -> None:
    assert _render("SELECT strftime(a, '%Y-%m') AS m FROM d.t", "duckdb").sql == (
        "SELECT DATE_FORMAT(a, 'yyyy-MM') AS m FROM d.t"
    )


def test_two_statements_in_place_of_one_are_refused() -> None:
    with pytest.raises(ProjectError, match="the query consists of 2 statements"):
        _render("SELECT 1 AS a; SELECT 2 AS b")
