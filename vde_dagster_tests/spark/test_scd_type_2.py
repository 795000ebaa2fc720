"""Tables of slowly changing dimensions on a real catalog, against a model in plain Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from vde_dagster.lakehouse.metadata.commit_summaries import is_quiet
from vde_dagster.project.kinds import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of
from vde_dagster_tests.spark.scd_reference import COLUMNS, History, query, states
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

KEY = ("id", "part")
START = datetime(2024, 1, 1, 12)
KINDS = {
    "by time": ScdType2ByTime(KEY),
    "by time, deletes": ScdType2ByTime(KEY, invalidate_hard_deletes=True),
    "by days, deletes": ScdType2ByTime(
        KEY, updated_at_as_valid_from=True, invalidate_hard_deletes=True, time_data_type="DATE"
    ),
    "by time, from updated_at, key of an expression": ScdType2ByTime(
        ("COALESCE(id, -1)",), updated_at_as_valid_from=True, invalidate_hard_deletes=True
    ),
    "by column": ScdType2ByColumn(KEY, ("v",)),
    "by column, deletes": ScdType2ByColumn(KEY, ("v", "w"), invalidate_hard_deletes=True),
    "by all columns, from the first load": ScdType2ByColumn(
        KEY, ("*",), execution_time_as_valid_from=True, invalidate_hard_deletes=True
    ),
    "by all columns, since updated_at": ScdType2ByColumn(
        KEY, ("*",), updated_at_name="updated_at", invalidate_hard_deletes=True
    ),
}


def in_utc(kind: ScdType2) -> ScdType2:
    """Let the ends be what Python compares with instants of the sources."""
    return kind if kind.time_data_type == "DATE" else replace(kind, time_data_type="TIMESTAMP_NTZ")


def dimension(
    engine: SparkEngine, kind: ScdType2, columns: dict[str, str] | None = None, **more: Any
) -> Warehouse:
    """A table with the columns that the kind adds."""
    ends = {column.name: column.type.lower() for column in kind.added_columns}
    return Warehouse(engine, kind, {**(columns or COLUMNS), **ends}, **more)


def at(day: int) -> datetime:
    """The instant of a fill."""
    return (START + timedelta(days=day)).replace(tzinfo=timezone.utc)


def fill(table: Warehouse, sql: str, day: int, **changes: Any) -> Any:
    """Fill the interval of a day of January 2013, as a run of 2024 does."""
    values = {"execution_time": at(day), **changes}
    return table.fill(sql, days(day + 1, day + 2), **values)


def changed(table: Warehouse, result: Any) -> tuple[int, int, int]:
    """How many rows a commit wrote, deleted by position, and deleted with their files."""
    summary = table.summary(result.iceberg_snapshot_id)
    names = ("added-records", "added-position-deletes", "deleted-records")
    written, by_position, with_files = (int(summary.get(name, 0)) for name in names)
    return written, by_position, with_files


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", KINDS)
def test_the_table_is_what_a_model_in_plain_python_says(
    spark_engine: SparkEngine, name: str
) -> None:
    seed = sorted(KINDS).index(name)
    kind = in_utc(KINDS[name])
    table, history = dimension(spark_engine, kind), History(kind)
    for day, rows in enumerate(states(seed, 4, 120)):
        fill(table, query(rows), day)
        history.load(rows, at(day).replace(tzinfo=None))
        assert table.rows() == history.rows(), f"seed {seed}, day {day}"
        key = "COALESCE(id, -1)" if "expression" in name else "id, part"
        for end in ("valid_from", "valid_to"):
            twice = f"SELECT 1 FROM {table.name} GROUP BY {key}, {end} HAVING count(*) > 1"
            assert spark_engine.query(twice)[1] == ()
    assert any(len(versions) > 2 for versions in history.keys.values())


LOG = """
    SELECT 'insert' AS _change_type, valid_from AS _changed_at, id, dish, price FROM {0}
    UNION ALL
    SELECT 'delete', valid_to, id, dish, price FROM {0} WHERE valid_to IS NOT NULL
