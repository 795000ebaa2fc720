"""Digests of rows: equal for the same rows in any order, different for any that differ."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.planning.environments.resolver import Columns
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.table_contents import Output
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.tables.digests import Digester

pytestmark = pytest.mark.spark

DAY = Interval(datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 2, tzinfo=timezone.utc))


def output(engine: SparkEngine, query: str, *sets: Columns) -> Output | None:
    frame = engine.session.sql(query)
    return Digester(sets or (None,), ((DAY, None),), True).read(frame, frame.count())


DIFFERENT = [
    ("(1, 1), (2, 2)", "(1, 2), (2, 1)"),
    ("(1, CAST(NULL AS INT))", "(CAST(NULL AS INT), 1)"),
    ("(1, 1)", "(1, 1), (1, 1)"),
    ("('a', 'bc')", "('ab', 'c')"),
    ("('', 'a')", "(CAST(NULL AS STRING), 'a')"),
    ("(array(1, 2), array(3))", "(array(1), array(2, 3))"),
    ("(array(1, NULL), 1)", "(array(1), 1)"),
    ("(CAST(array() AS ARRAY<INT>), 1)", "(CAST(NULL AS ARRAY<INT>), 1)"),
    ("(named_struct('a', 1, 'b', CAST(NULL AS INT)), 1)",
     "(named_struct('a', CAST(NULL AS INT), 'b', 1), 1)"),
    ("(named_struct('a', CAST(NULL AS INT)), 1)",
     "(CAST(NULL AS STRUCT<a: INT>), 1)"),
    ("(map('a', 1, 'b', 2), 1)", "(map('a', 2, 'b', 1), 1)"),
    ("(array(array(1), array(2)), 1)", "(array(array(1, 2), CAST(array() AS ARRAY<INT>)), 1)"),
    ("(0.0D, 1)", "(-0.0D, 1)"),
    ("(1.10BD, 1)", "(1.20BD, 1)"),
    ("(TIMESTAMP '2024-01-01 00:00:00.000001', 1)", "(TIMESTAMP '2024-01-01 00:00:00.000002', 1)"),
    ("(X'00', X'')", "(X'', X'00')"),
    ("(true, false)", "(false, true)"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_rows_that_differ_have_digests_that_differ(
    spark_engine: SparkEngine, one: str, other: str
) -> None:
    made = [output(spark_engine, f"SELECT * FROM VALUES {v} AS t(a, b)") for v in (one, other)]
    assert made[0] is not None
    assert made[1] is not None
    assert made[0].tiles[0].digests != made[1].tiles[0].digests


def test_order_and_partitions_of_rows_are_no_difference(spark_engine: SparkEngine) -> None:
    rows = "SELECT id AS a, CAST(id AS STRING) AS b, array(id, NULL) AS c FROM range(0, 500, 1, {})"
    one = output(spark_engine, rows.format(1))
    other = output(spark_engine, f"{rows.format(7)} ORDER BY a DESC")
    assert one is not None
    assert one == other


def test_digest_of_some_columns_is_that_of_their_rows_alone(spark_engine: SparkEngine) -> None:
    sets: tuple[Columns, ...] = (None, ("a",), ())
    one = output(spark_engine, "SELECT * FROM VALUES (1, 2), (3, 4) AS t(a, b)", *sets)
    other = output(spark_engine, "SELECT * FROM VALUES (3, 5), (1, 6) AS t(a, b)", *sets)
    assert one is not None
    assert other is not None
    every, first, none = zip(one.tiles[0].digests, other.tiles[0].digests, strict=True)
    assert every[0] != every[1]
    assert first[0] == first[1]
    assert none[0] == none[1]


def test_types_that_cannot_be_hashed_have_no_digest(spark_engine: SparkEngine) -> None:
    assert output(spark_engine, "SELECT parse_json('1') AS a") is None
    assert output(spark_engine, "SELECT INTERVAL '1' DAY AS a") is None


def test_no_rows_have_a_digest_and_rows_that_were_not_all_seen_have_none(
    spark_engine: SparkEngine,
) -> None:
    empty = output(spark_engine, "SELECT 1 AS a WHERE false")
    assert empty is not None
    assert empty.tiles[0].rows == 0
    frame = spark_engine.session.sql("SELECT 1 AS a")
    assert Digester((None,), ((DAY, None),), True).read(frame, 2) is None
