"""Merging rows on keys by expressions, by an author's own clauses and filters, on a real table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.semantics.types import is_refused_store
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

COLUMNS = {"k": "string", "n": "int", "v": "int"}
PHYSICAL = {"k": "k_1", "v": "v_9"}


def merging(engine: SparkEngine, **properties: Any) -> Warehouse:
    """A table whose physical names differ from the model's."""
    values = {"unique_key": ("k",), "merge_columns": ("k", "n", "v"), **properties}
    return Warehouse(engine, IncrementalByUniqueKey(**values), COLUMNS, PHYSICAL)


def rows(*values: tuple[object, ...]) -> str:
    """A query of (k, n, v)."""
    written = (
        ", ".join("NULL" if v is None else repr(v) for v in row) for row in (*values, ("", 0, 0))
    )
    return f"SELECT * FROM VALUES {', '.join(f'({row})' for row in written)} t(k, n, v) WHERE n > 0"


def test_an_expression_is_a_key(spark_engine: SparkEngine) -> None:
    table = merging(spark_engine, unique_key=("n",), key_expressions=("COALESCE(lower(k), '')",))
    table.fill(rows(("A", 1, 1), (None, 1, 2), ("b", 2, 3)), days(1, 2))
    for _ in range(2):
        table.fill(rows(("a", 1, 4), ("", 1, 5), ("B", 1, 6)), days(2, 3))
        assert table.rows("k_1, n, v_9") == [("", 1, 5), ("B", 1, 6), ("a", 1, 4), ("b", 2, 3)]


def test_of_several_new_rows_of_one_expression_one_is_taken(spark_engine: SparkEngine) -> None:
    table = merging(spark_engine, unique_key=(), key_expressions=("lower(k)",))
    table.fill(rows(("A", 1, 1), ("a", 2, 2), ("B", 1, 3)), days(1, 2))
    assert table.rows("k_1, n, v_9") == [("B", 1, 3), ("a", 2, 2)]


def test_clauses_decide_what_becomes_of_a_known_key(spark_engine: SparkEngine) -> None:
    table = merging(
        spark_engine,
        when_matched=(
            ("source.v < 0", ()),
            ("source.n > target.n", (("v", "target.v + COALESCE(source.v, 0)"), ("n", "source.n"))),
            ("", (("n", "CASE WHEN target.n > 1 THEN target.n ELSE source.n END"),)),
        ),
    )
    first = (("a", 1, 10), ("b", 1, 20), ("c", 5, 30), ("d", 5, 40))
    table.fill(rows(*first), days(1, 2))
    result = table.fill(rows(("a", 3, 1), ("b", 1, -1), ("c", 2, 7), ("e", 1, -5)), days(2, 3))
    assert table.rows("k_1, n, v_9") == [("a", 3, 11), ("c", 5, 30), ("d", 5, 40), ("e", 1, -5)]
    assert table.summary(result.iceberg_snapshot_id)["vde.interval"] == str(days(2, 3))


def test_a_star_sets_every_column(spark_engine: SparkEngine) -> None:
    table = merging(spark_engine, when_matched=(("source.v > target.v", (("*", "*"),)),))
    table.fill(rows(("a", 1, 1), ("b", 1, 9)), days(1, 2))
    table.fill(rows(("a", 2, 5), ("b", 2, 5)), days(2, 3))
    assert table.rows("k_1, n, v_9") == [("a", 2, 5), ("b", 1, 9)]


def test_a_clause_that_only_deletes_and_finds_nothing_is_a_commit_all_the_same(
    spark_engine: SparkEngine,
) -> None:
    table = merging(spark_engine, when_matched=(("source.v < 0", ()),))
    table.fill(rows(("a", 1, 1)), days(1, 2))
    for values in ([("a", 1, 2)], []):
        found = table.fill(rows(*values), days(2, 3), branch="plan_1")
        assert table.summary(found.iceberg_snapshot_id)["vde.interval"] == str(days(2, 3))
    table.fill(rows(("a", 1, -1)), days(2, 3), branch="plan_1")
    assert table.rows("k_1, v_9") == [("a", 1)]
    assert table.rows("k_1", " VERSION AS OF 'plan_1'") == []


def test_a_filter_limits_what_matches(spark_engine: SparkEngine) -> None:
    table = merging(spark_engine, merge_filter="source.n = target.n OR target.v > 5")
    table.fill(rows(("a", 1, 1), ("b", 1, 9)), days(1, 2))
    table.fill(rows(("a", 2, 2), ("b", 2, 8)), days(2, 3))
    assert table.rows("k_1, n, v_9") == [("a", 1, 1), ("a", 2, 2), ("b", 2, 8)]


