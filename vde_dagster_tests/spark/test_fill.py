"""Filling tables of every kind, on a real catalog."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.project.kinds import (
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    Seed,
    View,
)
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of
from vde_dagster_tests.spark.tasks import (
    Warehouse,
    days,
    hours,
    make_snapshot,
    make_table,
)

pytestmark = pytest.mark.spark

EVENTS = {"id": "bigint", "ts": "timestamp", "v": "string"}


def events(value: str = "a", rows: int = 240) -> str:
    """One row an hour from the start of 2013."""
    return (
        f"SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(0, CAST(id AS INT)) AS ts, "
        f"'{value}' AS v FROM range({rows})"
    )


def test_a_full_table_is_replaced_in_one_commit_that_says_what_it_is(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(spark_engine, Full(), {"id": "int", "v": "string"})
    first = table.fill("SELECT CAST(id AS INT) AS id, 'a' AS v FROM range(3)", days(1, 2))
    again = table.fill("SELECT 7 AS id, 'b' AS v", days(2, 3))
    assert (first.rows, again.rows) == (3, 1)
    assert first.bytes > 0
    assert table.rows() == [(7, "b")]
    assert table.rows(source=f" VERSION AS OF {first.iceberg_snapshot_id}") == [
        (0, "a"),
        (1, "a"),
        (2, "a"),
    ]
    _, commits = spark_engine.query(f"SELECT count(*) FROM {table.name}.snapshots")
    assert commits == ((2,),)
    summary = table.summary(again.iceberg_snapshot_id)
    assert summary["vde.plan"] == "plan-1"
    assert summary["vde.table"] == table.table.id
    assert summary["vde.interval"] == "2013-01-02T00:00:00Z/2013-01-03T00:00:00Z"
    assert summary["vde.kind"] == "FULL"


def test_columns_are_taken_by_name_and_cast_to_the_tables_types(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(
        spark_engine,
        Full(),
        {"login": "string", "amount": "decimal(10,2)", "at": "date"},
        physical={"login": "login_7f"},
    )
    table.fill("SELECT '2013-05-06' AS at, 12 AS login, 3.5D AS amount, 1 AS surplus", days(1, 2))
    columns, rows = spark_engine.query(f"SELECT * FROM {table.name}")
    assert columns == (("login_7f", "string"), ("amount", "decimal(10,2)"), ("at", "date"))
    assert str(rows[0][1]) == "3.50"
    assert rows[0][2] == date(2013, 5, 6)


@pytest.mark.parametrize(
    ("type_", "time_format", "value", "cron"),
    [
        ("timestamp", None, "ts", "0 0 * * *"),
        ("timestamp_ntz", None, "CAST(ts AS TIMESTAMP_NTZ)", "0 0 * * *"),
        ("date", None, "CAST(ts AS DATE)", "0 0 * * *"),
        ("string", None, "date_format(ts, 'yyyy-MM-dd')", "0 0 * * *"),
        ("string", "%d.%m.%Y", "date_format(ts, 'dd.MM.yyyy')", "0 0 * * *"),
        ("int", None, "CAST(date_format(ts, 'yyyyMMdd') AS INT)", "0 0 * * *"),
    ],
)
def test_an_interval_replaces_exactly_its_own_rows(
    spark_engine: SparkEngine, type_: str, time_format: str | None, value: str, cron: str
) -> None:
    columns = {"id": "bigint", "t": type_, "v": "string"}
    table = Warehouse(
        spark_engine, IncrementalByTimeRange("t", time_format), columns, {"t": "t_1"}, cron=cron
    )

    def query(v: str) -> str:
        return f"SELECT id, {value} AS t, v FROM ({events(v)})"

    assert table.fill(query("a"), days(1, 8)).rows == 7 * 24
    for _ in range(2):
        assert table.fill(query("b"), days(3, 5)).rows == 48
    assert table.rows("v, count(*), min(id), max(id)", " GROUP BY v") == [
        ("a", 120, 0, 167),
        ("b", 48, 48, 95),
    ]


def test_rows_outside_of_the_interval_and_without_a_time_never_get_in(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS)
    query = f"{events()} UNION ALL SELECT 999, NULL, 'null'"
    assert table.fill(query, days(2, 3)).rows == 24
    assert table.rows("min(id), max(id)") == [(24, 47)]


@pytest.mark.parametrize(
    "layout", [{}, {"partitioned_by": ("v",)}, {"partitioned_by": ("months(ts)",)}]
)
def test_part_of_a_file_is_replaced_as_well(
    spark_engine: SparkEngine, layout: dict[str, tuple[str, ...]]
) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS, **layout)
    table.fill(events("a"), days(1, 8))
    result = table.fill(events("b"), days(3, 5))
    table.fill(events("b"), days(3, 5))
    assert result.rows == 48
    assert table.summary(result.iceberg_snapshot_id)["vde.interval"] == str(days(3, 5))
    assert table.rows("v, count(*)", " GROUP BY v") == [("a", 120), ("b", 48)]
    _, refs = spark_engine.query(f"SELECT name FROM {table.name}.refs")
    assert refs == (("main",),)


def test_hours_and_five_minutes_are_intervals_like_days(spark_engine: SparkEngine) -> None:
    hourly = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS, cron="0 * * * *")
    hourly.fill(events("a"), hours(0, 24))
    hourly.fill(events("b"), hours(5, 6))
    assert hourly.rows("v, count(*)", " GROUP BY v") == [("a", 23), ("b", 1)]
    assert "hours(ts)" in ddl(spark_engine, hourly)

    often = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS, cron="*/5 * * * *")
    query = "SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(0, 0, CAST(id AS INT)) ts, '{}' v"
    often.fill(query.format("a") + " FROM range(60)", hours(0, 1))
    five = Interval(
        datetime(2013, 1, 1, 0, 5, tzinfo=timezone.utc),
        datetime(2013, 1, 1, 0, 10, tzinfo=timezone.utc),
    )
    often.fill(query.format("b") + " FROM range(60)", five)
    assert often.rows("v, count(*), min(id)", " GROUP BY v") == [("a", 55, 0), ("b", 5, 5)]


def test_an_empty_interval_is_recorded_and_empties_the_table(spark_engine: SparkEngine) -> None:
    for kind in (IncrementalByTimeRange("ts"), IncrementalByUniqueKey(("id",)), Full()):
        table = Warehouse(spark_engine, kind, EVENTS)
        result = table.fill(events() + " WHERE false", days(1, 2))
        assert (result.rows, result.bytes) == (0, 0)
        assert table.summary(result.iceberg_snapshot_id)["vde.interval"] == str(days(1, 2))
        assert table.rows() == []


def test_a_branch_holds_the_new_rows_and_main_stays(spark_engine: SparkEngine) -> None:
    for kind in (IncrementalByTimeRange("ts"), IncrementalByUniqueKey(("id",)), Full()):
        table = Warehouse(spark_engine, kind, EVENTS)
        table.fill(events("a", 24), days(1, 2))
        result = table.fill(events("b", 24), days(1, 2), branch="plan_1")
        assert table.rows("DISTINCT v") == [("a",)]
        assert table.rows("v, count(*)", " VERSION AS OF 'plan_1' GROUP BY v") == [("b", 24)]
        assert table.summary(result.iceberg_snapshot_id)["vde.plan"] == "plan-1"


def test_a_branch_of_an_empty_table_starts_empty(spark_engine: SparkEngine) -> None:
    table = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS)
    table.fill(events("a", 24), days(1, 2), branch="plan_1")
    table.fill(events("a", 48), days(2, 3), branch="plan_1")
    assert table.rows() == []
    assert table.rows("count(*)", " VERSION AS OF 'plan_1'") == [(48,)]


def test_keys_are_merged_and_null_is_a_key(spark_engine: SparkEngine) -> None:
    columns = {"k": "int", "part": "string", "v": "string"}
    table = Warehouse(spark_engine, IncrementalByUniqueKey(("k", "part")), columns)
    table.fill(
        "SELECT * FROM VALUES (1, NULL, 'a'), (NULL, NULL, 'b'), (2, 'x', 'c') t(k, part, v)",
        days(1, 2),
    )
    result = table.fill(
        "SELECT * FROM VALUES (1, NULL, 'A'), (NULL, NULL, 'B'), (2, 'y', 'd') t(k, part, v)",
        days(2, 3),
    )
    assert table.rows() == [
        (1, None, "A"),
        (2, "x", "c"),
        (2, "y", "d"),
        (None, None, "B"),
    ]
    summary = table.summary(result.iceberg_snapshot_id)
    assert (summary["vde.kind"], summary["vde.interval"]) == (
        "INCREMENTAL_BY_UNIQUE_KEY",
        str(days(2, 3)),
    )
    assert result.rows == 3


def test_of_several_rows_of_a_key_the_latest_one_is_taken(spark_engine: SparkEngine) -> None:
    columns = {"k": "int", "z": "string", "m": "map<string,int>", "at": "timestamp"}
    table = Warehouse(spark_engine, IncrementalByUniqueKey(("k",)), columns)
    query = """SELECT * FROM VALUES
        (1, 'z', map('a', 1), TIMESTAMP '2013-01-01'),
        (1, 'a', map('a', 2), TIMESTAMP '2013-01-03'),
        (1, 'q', map('a', 3), NULL),
        (2, 'a', map('a', 4), NULL),
        (2, 'b', map('a', 5), NULL) t(k, z, m, at)"""
    for _ in range(2):
        table.fill(query, days(1, 2))
        assert table.rows("k, z, m") == [(1, "a", {"a": 2}), (2, "b", {"a": 5})]


def test_many_threads_fill_one_and_many_tables(spark_engine: SparkEngine) -> None:
    by_time = Warehouse(spark_engine, IncrementalByTimeRange("ts"), EVENTS)
    by_key = Warehouse(spark_engine, IncrementalByUniqueKey(("id",)), EVENTS)
    own = [Warehouse(spark_engine, Full(), EVENTS) for _ in range(2)]
    jobs = [(by_time, days(n, n + 1)) for n in range(1, 7)]
    jobs += [(by_key, days(n, n + 1)) for n in range(1, 4)]
    jobs += [(table, days(1, 2)) for table in own]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda job: job[0].fill(events("a", 144), job[1]), jobs))
    assert by_time.rows("count(*), count(DISTINCT id)") == [(144, 144)]
    assert by_key.rows("count(*), count(DISTINCT id)") == [(144, 144)]
    for (table, interval), result in zip(jobs, results, strict=True):
        summary = table.summary(result.iceberg_snapshot_id)
        assert (summary["vde.table"], summary["vde.interval"]) == (table.table.id, str(interval))


def test_two_engines_merging_the_same_new_keys_never_double_them(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(spark_engine, IncrementalByUniqueKey(("id",)), EVENTS)
    other = SparkEngine(spark_engine.settings, lakehouse=lakehouse_of(spark_engine.settings))
    with ThreadPoolExecutor(2) as pool:
        tasks = [(engine, n) for n in range(2) for engine in (spark_engine, other)]
        list(
            pool.map(
                lambda job: job[0].fill(table.task(events(f"v{job[1]}", 50), days(1, 2))), tasks
            )
        )
    other.close()
    assert table.rows("count(*), count(DISTINCT id)") == [(50, 50)]


def ddl(engine: SparkEngine, table: Warehouse) -> str:
    text: str = engine.session.sql(f"SHOW CREATE TABLE {table.name}").collect()[0][0]
    return text


def test_layout_comments_and_properties_reach_the_table(spark_engine: SparkEngine) -> None:
    table = Warehouse(
        spark_engine,
        Full(),
        {"id": "bigint", "ts": "timestamp"},
        physical={"ts": "ts_1", "id": "id_1"},
        description="It's the table's\ntext",
        column_descriptions={"id": "the \"key\" \\ 'it'"},
        partitioned_by=("bucket(4, id)", "days(ts)"),
        clustered_by=("ts", "id DESC"),
        table_properties=(("write.parquet.compression-codec", "gzip"),),
    )
    text = ddl(spark_engine, table)
    assert "PARTITIONED BY (bucket(4, id_1), days(ts_1))" in text
    assert "gzip" in text
    assert "It\\'s the table\\'s" in text or "It's the table's" in text
    assert f"'vde.table' = '{table.table.id}'" in text
    assert table.table.id in text.split("LOCATION")[1].splitlines()[0]
    assert "sort-order" in text
    _, described = spark_engine.query(f"SELECT * FROM {table.name}")
    assert described == ()
    comments = {
        f.name: f.metadata.get("comment") for f in spark_engine.session.table(table.name).schema
    }
    assert comments["id_1"] == "the \"key\" \\ 'it'"


def test_creating_twice_is_fine_and_a_strangers_table_is_a_conflict(
    spark_engine: SparkEngine,
) -> None:
    snapshot = make_snapshot(Full(), {"id": "int"})
    table = make_table(snapshot)
    for _ in range(2):
        spark_engine.create_table(table, snapshot, (("id", "int"),))
    stranger = make_table(snapshot)
    assert stranger.ref == table.ref
    with pytest.raises(ConflictError, match="another table"):
        spark_engine.create_table(stranger, snapshot, (("id", "int"),))


def test_a_column_without_a_type_is_refused_with_advice(spark_engine: SparkEngine) -> None:
    snapshot = make_snapshot(Full(), {"x": "void"})
    with pytest.raises(ExecutionError, match=r"CAST\(NULL AS STRING\)"):
        spark_engine.create_table(make_table(snapshot), snapshot, (("x", "void"),))


def test_a_view_has_no_table_to_fill(spark_engine: SparkEngine) -> None:
    snapshot = make_snapshot(View(), {"x": "int"})
    with pytest.raises(ExecutionError, match="VIEW, which has no table"):
        spark_engine.create_table(make_table(snapshot), snapshot, (("x", "int"),))


def test_statements_run_around_the_query_in_a_session_of_their_own(
    spark_engine: SparkEngine,
) -> None:
    table = Warehouse(
        spark_engine,
        Full(),
        {"x": "int", "tz": "string"},
        pre_statements=(
            "CREATE TEMPORARY VIEW helper AS SELECT 42 AS x",
            "SET TIME ZONE 'Asia/Tokyo'",
        ),
        post_statements=("DELETE FROM @this_model WHERE x = day(CAST(@start_ds AS DATE))",),
    )
    for _ in range(2):
        table.fill(
            "SELECT x, current_timezone() AS tz FROM helper UNION ALL SELECT 3, 'gone'",
            days(3, 4),
        )
    assert table.rows() == [(42, "Asia/Tokyo")]
    assert spark_engine.query("SELECT current_timezone()")[1] == (("UTC",),)


def test_what_fails_says_model_interval_and_reason_in_one_line(spark_engine: SparkEngine) -> None:
    table = Warehouse(spark_engine, Full(), {"id": "int"})
    table.fill("SELECT 1 AS id", days(1, 2))
    wrong = {
        "SELECT nothing AS id FROM range(1)": "UNRESOLVED_COLUMN.*`nothing`",
        "SELECT 1 AS other": "`id` cannot be resolved",
        "SELECT id FROM lakehouse.gone.gone": "TABLE_OR_VIEW_NOT_FOUND.*Hint: check the table",
        "SELECT CAST('x' AS INT) AS id": "CAST_INVALID_INPUT",
        "SELECT 99999999999 AS id": "CAST_OVERFLOW",
        "SELECT 1 / (id - 1) AS id FROM range(5)": "DIVIDE_BY_ZERO.*Hint: use try_divide",
        "SELEC 1": "PARSE_SYNTAX_ERROR",
    }
    for query, reason in wrong.items():
        with pytest.raises(ExecutionError, match=reason) as caught:
            table.fill(query, days(3, 4))
        message = str(caught.value)
        assert message.startswith(f"{table.snapshot.name} 2013-01-03 failed:")
        assert "\n" not in message
        assert "\tat " not in message
        assert caught.value.__cause__ is not None
    assert table.rows() == [(1,)]


def test_a_dropped_table_is_said_so(spark_engine: SparkEngine) -> None:
    table = Warehouse(spark_engine, Full(), {"id": "int"})
    spark_engine.session.sql(f"DROP TABLE {table.name}")
    with pytest.raises(ExecutionError, match="has no table"):
        table.fill("SELECT 1 AS id", days(1, 2))


@pytest.mark.parametrize("rows", [[(1, "a, b", 1.5, date(2013, 1, 1)), (2, None, None, None)], []])
def test_a_seed_gets_its_rows_with_types(
    spark_engine: SparkEngine, tmp_path: Path, rows: list[tuple[object, ...]]
) -> None:
    lines = ["id,name,price,day", '1,"a, b",1.50,2013-01-01', "2,,,"]
    content = "".join(f"{line}\n" for line in lines[: 1 + len(rows)]).encode()
    (tmp_path / "prices.csv").write_bytes(content)
    sha = hashlib.sha256(content).hexdigest()
    kind = Seed("prices.csv", content_hash=sha, row_count=len(rows))
    types = {"id": "int", "name": "string", "price": "double", "day": "date"}
    table = Warehouse(spark_engine, kind, types)
    engine = SparkEngine(spark_engine.settings, tmp_path, lakehouse_of(spark_engine.settings))
    assert engine.fill(table.task(None, days(1, 2))).rows == len(rows)
    engine.close()
    assert table.rows() == rows
