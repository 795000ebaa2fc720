"""The types that are inferred without Spark are those that Spark finds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from vde_dagster.errors import VdeError
from vde_dagster.semantics._sqlglot import data_type, type_key
from vde_dagster.semantics.analysis import analyze
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.tables.columns import spark_type
from vde_dagster_tests.semantics.test_cases import FIXTURES, SCHEMA
from vde_dagster_tests.spark.answers import plain
from vde_dagster_tests.spark.function_probes import SparkTypes, compare_calls
from vde_dagster_tests.spark.registry import EVERYTHING, settings
from vde_dagster_tests.spark.spark_examples import documented_examples
from vde_dagster_tests.yaml_files import read_yaml

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]

EXPRESSIONS = """
id + 1; id + qty; id * 2L; id + amount; amount / 2; id / 2; id % 2; id DIV 2; -id; - amount; 1L
2S; 3Y; 1.5D; 1F; 1e3; 2147483648; 'x'; status || 'x'; status = 'a'; id IN (1, 2)
id BETWEEN 1 AND 2; NOT TRUE; CASE WHEN id > 1 THEN 1 ELSE 2 END; CASE WHEN id > 1 THEN 1 END
if(id > 1, 'a', 'b'); id::BIGINT; coalesce(id, qty); coalesce(id, NULL); nvl(status, 'x')
greatest(id, qty); nullif(id, 1); tags[0]; ts + INTERVAL 1 DAY
DATE '2024-01-01' - INTERVAL '1' YEAR
DATE '2024-01-01' + INTERVAL 1 DAY; DATE '2024-01-01' + INTERVAL '2 hours'; INTERVAL 1 WEEK
INTERVAL '1-2' YEAR TO MONTH; INTERVAL '1 02' DAY TO HOUR; INTERVAL '3 days'; INTERVAL 5 MONTHS
ts - ts; DATE '2024-01-01' - DATE '2023-01-01'; ts - DATE '2023-01-01'; INTERVAL 2 DAY * 3
dateadd(HOUR, 2, ts); date_add(MINUTE, 4, ts); dateadd(DATE '2024-01-01', 2); date_add(DAY, 1, ts)
datediff(MICROSECOND, ts, ts); date_diff(DAY, ts, ts); datediff(DATE '2024-01-01', ts)
timestampadd(DAY, 1, CAST(ts AS TIMESTAMP_NTZ)); timestampdiff(YEAR, ts, ts); extract(DAY FROM ts)
extract(SECOND FROM ts); date_part('SECONDS', ts); date_part('year', ts); element_at(tags, 1)
array_append(tags, 'x'); sort_array(tags); flatten(array(tags)); filter(tags, x -> x = 'a')
CAST(id AS VARCHAR(3)); status::CHAR(9); TRY_CAST(tags AS ARRAY<VARCHAR(3)>);
to_number('1', '99.9'); round(amount, 1); round(1.25, 1); sum(DISTINCT id) OVER ()
id & 1; id << 2; ~id; 'a' || id; concat(tags, tags); concat(X'1F', X'1F'); status + 1; - status
 CAST(id AS DECIMAL(9, 2)); CAST(status AS DATE)
TRY_CAST(status AS INT); info.city; info.zip; ts; DATE '2024-01-01'; X'1F'; current_date
current_timestamp(); array(1, 2); array('a'); split(status, 'a'); EXISTS (SELECT 1 FROM items)
(SELECT max(price) FROM items); int(status); string(id); timestamp(status); sum(id) OVER ()
avg(id) OVER (); count(*) OVER (); row_number() OVER (ORDER BY id); max(ts) OVER ()
sum(amount) OVER (); lag(id) OVER (ORDER BY id); lead(status, 1) OVER (ORDER BY id)
ntile(2) OVER (ORDER BY id); 1.5; .05; 007.50; 1.0BD; 20240131BD; 9223372036854775808; 0.0
"""
_EXACT = [f"CAST(id AS DECIMAL({digits}))" for digits in ("9, 2", "20, 0", "38, 10", "3, 3", "10")]
_OTHERS = ["1", "0", "1234567", "id", "2L", "3S", "4Y", "CAST(id AS TINYINT)", "1.25", "1.5D"]
_BESIDE = [*_OTHERS, *_EXACT]
EXACT = [
    text
    for one in _EXACT
    for text in (
        *(f"{one} {sign} {other}" for other in _BESIDE for sign in "+-*/%"),
        *(f"{other} {sign} {one}" for other in _OTHERS for sign in "+-*/%"),
        *(f"{name}({one})" for name in ("abs", "ceil", "floor", "round", "sum", "avg", "negative")),
        *(f"{name}({one}, {other})" for other in _BESIDE for name in ("coalesce", "greatest")),
        *(f"CASE WHEN id > 1 THEN {other} ELSE {one} END" for other in _BESIDE),
        f"if(id > 1, {one}, NULL)",
    )
]


def _wrong(session: Any, query: str, written: str, schema: Any) -> list[str]:
    """What is inferred of a query's columns and is not what Spark says."""
    from pyspark.errors import PySparkException

    try:
        inferred = list(analyze(query, schema).output_types.values())
        fields = session.sql(written).schema.fields
    except (VdeError, PySparkException):
        return []
    if len(inferred) != len(fields):
        return []
    return [
        f"{query}: {ours} here, {spark_type(field.dataType)} there"
        for ours, field in zip(inferred, fields, strict=True)
        if "UNKNOWN" not in ours and not _same(ours, spark_type(field.dataType))
    ]


