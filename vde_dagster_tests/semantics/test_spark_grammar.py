"""Spark's own grammar, read from its classes, takes what it takes, and says where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from zipfile import ZipFile

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.sql.grammar import compiled, spark
from vde_dagster.sql.grammar.compiled import Edge, Network, UnknownFormat, spark_jar
from vde_dagster.sql.grammar.literals import find_malformed, may_be_malformed
from vde_dagster.sql.grammar.spark import Refusal, SparkGrammar, find_spark_refusal, spark_grammar
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
    assert grammar.find_refusal(text) is None


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
    found = grammar.find_refusal(text)
    assert isinstance(found, Refusal)
    assert (found.text, text[found.start : found.end]) == (refused, refused)
    assert expected is None or found.expected == expected


@pytest.mark.parametrize("depth", [400])
def test_deep_brackets_and_long_chains_are_read(grammar: SparkGrammar, depth: int) -> None:
    assert grammar.find_refusal(f"SELECT {'(' * depth}1{')' * depth}") is None
    assert grammar.find_refusal(f"SELECT {' + '.join(['a'] * depth)} FROM t") is None
    assert grammar.find_refusal(f"SELECT 1 FROM t WHERE {' OR '.join(['a'] * depth)} AND")


@pytest.fixture(name="spark_home")
def _spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Spark without classes, in place of the one that is installed."""

    def forget() -> None:
        spark_jar.cache_clear()
        spark._installed_grammar.cache_clear()
        compiled._reasons.clear()

    home = tmp_path / "spark"
    monkeypatch.setenv("SPARK_HOME", str(home))
    forget()
    yield home
    forget()


def warnings_of_a_plan(root: Path) -> list[str]:
    """Plan a query that Spark refuses and SQLGlot takes; return the plan's warnings."""
    model = root / "models" / "marts" / "m.sql"
    model.parent.mkdir(parents=True)
    model.write_text("MODEL (name marts.m, kind FULL);\nSELECT CAST('1' AS VARCHAR2) AS a")
    with Workspace.open(root) as workspace:
        plan = workspace.plan("dev", save=False)
    assert len(plan.models) == 1
    return [text for text in plan.warnings if "grammar" in text]


@pytest.mark.usefixtures("spark_home")
def test_a_plan_goes_without_the_grammar_where_only_a_client_is_installed(tmp_path: Path) -> None:
    assert warnings_of_a_plan(tmp_path / "project") == []


INSTALLED = spark_jar()
PARSER, LEXER = (f"{spark._PACKAGE}SqlBase{name}.class" for name in ("Parser", "Lexer"))


def install(home: Path, classes: dict[str, bytes]) -> None:
    """Write a Spark that has some classes."""
    jar = home / "jars" / "spark-sql-api_2.13-9.9.9.jar"
    jar.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(jar, "w") as written:
        for name, data in classes.items():
            written.writestr(name, data)


def installed_classes() -> dict[str, bytes]:
    """Return the two classes that hold the installed Spark's grammar."""
    assert INSTALLED is not None
    with ZipFile(INSTALLED) as jar:
        return {name: jar.read(name) for name in (PARSER, LEXER)}


