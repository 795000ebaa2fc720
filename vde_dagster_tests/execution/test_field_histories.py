"""Histories of struct fields that change in place; `benchmarks.field_histories` plays many."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.execution.field_histories import play


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 7])
def test_every_environment_shows_the_fields_of_its_own_definition(
    seed: int, tmp_path: Path, spark_engine: SparkEngine
) -> None:
    counts = play(tmp_path, seed, 6)
    assert counts["rows"] > 10
