"""A part of the search for expressions of other dialects with other values on Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from benchmarks.dialect_expressions import Run, duckdb_run, postgres_run, search, spark_run
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.spark.random_pairs import quick_session

pytestmark = [pytest.mark.spark, pytest.mark.turns(32, "what Spark does")]
COUNT = 40


def engine(dialect: str, folder: Path) -> AbstractContextManager[Run]:
    if dialect == "postgres":
        return postgres_run(folder / "pg")
    return nullcontext(duckdb_run())


@pytest.mark.parametrize("seed", range(101, 109))
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_accepted_expressions_have_the_values_of_their_engine(
    spark_engine: SparkEngine, tmp_path: Path, dialect: str, seed: int
) -> None:
    print(f"seed {seed}")
    session = quick_session(spark_engine.session)
    with engine(dialect, tmp_path) as run:
        found = search(dialect, run, spark_run(session, dialect), seed, COUNT, 3)

    assert found.equal > COUNT / 4
    assert not found.different
