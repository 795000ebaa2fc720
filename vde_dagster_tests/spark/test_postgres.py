"""The engine on a PostgreSQL catalog, with a real server."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vde_dagster.errors import StoreError
from vde_dagster.lakehouse.catalogs import by_settings
from vde_dagster.project.kinds import IncrementalByTimeRange, IncrementalByUniqueKey
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of, small_spark
from vde_dagster_tests.spark.tasks import Warehouse, days
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture
def postgres_engine(spark_engine: SparkEngine, tmp_path: Path) -> Iterator[SparkEngine]:
    assert spark_engine.session is not None
    server = PostgresServer()
    url = server.url(server.create_database()).replace("postgresql:", "postgresql+psycopg:")
    settings = dataclasses.replace(small_spark(tmp_path), state_url=url)
    engine = SparkEngine(settings, lakehouse=lakehouse_of(settings))
    yield engine
    engine.close()
    server.stop()


def test_threads_fill_tables_of_a_postgresql_catalog(postgres_engine: SparkEngine) -> None:
    columns = {"id": "bigint", "ts": "timestamp"}
    query = (
        "SELECT id, TIMESTAMP '2013-01-01' + make_dt_interval(0, CAST(id AS INT)) AS ts "
        "FROM range(96)"
    )
    by_time = Warehouse(postgres_engine, IncrementalByTimeRange("ts"), columns)
    by_key = Warehouse(postgres_engine, IncrementalByUniqueKey(("id",)), columns)
    jobs = [(table, days(n, n + 1)) for n in range(1, 5) for table in (by_time, by_key)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: job[0].fill(query, job[1]), jobs))
    for table in (by_time, by_key):
        assert table.rows("count(*), count(DISTINCT id)") == [(96, 96)]


def test_a_jvm_without_the_driver_is_refused_with_a_clear_message(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(by_settings._DRIVERS, "postgresql", "org.postgresql.NoDriver")
    settings = dataclasses.replace(small_spark(tmp_path), state_url="postgresql://nowhere/vde")
    with pytest.raises(StoreError, match=r"without the database driver org\.postgresql\.NoDriver"):
        SparkEngine(settings).analyze("SELECT 1")
