"""What the tasks of a fill took and read: of its own jobs, and of nobody else's."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from vde_dagster.project.kinds import Full, IncrementalByUniqueKey
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session import usage
from vde_dagster.spark.session.usage import UNKNOWN, read_usage, request_usage, serve_usage
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

WIDE = {"id": "bigint", "v": "string"}


def _filled(engine: SparkEngine, rows: int) -> Warehouse:
    table = Warehouse(engine, Full(), WIDE)
    table.fill(f"SELECT id, CAST(rand() AS STRING) AS v FROM range({rows})", days(1, 2))
    return table


def _size(table: Warehouse) -> int:
    _, rows = table.engine.query(f"SELECT sum(file_size_in_bytes) FROM {table.name}.files")
    return int(rows[0][0])


def test_a_fill_read_the_files_that_its_scans_planned(spark_engine: SparkEngine) -> None:
    source = _filled(spark_engine, 20_000)
    size = _size(source)
    table = Warehouse(spark_engine, Full(), {"n": "bigint"})
    once = table.fill(f"SELECT count(DISTINCT v) AS n FROM {source.name}", days(1, 2))
    beside = f"{source.name} AS a JOIN {source.name} AS b ON a.id = b.id + 1"
    twice = table.fill(f"SELECT count(*) AS n FROM {beside}", days(1, 2))
    none = table.fill("SELECT 1L AS n", days(1, 2))
    assert once.bytes_read == size
    assert twice.bytes_read == 2 * size
    assert none.bytes_read == 0
    assert all(one.task_seconds > 0 for one in (once, twice, none))


def test_a_merge_has_read_its_table_too(spark_engine: SparkEngine) -> None:
    table = Warehouse(spark_engine, IncrementalByUniqueKey(unique_key=("id",)), WIDE)
    table.fill("SELECT id, 'a' AS v FROM range(1000)", days(1, 2))
    size = _size(table)
    merged = table.fill("SELECT id, 'b' AS v FROM range(10)", days(2, 3))
    assert merged.bytes_read >= size


def test_fills_at_the_same_time_are_told_apart(spark_engine: SparkEngine) -> None:
    sources = [_filled(spark_engine, 2_000 * 3**number) for number in range(4)]
    tables = [Warehouse(spark_engine, Full(), {"n": "bigint"}) for _ in sources]

    def fill(pair: tuple[Warehouse, Warehouse]) -> int:
        table, source = pair
        query = f"SELECT count(DISTINCT v) AS n FROM {source.name}"
        read: int = table.fill(query, days(1, 2)).bytes_read
        return read

    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(fill, zip(tables, sources, strict=True)))
    assert read == [_size(source) for source in sources]
    assert all(less < more for less, more in pairwise(read))


def test_of_what_is_not_known_as_a_whole_nothing_is_said(spark_engine: SparkEngine) -> None:
    context = spark_engine.session.sparkContext
    assert read_usage(context, "nobody has it") == UNKNOWN
    table = Warehouse(spark_engine, Full(), {"n": "bigint"})
    files = f"SELECT count(*) AS n FROM {table.name}.all_manifests"
    assert table.fill(files, days(1, 2)).task_seconds > 0


def test_who_has_the_token_is_answered_and_nobody_else(spark_engine: SparkEngine) -> None:
    context = spark_engine.session.sparkContext
    port = serve_usage(context, "right")
    context.addJobTag("asked")
    spark_engine.session.sql("SELECT sum(id) FROM range(1000)").collect()
    context.removeJobTag("asked")
    assert request_usage(port, "wrong", "asked") == UNKNOWN
    with socket.create_connection(("127.0.0.1", port)):  # Who says nothing keeps nobody waiting.
        told = request_usage(port, "right", "asked")
    assert told == read_usage(context, "asked")
    assert told.task_seconds is not None
    assert told.bytes_read == 0


def test_scans_of_memory_and_of_changed_rows_leave_the_bytes_known() -> None:
    """As Spark names the nodes of a refresh from changes, whose keys are cached."""
    assert usage._reads_files("BatchScan lakehouse.raw.orders")
    assert usage._reads_files("Scan parquet")
    for name in ("InMemoryTableScan", "BatchScan lakehouse.raw.orders.changes", "LocalTableScan"):
        assert not usage._reads_files(name)
