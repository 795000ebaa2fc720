"""Spark's own grammar, read from its classes, takes what it takes, and says where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.sql.grammar.compiled import spark_jar
from vde_dagster.sql.grammar.spark import Refusal, SparkGrammar, spark_grammar
from vde_dagster_tests.semantics.corpus import QUERIES


@pytest.fixture(name="grammar")
def _grammar() -> SparkGrammar:
    found = spark_grammar()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        *[query.replace("@", "") for query in QUERIES.values()],
        "SELECT 'a' \"b\", R'\\d', X'1F', 1e3, 1.5BD, 3L, .5, 1 >> 2, array<int>(1) >> 1 FROM t",
        "SELECT CAST(a AS ARRAY<ARRAY<INT>>) FROM t /* one /* in */ another */ -- and a line",
        "SELECT /*+ BROADCAST(t) */ a.b.c, v:x.y[0], t.* EXCEPT (a) FROM t, LATERAL explode(u)",
        "SELECT CAST(a AS CHAR(3)), CAST(b AS MAP<INT, INT>) FROM t TABLESAMPLE (10 ROWS)",
        "SELECT char, map, interval - 1, interval FROM t WHERE array > 1",
        "SELECT INTERVAL 2.5 SECONDS - INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1 day'",
        "SELECT NOT a = b AND c, -a::int, a.`b` IS DISTINCT FROM 1 FROM VALUES (1, 2) AS t(a, b)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) TABLE r",
        "FROM t |> WHERE a > 1 |> AGGREGATE count(*) AS n GROUP BY a AS b",
        "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ()) HAVING count(*) > 1",
    ],
)
def test_what_spark_takes_is_taken(grammar: SparkGrammar, text: str) -> None:
    assert grammar.refusal(text) is None


@pytest.mark.parametrize(
    ("text", "refused", "expected"),
    [
        ("SELECT CAST(x AS DATE AS y FROM t", "AS", (")",)),
        ("SELECT a FROM b JOIN c ON", "", None),
        ("SELECT CAST(x AS VARCHAR2) FROM t", "VARCHAR2", None),
        ('SELECT 1 AS "a"', '"a"', None),
        ("SELECT contains 'a'", "'a'", None),
        ("SELECT 1 FROM t GROUP BY a AS b", "AS", None),
        ("SELECT 1 FROM t QUALIFY 1", "1", None),
        ("SELECT 1 /* not /* closed */", "/* not /* closed */", None),
        ("SELECT a - b FROM t-u", "-", None),
        ("SELECT CAST(a AS MAP) FROM t", ")", ("<",)),
        ("SELECT CAST(a AS CHAR) FROM t", ")", ("(",)),
        ("SELECT 1 FROM t TABLESAMPLE (10)", ")", None),
        ("SELECT TRANSFORM(DISTINCT a) USING 'cat' FROM t", "'cat'", None),
        ("SELECT INTERVAL 2.5 DAYS", "2.5 DAYS", ("1 DAY",)),
    ],
)
def test_what_spark_refuses_is_refused_where_it_stands(
    grammar: SparkGrammar, text: str, refused: str, expected: tuple[str, ...] | None
) -> None:
    found = grammar.refusal(text)
    assert isinstance(found, Refusal)
    assert (found.text, text[found.start : found.end]) == (refused, refused)
    assert expected is None or found.expected == expected


@pytest.mark.parametrize("depth", [400])
def test_deep_brackets_and_long_chains_are_read(grammar: SparkGrammar, depth: int) -> None:
    assert grammar.refusal(f"SELECT {'(' * depth}1{')' * depth}") is None
    assert grammar.refusal(f"SELECT {' + '.join(['a'] * depth)} FROM t") is None
    assert grammar.refusal(f"SELECT 1 FROM t WHERE {' OR '.join(['a'] * depth)} AND")


@pytest.fixture(name="without_a_jvm")
def _without_a_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nothing"))
    spark_jar.cache_clear()
    spark_grammar.cache_clear()
    yield
    spark_jar.cache_clear()
    spark_grammar.cache_clear()


@pytest.mark.usefixtures("without_a_jvm")
def test_a_plan_goes_without_the_grammar_where_only_a_client_is_installed(tmp_path: Path) -> None:
    model = tmp_path / "models" / "marts" / "m.sql"
    model.parent.mkdir(parents=True)
    model.write_text("MODEL (name marts.m, kind FULL);\nSELECT CAST('1' AS VARCHAR2) AS a")
    with Workspace.open(tmp_path) as workspace:
        assert len(workspace.plan("dev", save=False).models) == 1


LIKE_WORDS = (
    "r 'a' r'a\\' R\"b\" x'1f' x '1f' ab:cd s3://a/b.c?d s3 ://a 1L 1 L a1.2 a 1.2 é_x xé ab",
    "r'a\\' ab s3 x é ab",
    "s3: //a r\"b\" x\n'1f'",
)


@pytest.mark.parametrize("text", LIKE_WORDS)
def test_words_are_read_alike_whatever_was_read_before(text: str) -> None:
    fresh, used = (spark_grammar.__wrapped__() for _ in range(2))
    assert fresh is not None
    assert used is not None
    for other in (*LIKE_WORDS, *QUERIES.values()):
        list(used._lexer.tokens(other))
    assert list(used._lexer.tokens(text)) == list(fresh._lexer.tokens(text))
