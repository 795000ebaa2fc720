"""Nested values that Spark wrote, read without it: see `benchmarks/nested_reads.py` for more."""

from __future__ import annotations

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import lakehouse_of
from vde_dagster_tests.lakehouse.nested_reads_on_spark import compare_seed

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [1, 3, 4, 9])
def test_nested_tables_of_spark_are_read_as_spark_reads_them(
    spark_engine: SparkEngine, seed: int
) -> None:
    found = compare_seed(spark_engine, lakehouse_of(spark_engine.settings), seed, columns=8)
    assert found.wrong == []
    assert found.values > 100
