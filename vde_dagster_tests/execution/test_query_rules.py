"""What a query of an environment may read and call; `s.t` and `s.u` are there."""

from __future__ import annotations

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.execution.query.query_rules import check_query
from vde_dagster.project.table_names import TableNames

KNOWN = {ModelName("s", "t"), ModelName("s", "u"), ModelName("crm__s", "t")}
NAMES = TableNames("lakehouse", "default", {"crm": "CRM"})

ALLOWED = [
    "SELECT 1;",
    "VALUES (1)",
    "(SELECT 1) UNION SELECT 2",
    "SELECT * FROM S.T AS a JOIN `s`.`u` b USING (id) ORDER BY id LIMIT 3",
    "SELECT * FROM lakehouse.s.t",
    "SELECT * FROM crm.s.t",
    "FROM s.t SELECT count(*)",
    "FROM s.t |> AGGREGATE count(*)",
    "WITH c AS (SELECT * FROM s.t), d AS (SELECT * FROM c) SELECT * FROM d, c",
    "SELECT 'text.`/etc/passwd`', 'reflect(1)' AS reflect, reflect FROM s.t -- reflect(1)",
    "SELECT transform(array(1), x -> x + 1), input_file_name() FROM s.t",
    "SELECT * FROM range(10), explode(array(1))",
    "SELECT * FROM s.t LATERAL VIEW OUTER posexplode(a) x AS i, v",
    "SELECT * FROM s.t, LATERAL (SELECT max(a) FROM s.u), LATERAL explode(a)",
    "SELECT * FROM s.t VERSION AS OF 3",
    "SELECT * FROM s.t PIVOT (sum(a) FOR b IN (1, 2))",
    "SELECT * FROM s.t TABLESAMPLE (10 PERCENT)",
    "SELECT * FROM (VALUES (1, 2)) AS v(a, b)",
]

REFUSED = {
    # Java and programs.
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')": "function reflect is not allowed",
    "SELECT `Reflect` /* x */ ('a', 'b')": "function reflect is not allowed",
    "SELECT a FROM s.t WHERE java_method('a', 'b') = 1": "function java_method is not allowed",
    "SELECT system.builtin.try_reflect('a', 'b')": "function try_reflect is not allowed",
    "SELECT TRANSFORM(a) USING 'cat' AS b FROM s.t": "TRANSFORM … USING",
    "SELECT from_protobuf(a, 'm', '/etc/passwd') FROM s.t": "function from_protobuf is not allowed",
    # Files.
    "SELECT * FROM text.`/etc/passwd`": "'text.`/etc/passwd`' is neither a model",
    "SELECT * FROM `PARQUET`.`/x`": "is neither a model",
    "SELECT * FROM s.t WHERE a IN (SELECT b FROM csv.`/x`)": "'csv.`/x`' is neither",
    "WITH c AS (SELECT * FROM json.`/x`) SELECT * FROM c": "'json.`/x`' is neither",
    "SELECT (SELECT max(a) FROM orc.`/x`)": "'orc.`/x`' is neither",
    "SELECT 1 UNION ALL SELECT * FROM avro.`/x`": "'avro.`/x`' is neither",
    "SELECT * FROM binaryFile.`/x`": "'binaryFile.`/x`' is neither",
    "SELECT * FROM delta.`/x`": "'delta.`/x`' is neither",
    "SELECT * FROM '/etc/passwd'": "is neither a model",
    "SELECT * FROM read_files('/x')": "function read_files is not allowed",
    "SELECT * FROM IDENTIFIER('text.x')": "function identifier is not allowed",
    # Settings and environment variables, which Spark puts in before it parses.
    "SELECT '${env:HOME}'": "'${' is not allowed",
    "SELECT ${system:user.home}": "'${' is not allowed",
    "SELECT @x": "must not contain variables or parameters",
    "SELECT :x": "must not contain variables or parameters",
    # Other tables.
    "SELECT * FROM t": "'t' is neither a model",
    "SELECT * FROM s.tt": "'s.tt' is neither a model",
    "SELECT * FROM spark_catalog.s.t": "'spark_catalog.s.t' is neither",
    "SELECT * FROM crm.s.u": "'crm.s.u' is neither",
    "SELECT * FROM s.t.snapshots": "'s.t.snapshots' is neither",
    "SELECT * FROM a.b.c.d.e": "cannot read a.b.c.d.e",
    "WITH c AS (SELECT 1) SELECT * FROM x.c": "'x.c' is neither",
    "SELECT * FROM some_udtf(1)": "cannot read from some_udtf(…)",
    "SELECT * FROM other.range(1)": "cannot read from range(…)",
    "SELECT * FROM s.t LATERAL VIEW some_udtf(a) x": "cannot read from some_udtf(…)",
    "SELECT * FROM TABLE(range(1))": "cannot read from table(…)",
    # No query.
    "": "is empty",
    "-- nothing": "is empty",
    "SELECT 1; SELECT 2": "more than one statement",
    "DROP TABLE s.t": "it begins with DROP",
    "SET a = 1": "it begins with SET",
    "CALL lakehouse.system.expire_snapshots('s.t')": "it begins with CALL",
    "EXPLAIN SELECT 1": "it begins with EXPLAIN",
    "WITH c AS (SELECT 1) INSERT INTO s.t SELECT * FROM c": "is a statement, INSERT",
    "FROM s.t INSERT INTO s.u SELECT 1": "is a statement",
    "SELECT 1 INTO s.v": "it contains INTO",
    "SELECT (": "the query is invalid",
    "SELECT 'a": "the query is invalid",
    "SELECT {# reflect('a') #} 1": "Jinja is not supported",
    "(" * 20_000 + "SELECT 1" + ")" * 20_000: "nested too deeply",
    "SELECT " + "NOT " * 30_000 + "a FROM s.t": "nested too deeply",
}


@pytest.mark.parametrize("sql", ALLOWED)
def test_reading_models_is_allowed(sql: str) -> None:
    check_query(sql, KNOWN, NAMES)


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:50])
def test_everything_else_is_refused_with_a_message_and_a_hint(sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_query(sql, KNOWN, NAMES)
    assert REFUSED[sql] in caught.value.message
    assert caught.value.hint
    assert len(str(caught.value)) < 1_000


def test_a_name_that_is_nearly_right_has_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        check_query("SELECT * FROM s.tt", KNOWN, NAMES)
    assert "did you mean 's.t'?" in (caught.value.hint or "")
