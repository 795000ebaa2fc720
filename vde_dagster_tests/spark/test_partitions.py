"""Tables whose partitions are replaced, and tables that are added to, on a real catalog."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from vde_dagster.project.kinds import IncrementalByPartition, IncrementalUnmanaged
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = pytest.mark.spark

COLUMNS = {"region": "string", "at": "timestamp", "v": "int"}
PHYSICAL = {"region": "region_1"}


def rows(*values: tuple[str | None, int, int]) -> str:
    """A query of (region, day of January 2013, v); none for no values."""
    texts = [
        f"({'NULL' if region is None else repr(region)}, TIMESTAMP '2013-01-{day:02}', {v})"
        for region, day, v in (*values, ("", 1, -1))
    ]
    return f"SELECT * FROM VALUES {', '.join(texts)} t(region, at, v) WHERE v >= 0"


def by_partition(engine: SparkEngine, *partitions: str) -> Warehouse:
    kind = IncrementalByPartition()
    return Warehouse(engine, kind, COLUMNS, PHYSICAL, partitioned_by=partitions)


def test_exactly_the_partitions_that_a_fill_has_rows_of_are_replaced(
    spark_engine: SparkEngine,
) -> None:
    table = by_partition(spark_engine, "region", "days(at)")
    table.fill(rows(("a", 1, 1), ("a", 1, 2), ("a", 2, 3), (None, 1, 4)), days(1, 2))
    for _ in range(2):
        table.fill(rows(("a", 1, 5), (None, 1, 6), ("b", 1, 7)), days(2, 3))
        assert table.rows("region_1, day(at), v") == [
            ("a", 1, 5),
            ("a", 2, 3),
            ("b", 1, 7),
            (None, 1, 6),
        ]


def test_a_fill_without_rows_replaces_nothing_and_is_known_by_its_commit(
    spark_engine: SparkEngine,
) -> None:
    for table in (
        by_partition(spark_engine, "region"),
        Warehouse(spark_engine, IncrementalUnmanaged(), COLUMNS, PHYSICAL),
        by_partition(spark_engine, "bucket(4, region)"),
    ):
        table.fill(rows(("a", 1, 1)), days(1, 2), branch="plan_1")
        result = table.fill(rows(), days(2, 3), branch="plan_1")
        assert result.rows == 0
        assert table.summary(result.iceberg_snapshot_id)["vde.interval"] == str(days(2, 3))
        assert table.rows("v", " VERSION AS OF 'plan_1'") == [(1,)]
        assert table.rows() == []


def test_rows_are_added(spark_engine: SparkEngine) -> None:
    table = Warehouse(spark_engine, IncrementalUnmanaged(), COLUMNS, PHYSICAL)
    table.fill(rows(("a", 1, 1)), days(1, 2))
    assert table.fill(rows(("a", 1, 1), ("b", 1, 2)), days(2, 3)).rows == 2
    assert table.rows("region_1, v") == [("a", 1), ("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("partitions", "left"), [(("region",), [("a", 3), ("b", 2)]), ((), [("a", 3)])]
)
def test_insert_overwrite_replaces_partitions_or_everything(
    spark_engine: SparkEngine, partitions: tuple[str, ...], left: list[tuple[str, int]]
) -> None:
    kind = IncrementalUnmanaged(insert_overwrite=True)
    table = Warehouse(spark_engine, kind, COLUMNS, PHYSICAL, partitioned_by=partitions)
    table.fill(rows(("a", 1, 1), ("b", 1, 2)), days(1, 2))
    table.fill(rows(("a", 1, 3)), days(2, 3))
    assert table.rows("region_1, v") == left


@pytest.mark.parametrize("kind", [IncrementalByPartition(), IncrementalUnmanaged()])
def test_what_is_made_anew_keeps_nothing(
    spark_engine: SparkEngine, kind: IncrementalByPartition | IncrementalUnmanaged
) -> None:
    table = Warehouse(spark_engine, kind, COLUMNS, PHYSICAL, partitioned_by=("region",))
    table.fill(rows(("a", 1, 1), ("b", 1, 2)), days(1, 2))
    table.fill(rows(("c", 1, 3)), days(1, 2), anew=True)
    assert table.rows("region_1, v") == [("c", 3)]


def test_two_engines_at_once_leave_every_partition_whole(spark_engine: SparkEngine) -> None:
    table = by_partition(spark_engine, "region")
    added = Warehouse(spark_engine, IncrementalUnmanaged(), COLUMNS, PHYSICAL)
    other = SparkEngine(spark_engine.settings, lakehouse=lakehouse_of(spark_engine.settings))
    query = (
        "SELECT CAST(id % 3 AS STRING) AS region, TIMESTAMP '2013-01-01' AS at, {} AS v "
        "FROM range(30)"
    )
    with ThreadPoolExecutor(2) as pool:
        jobs = [(engine, n) for n in range(2) for engine in (spark_engine, other)]
        for one in (table, added):
            tasks = [
                (e, one.task(query.format(i), days(i + 1, i + 2))) for i, (e, _) in enumerate(jobs)
            ]
            list(pool.map(lambda job: job[0].fill(job[1]), tasks))
    other.close()
    kept = table.rows("region_1, count(*), count(DISTINCT v)", " GROUP BY region_1")
    assert kept == [("0", 10, 1), ("1", 10, 1), ("2", 10, 1)]
    assert added.rows("v, count(*)", " GROUP BY v") == [(n, 30) for n in range(4)]