def test_delete_insert_keeps_all_rows_of_a_key_and_null_equals_nothing(
    spark_engine: SparkEngine,
) -> None:
    table = merging(spark_engine, strategy="delete+insert")
    table.fill(rows(("a", 1, 1), ("a", 2, 2), ("b", 1, 3), (None, 1, 4)), days(1, 2))
    result = table.fill(rows(("a", 3, 5), ("a", 3, 5), (None, 1, 6)), days(2, 3))

    expected = [("a", 3, 5), ("a", 3, 5), ("b", 1, 3), (None, 1, 4), (None, 1, 6)]
    assert sorted(table.rows("k_1, n, v_9"), key=str) == sorted(expected, key=str)
    assert table.summary(result.iceberg_snapshot_id)["vde.interval"] == str(days(2, 3))

    table.fill(rows(), days(3, 4))
    assert len(table.rows("k_1")) == 5


def test_delete_insert_deletes_by_all_of_a_key_and_what_its_filter_lets_go(
    spark_engine: SparkEngine,
) -> None:
    values = {"unique_key": ("k", "n"), "merge_filter": "target.v < 5"}
    table = merging(spark_engine, strategy="delete+insert", **values)
    table.fill(rows(("a", 1, 1), ("a", 1, 9), ("a", 2, 2), (None, 1, 3)), days(1, 2))
    table.fill(rows(("a", 1, 4), (None, 1, 3)), days(2, 3))

    expected = [("a", 1, 4), ("a", 1, 9), ("a", 2, 2), (None, 1, 3), (None, 1, 3)]
    assert sorted(table.rows("k_1, n, v_9"), key=str) == sorted(expected, key=str)


def test_nulls_equal_where_the_strategy_of_an_adapter_has_it_so(spark_engine: SparkEngine) -> None:
    table = merging(spark_engine, strategy="delete+insert", nulls_match=True)
    table.fill(rows((None, 1, 1), ("a", 1, 2)), days(1, 2))
    table.fill(rows((None, 1, 3), (None, 2, 4)), days(2, 3))

    assert sorted(table.rows("v_9")) == [(2,), (3,), (4,)]


def test_a_merge_of_dbt_updates_all_rows_of_a_key_and_inserts_null_keys(
    spark_engine: SparkEngine,
) -> None:
    table = merging(spark_engine, strategy="merge", when_matched=(("", (("v", "source.v"),)),))
    table.fill(rows(("a", 1, 1), ("a", 2, 2), (None, 1, 3)), days(1, 2))
    table.fill(rows(("a", 9, 5), (None, 1, 6), ("b", 1, 7)), days(2, 3))

    expected = [("a", 1, 5), ("a", 2, 5), ("b", 1, 7), (None, 1, 3), (None, 1, 6)]
    assert sorted(table.rows("k_1, n, v_9"), key=str) == sorted(expected, key=str)


def test_a_merge_of_dbt_refuses_several_new_rows_for_one_of_the_table(
    spark_engine: SparkEngine,
) -> None:
    table = merging(spark_engine, strategy="merge")
    table.fill(rows(("a", 1, 1)), days(1, 2))

    with pytest.raises(ExecutionError, match=r"several rows of one unique_key .k.") as raised:
        table.fill(rows(("a", 1, 2), ("a", 1, 3)), days(2, 3))

    assert "delete+insert" in (raised.value.hint or "")
    assert table.rows("k_1, n, v_9") == [("a", 1, 1)]


def test_two_engines_that_add_up_lose_and_double_nothing(spark_engine: SparkEngine) -> None:
    table = merging(
        spark_engine,
        key_expressions=("COALESCE(n, 0)",),
        when_matched=(("", (("v", "target.v + source.v"),)),),
    )
    other = SparkEngine(spark_engine.settings, lakehouse=lakehouse_of(spark_engine.settings))
    query = "SELECT CAST(id % 5 AS STRING) AS k, 1 AS n, 1 AS v FROM range(5)"
    with ThreadPoolExecutor(2) as pool:
        engines = [spark_engine, other, spark_engine, other]
        list(pool.map(lambda engine: engine.fill(table.task(query, days(1, 2))), engines))
    other.close()
    assert table.rows("k_1, v_9") == [(str(k), 4) for k in range(5)]


def test_spark_stores_in_a_column_what_is_not_refused_and_nothing_else(
    spark_engine: SparkEngine,
) -> None:
    types = (
        "int",
        "decimal(10,2)",
        "double",
        "string",
        "date",
        "timestamp",
        "boolean",
        "array<int>",
        "map<string,int>",
        "struct<a:int>",
    )
    columns = {f"c{number}": type_ for number, type_ in enumerate(types)}
    table = Warehouse(spark_engine, IncrementalByUniqueKey(("k",)), {"k": "int", **columns})
    wrong = []
    for value in types:
        for name, type_ in columns.items():
            text = (
                f"EXPLAIN MERGE INTO {table.name} t USING (SELECT 1 AS k, v FROM "
                f"(SELECT CAST(NULL AS {value}) AS v)) s ON t.k = s.k "
                f"WHEN MATCHED THEN UPDATE SET t.{name} = s.v"
            )
            told = " ".join(row[0] for row in spark_engine.session.sql(text).collect())
            if is_refused_store(value, type_) != ("INCOMPATIBLE_DATA_FOR_TABLE" in told):
                wrong.append((value, type_, told[:300]))
    assert wrong == [], wrong