DAMAGES: dict[str, Callable[[dict[str, bytes]], dict[str, bytes]]] = {
    "no classes": lambda found: {},
    "empty": lambda found: {**found, PARSER: b""},
    "cut short": lambda found: {**found, PARSER: found[PARSER][: len(found[PARSER]) // 2]},
    "exchanged": lambda found: {PARSER: found[LEXER], LEXER: found[PARSER]},
    "other names": lambda found: {**found, PARSER: found[PARSER].replace(b"RULE_", b"RULES")},
    "text": lambda found: dict.fromkeys(found, b"not a class at all, but a line of text"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_plan_warns_once_of_a_grammar_that_cannot_be_read(
    damage: str, spark_home: Path, tmp_path: Path
) -> None:
    install(spark_home, DAMAGES[damage](installed_classes()))
    (warning,) = warnings_of_a_plan(tmp_path / "project")
    assert "spark-sql-api_2.13-9.9.9.jar" in warning
    assert "reported when a query runs" in warning


@pytest.mark.proof
def test_classes_with_damaged_bytes_never_stop_a_check(spark_home: Path) -> None:
    seed = 20261128
    print(f"seed {seed}")
    random, classes = Random(seed), installed_classes()
    usable = 0
    for _ in range(12):
        damaged = {name: bytearray(data) for name, data in classes.items()}
        for _ in range(random.choice((1, 3, 40))):
            data = damaged[random.choice((PARSER, LEXER))]
            data[random.randrange(len(data))] = random.randrange(256)
        install(spark_home, {name: bytes(data) for name, data in damaged.items()})
        spark._installed_grammar.cache_clear()
        compiled._reasons.clear()
        for query in (*QUERIES.values(), "SELECT", "SELECT CAST('1' AS VARCHAR2)"):
            find_spark_refusal(query)
        usable += spark_grammar() is not None
        assert (spark_grammar() is None) == bool(compiled.grammar_warnings())
    assert usable < 12


def test_a_network_with_a_loop_where_a_token_has_none_is_refused() -> None:
    step = Edge(compiled.EPSILON, 1, 0, 0, 0, ())
    loop = Network([[step], [step._replace(target=0)]], set(), [0, 0], [0], [1])
    with pytest.raises(UnknownFormat, match="loop"):
        spark._read_spellings(loop)


LIKE_WORDS = (
    "r 'a' r'a\\' R\"b\" x'1f' x '1f' ab:cd s3://a/b.c?d s3 ://a 1L 1 L a1.2 a 1.2 é_x xé ab",
    "r'a\\' ab s3 x é ab",
    "s3: //a r\"b\" x\n'1f'",
)


@pytest.mark.parametrize("text", LIKE_WORDS)
def test_words_are_read_alike_whatever_was_read_before(text: str) -> None:
    fresh, used = (spark._InstalledGrammar().grammar for _ in range(2))
    assert fresh is not None
    assert used is not None
    for other in (*LIKE_WORDS, *QUERIES.values()):
        list(used._lexer.tokens(other))
    assert list(used._lexer.tokens(text)) == list(fresh._lexer.tokens(text))


PIECES = (
    *("SELECT a, x.b AS c1 FROM t WHERE", "r'x'", "R", "X'1f'", "x", "1", "1.5", "1.", ".5", "2L"),
    *("3BD", "'a'", "'a''b'", "'a\\'b'", "'", '"q"', "`c`", "`c``d`", "`", "-- x\n", "--", "/*"),
    *("*/", "/*+", "*", "-", "->", "=>", ">", ">=", "<=>", "<>", "!=", "==", "||", "|>", "::"),
    *(".", ",", "(", ")", "[", "@", "?", ";", "\n", "\t", "é", "ARRAY<", "MAP", ">>", "INTERVAL"),
    *("interval '1 day'", "DATE '2024-01-32'", "timestamp", "5 DAYS", "TIME", "1a", "_y", "1e-5"),
)


def test_plain_texts_have_the_tokens_that_the_lexer_reads(grammar: SparkGrammar) -> None:
    random, lexer, plain, wrong = Random(52), grammar._lexer, 0, 0
    for _ in range(6_000):
        words = (random.choice(PIECES) for _ in range(random.randint(1, 9)))
        text = "".join(word + random.choice(("", "", " ")) for word in words)
        read, kinds = lexer.tokens(text), lexer.fast_tokens(text)
        if kinds is None:
            continue
        plain += 1
        assert kinds == tuple(kind for kind, _, _ in read), text
        if find_malformed([text[start:end] for _, start, end in read]) is not None:
            wrong += 1
            assert may_be_malformed(text), text
    assert plain > 1_000
    assert wrong > 5


def test_a_plain_query_with_an_invalid_literal_is_refused(grammar: SparkGrammar) -> None:
    text = "SELECT a FROM t WHERE d = DATE '2024-13-01'"
    assert grammar._lexer.fast_tokens(text) is not None
    assert grammar.find_refusal(text) == Refusal(31, 43, "'2024-13-01'", ("'2024-01-31'",))