"""
"""As docs/changes.md has it."""


def test_its_versions_are_a_log_of_changes_by_which_a_copy_is_equal_at_each_time(
    spark_engine: SparkEngine,
) -> None:
    columns = {"id": "int", "dish": "string", "price": "int"}
    kind = ScdType2ByColumn(
        ("id",), ("*",), execution_time_as_valid_from=True, invalidate_hard_deletes=True
    )
    table = dimension(spark_engine, in_utc(kind), columns)
    days_rows = [
        {(1, "soup", 4), (2, "cake", 3)},
        {(1, "soup", 5), (3, "tea", 2)},
        {(1, "soup", 4), (2, "cake", 3), (3, "tea", 2)},
        {(2, "pie", 3)},
    ]
    for day, held in enumerate(days_rows):
        values = ", ".join(f"({i}, '{dish}', {price})" for i, dish, price in held)
        fill(table, f"SELECT * FROM VALUES {values} t(id, dish, price)", day)
    _, log = spark_engine.query(LOG.format(table.name))
    copy: set[tuple[Any, ...]] = set()
    for day, held in enumerate(days_rows):
        changes = [row for row in log if row[1] == at(day).replace(tzinfo=None)]
        copy -= {tuple(row[2:]) for row in changes if row[0] == "delete"}
        copy |= {tuple(row[2:]) for row in changes if row[0] == "insert"}
        assert copy == held, day
    assert len(log) == 13


MAPS = {"id": "int", "m": "map<string,string>"}
MENU = {"id": "int", "dish": "string", "price": "int", "updated_at": "date"}


def menu(*rows: tuple[int, str, int, str]) -> str:
    """The kitchen's menu."""
    values = ", ".join(f"({i}, '{dish}', {price}, DATE '{at}')" for i, dish, price, at in rows)
    return f"SELECT * FROM VALUES {values} t(id, dish, price, updated_at)"


def test_maps_are_compared_by_entries_and_not_as_spark_prints_them(
    spark_engine: SparkEngine,
) -> None:
    table = dimension(spark_engine, ScdType2ByColumn(("id",), ("*",)), MAPS)
    printed_alike = ("'a', CAST(NULL AS STRING)", "'a', 'null'")
    for day, entries in enumerate((*printed_alike, "'a', '1', 'b', '2'", "'b', '2', 'a', '1'")):
        fill(table, f"SELECT 1 AS id, map({entries}) AS m", day)
    assert table.rows("DAY(valid_from)") == [(1,), (2,), (3,)]


def test_only_rows_that_change_are_written_or_deleted(spark_engine: SparkEngine) -> None:
    kind = ScdType2ByTime(("id",), invalidate_hard_deletes=True)
    table = dimension(spark_engine, kind, MENU)
    many = tuple((n, "dish", n, "2024-01-01") for n in range(100))
    fill(table, menu(*many), 0)
    later = menu((0, "soup", 5, "2024-01-02"), *many[2:], (200, "cake", 3, "2024-01-02"))
    result = fill(table, later, 1)
    # A version that ends is deleted and written: of 0 and of 1; 0 and 200 begin.
    assert changed(table, result) == (4, 2, 0)
    assert result.rows == 4
    again = fill(table, later, 1)
    assert changed(table, again) == (0, 0, 0)
    assert again.iceberg_snapshot_id != result.iceberg_snapshot_id
    summary = table.summary(again.iceberg_snapshot_id)
    assert summary["vde.interval"] == str(days(2, 3))
    assert is_quiet(summary)  # Runs leave what reads it as it is.
    assert table.rows("count(*), count_if(valid_to IS NULL)") == [(102, 100)]


def test_a_first_load_of_nothing_is_a_first_load(spark_engine: SparkEngine) -> None:
    table = dimension(spark_engine, ScdType2ByColumn(("id",), ("dish",)), MENU)
    nothing = f"{menu((1, 'soup', 1, '2024-01-01'))} WHERE false"
    fill(table, nothing, 0)
    fill(table, menu((1, "soup", 1, "2024-01-01")), 1)
    assert table.rows("id, CAST(valid_from AS STRING)") == [(1, "2024-01-02 12:00:00")]