def _same(ours: str, theirs: str) -> bool:
    one, other = data_type(ours), data_type(theirs)
    assert one is not None
    assert other is not None
    return type_key(one) == type_key(other)


def _known(query: str, schema: Any) -> int:
    try:
        return sum("UNKNOWN" not in text for text in analyze(query, schema).output_types.values())
    except VdeError:
        return 0


def test_types_of_random_calls_are_those_of_spark(spark_engine: SparkEngine) -> None:
    seed = random.randrange(10**9)
    session = spark_engine.session.newSession()
    found = compare_calls(SparkTypes(session), session, random.Random(seed), 1500)
    print(f"seed {seed}: {found.asked} calls, {found.known} of a known type")
    assert found.wrong == (), f"seed {seed}: " + "\n".join(found.wrong)
    assert found.known > found.asked / 2, f"seed {seed}"


RELATIONS = (
    "SELECT * FROM VALUES (1), (2.5)",
    "SELECT * FROM VALUES (NULL, 2S), (1, 3)",
    "SELECT * FROM VALUES ('a', X'1F'), (NULL, X'20')",
    "SELECT * FROM VALUES (DATE '2024-01-01'), (TIMESTAMP '2024-01-01')",
    "SELECT * FROM (SELECT 1 AS a) FULL JOIN (SELECT 2L AS a) USING (a)",
    "SELECT * FROM (SELECT 1 AS a) LEFT JOIN (SELECT 2L AS a) USING (a)",
    "SELECT * FROM (SELECT 1 AS a) RIGHT JOIN (SELECT 2L AS a) USING (a)",
    *(  # The order of a star's columns.
        "WITH a AS (SELECT 1 AS x, 'a' AS k, 2L AS y), "
        "b AS (SELECT 2.5D AS z, 'a' AS k, true AS j), "
        f"c AS (SELECT 2.5 AS p, true AS j, 'a' AS k) SELECT {star}"
        for star in (
            "a.* FROM a JOIN b USING (k)",
            "b.* FROM a RIGHT JOIN b USING (k)",
            "* FROM a JOIN b USING (k) JOIN c USING (j)",
            "b.* FROM a JOIN b USING (k) JOIN c USING (j, k)",
            "* FROM a JOIN b USING (k) JOIN c USING (j, k)",
            "* FROM a LEFT SEMI JOIN b USING (k)",
            "* FROM b LEFT ANTI JOIN c USING (j, k)",
        )
    ),
    "SELECT 1 AS a UNION ALL SELECT 2L",
    "SELECT 1 AS a UNION ALL SELECT 2.5",
    "SELECT window.start, window(ts, '1 day').end, count(*) FROM VALUES (now()) AS v(ts) "
    "GROUP BY window(ts, '1 day')",
    "SELECT explode(array(1, 2L)), 'x' AS y",
    "SELECT * FROM (SELECT 1 AS k, 'a' AS c, 2.5 AS v) PIVOT (sum(v), max(k) FOR c IN ('a', 'b'))",
)


def test_types_of_relations_are_those_of_spark(spark_engine: SparkEngine) -> None:
    wrong = [line for text in RELATIONS for line in _wrong(spark_engine.session, text, text, {})]
    assert wrong == [], "\n".join(wrong)
    assert sum(_known(text, {}) for text in RELATIONS) > len(RELATIONS) / 2


def test_types_of_documented_examples_are_those_of_spark(spark_engine: SparkEngine) -> None:
    session = spark_engine.session
    with settings(session, EVERYTHING):
        examples = [example.text for example in documented_examples(session)]
        wrong = [line for text in examples for line in _wrong(session, text, text, {})]
    known = sum(_known(text, {}) for text in examples)
    print(f"{known} types inferred of {len(examples)} examples")
    assert wrong == [], "\n".join(wrong)
    assert known > len(examples) / 4


def test_types_of_expressions_over_tables_are_those_of_spark(spark_engine: SparkEngine) -> None:
    session = spark_engine.session.newSession()
    for table, columns in SCHEMA.items():
        listed = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns.items())
        session.sql(f"SELECT {listed}").createOrReplaceTempView(table.replace(".", "_"))
    parts = [part.strip() for line in EXPRESSIONS.splitlines() for part in line.split(";")]
    texts = [f"SELECT {part} AS x FROM orders" for part in [*parts, *EXACT] if part]
    texts += [
        query
        for cases in read_yaml(FIXTURES / "same.yaml").values()
        for case in cases
        for query in case
    ]
    wrong = [
        line
        for text in texts
        for line in _wrong(session, text, plain(text).replace("staging.", "staging_"), SCHEMA)
    ]
    known = sum(_known(text, SCHEMA) for text in texts)
    assert wrong == [], "\n".join(wrong)
    assert known > len(texts)