def test_a_table_that_is_filled_again_from_its_beginning_begins_anew(
    spark_engine: SparkEngine,
) -> None:
    table = dimension(spark_engine, ScdType2ByTime(("id",)), MENU)
    fill(table, menu((1, "soup", 4, "2024-01-01")), 0)
    fill(table, menu((1, "soup", 5, "2024-01-02")), 1)
    fill(table, menu((1, "soup", 6, "2024-01-03")), 2, anew=True)
    assert table.rows("id, price, CAST(valid_to AS STRING)") == [(1, 6, None)]


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE"])
def test_instants_are_utc_whatever_the_session_says(spark_engine: SparkEngine, type_: str) -> None:
    kind = ScdType2ByTime(("id",), time_data_type=type_, invalidate_hard_deletes=True)
    physical = {"valid_to": "until_ab", "updated_at": "updated_cd", "id": "id_ef"}
    zone = ("SET spark.sql.session.timeZone = America/New_York",)
    table = dimension(spark_engine, kind, MENU, physical=physical, pre_statements=zone)
    fill(table, menu((1, "soup", 4, "2024-01-01"), (2, "pie", 9, "2024-01-01")), 0)
    fill(table, menu((1, "soup", 5, "2024-01-02")), 1)
    midnight = "" if type_ == "DATE" else " 00:00:00"
    noon = "" if type_ == "DATE" else " 12:00:00"
    found = "id_ef, price, CAST(valid_from AS STRING), CAST(until_ab AS STRING)"
    assert table.rows(found) == [
        (1, 4, f"1970-01-01{midnight}", f"2024-01-02{midnight}"),
        (1, 5, f"2024-01-02{midnight}", None),
        (2, 9, f"1970-01-01{midnight}", f"2024-01-02{noon}"),
    ]


def test_a_batch_says_what_was_so_from_its_intervals_start(spark_engine: SparkEngine) -> None:
    kind = ScdType2ByColumn(("id",), ("price",), invalidate_hard_deletes=True, batch_size=1)
    table = dimension(spark_engine, kind, MENU)
    for day, price in enumerate([4, 5, 5]):
        fill(table, menu((1, "soup", price, "2020-01-01"), (day, "day", 0, "2020-01-01")), day)
    found = "id, price, CAST(valid_from AS STRING), CAST(valid_to AS STRING)"
    assert [row for row in table.rows(found) if row[1]] == [
        (1, 4, "1970-01-01 00:00:00", "2013-01-02 00:00:00"),
        (1, 5, "2013-01-02 00:00:00", None),
    ]


def test_columns_of_types_that_have_no_order_are_compared(spark_engine: SparkEngine) -> None:
    columns = {"id": "int", "m": "map<string,int>", "a": "array<struct<x:double>>"}
    table = dimension(spark_engine, ScdType2ByColumn(("id",), ("*",)), columns)
    row = "SELECT 1 AS id, map('a', {}) AS m, array(named_struct('x', {})) AS a"
    for day, values in enumerate([(1, "1D"), (1, "1D"), (2, "1D"), (2, "double('nan')")]):
        fill(table, row.format(*values), day)
    fill(table, row.format(2, "double('nan')"), 5)
    assert table.rows("count(*), count(valid_to)") == [(3, 2)]


def test_two_writers_at_once_lose_and_double_nothing(spark_engine: SparkEngine) -> None:
    kind = ScdType2ByColumn(("id",), ("dish", "price"))
    table = dimension(spark_engine, kind, MENU)
    fill(table, menu(*((n, "dish", 0, "2024-01-01") for n in range(20))), 0)
    other = SparkEngine(spark_engine.settings, lakehouse=lakehouse_of(spark_engine.settings))
    jobs = [(engine, n) for n in (1, 2) for engine in (spark_engine, other)]
    with ThreadPoolExecutor(2) as pool:

        def run(job: tuple[SparkEngine, int]) -> Any:
            engine, n = job
            rows = [(n, "dish", 1, "2024-01-01") for n in range(20 + 10 * n)]
            task = table.task(menu(*rows), days(n + 1, n + 2), execution_time=at(n))
            return engine.fill(task)

        results = list(pool.map(run, jobs))
    other.close()
    assert len({result.iceberg_snapshot_id for result in results}) == 4
    assert table.rows("count(DISTINCT id), count_if(valid_to IS NULL), count(*)") == [(40, 40, 60)]
    _, left = spark_engine.query(f"SELECT name FROM {table.name}.refs")
    assert left == (("main",),)


def test_what_is_filled_beside_main_stays_there(spark_engine: SparkEngine) -> None:
    table = dimension(spark_engine, ScdType2ByTime(("id",)), MENU)
    fill(table, menu((1, "soup", 4, "2024-01-01")), 0, branch="plan_1")
    fill(table, menu((1, "soup", 5, "2024-01-02")), 1, branch="plan_1")
    assert table.rows() == []
    assert len(table.rows(source=" VERSION AS OF 'plan_1'")) == 2
